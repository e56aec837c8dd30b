package autodiff

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// composed builds nodes on a float32 input x, replaces composites, and returns the last
// operator and the number of nodes left.
func composed(t *testing.T, build func(e *emitter, x ID) ID) (op string, left int) {
	t.Helper()
	g := &graph.Graph{}
	e := newEmitter(g, []graph.Opset{{Version: 20}}, nil)
	x := e.newTensor("x", graph.TensorOf(graph.Float32, 2, 3), nil)
	build(e, x)
	if e.err != nil {
		t.Fatal(e.err)
	}
	nodes := e.composites(g.Nodes)
	return nodes[len(nodes)-1].Op, len(nodes)
}

func TestComposites(t *testing.T) {
	half := func(e *emitter, x ID) ID { return e.scalar(x, 0.5) }
	erf := func(e *emitter, x ID) ID { return e.plus(e.op("Erf", e.div(x, e.scalar(x, math.Sqrt2))), 1) }
	for _, c := range []struct {
		name  string
		build func(e *emitter, x ID) ID
		op    string
		left  int
	}{
		{"swish", func(e *emitter, x ID) ID { return e.mul(x, e.op("Sigmoid", x)) }, "Swish", 1},
		{"a gate that others read stays", func(e *emitter, x ID) ID {
			s := e.op("Sigmoid", x)
			e.op("Neg", s)
			return e.mul(s, x)
		}, "Mul", 3},
		{"a gate of another tensor stays", func(e *emitter, x ID) ID { return e.mul(e.op("Neg", x), e.op("Sigmoid", x)) }, "Mul", 3},
		{"hard swish", func(e *emitter, x ID) ID {
			return e.mul(e.with("HardSigmoid", attrs{"alpha": 1.0 / 6, "beta": 0.5}, x), x)
		}, "HardSwish", 1},
		{"gelu, x first", func(e *emitter, x ID) ID { return e.mul(e.mul(x, erf(e, x)), half(e, x)) }, "Gelu", 1},
		{"gelu, half first", func(e *emitter, x ID) ID { return e.mul(e.mul(half(e, x), x), erf(e, x)) }, "Gelu", 1},
		{"gelu, half of the sum", func(e *emitter, x ID) ID { return e.mul(x, e.mul(erf(e, x), half(e, x))) }, "Gelu", 1},
		{"gelu by tanh", func(e *emitter, x ID) ID {
			cube := e.op("Pow", x, e.scalar(x, 3))
			u := e.times(e.add(x, e.times(cube, 0.044715)), math.Sqrt(2/math.Pi))
			return e.mul(e.mul(x, half(e, x)), e.plus(e.op("Tanh", u), 1))
		}, "Gelu", 1},
		{"another constant is no gelu", func(e *emitter, x ID) ID {
			return e.mul(e.mul(x, e.plus(e.op("Erf", e.div(x, e.scalar(x, 2))), 1)), half(e, x))
		}, "Mul", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if op, left := composed(t, c.build); op != c.op || left != c.left {
				t.Errorf("got %s as the last of %d nodes, want %s of %d", op, left, c.op, c.left)
			}
		})
	}
}
