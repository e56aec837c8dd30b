package training

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// uniform evaluates nodes for tensors whose elements are all equal, in float64. Updates are elementwise,
// but for sums over all gradients: what they make of equal elements they make of each element.
type uniform struct {
	p      *prover
	values map[graph.TensorID]float64
}

// value returns what all elements of a tensor are.
func (u *uniform) value(t graph.TensorID) (float64, error) {
	if t < 0 {
		return 0, fmt.Errorf("an input is missing")
	}
	if v, known := u.values[t]; known {
		return v, nil
	}
	x := u.p.g.Tensors[t]
	v, err := 0.0, error(nil)
	switch {
	case x.Data != nil:
		v, err = u.p.all(x.Data)
	case x.Maker < 0:
		err = fmt.Errorf("it reads %q", graph.Short(x.Name))
	default:
		v, err = u.node(u.p.g.Nodes[x.Maker], x.Maker)
	}
	if err != nil {
		return 0, err
	}
	u.values[t] = v
	return v, nil
}

// node computes the first output of a node.
func (u *uniform) node(n *graph.Node, id graph.NodeID) (float64, error) {
	f, known := elementwise[n.Op]
	reduced, sums := reductions[n.Op]
	if n.Domain != "" || !known && !sums {
		return 0, fmt.Errorf("%s: expected an elementwise operator", u.p.g.Label(id))
	}
	if sums {
		if !u.p.whole(n) {
			return 0, fmt.Errorf("%s: expected a sum over all elements", u.p.g.Label(id))
		}
		v, err := u.value(n.Inputs[0])
		return reduced(v, float64(u.p.elements(n.Inputs[0]))), err
	}
	in := make([]float64, 3)
	for k, t := range n.Inputs {
		if n.Op == "CastLike" && k > 0 {
			break
		}
		v, err := u.value(t)
		if err != nil {
			return 0, err
		}
		if k >= len(in) {
			return 0, fmt.Errorf("%s: expected at most %d inputs", u.p.g.Label(id), len(in))
		}
		in[k] = v
	}
	return f(in[0], in[1], in[2]), nil
}

// elements is the number of elements of a tensor.
func (p *prover) elements(t graph.TensorID) int64 {
	n := int64(1)
	for _, d := range p.g.Tensors[t].Type.Shape {
		n *= int64(d)
	}
	return n
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// elementwise are operators on numbers; bools are 0 and 1.
var elementwise = map[string]func(a, b, c float64) float64{
	"Identity":    func(a, _, _ float64) float64 { return a },
	"Cast":        func(a, _, _ float64) float64 { return a },
	"CastLike":    func(a, _, _ float64) float64 { return a },
	"Add":         func(a, b, _ float64) float64 { return a + b },
	"Sub":         func(a, b, _ float64) float64 { return a - b },
	"Mul":         func(a, b, _ float64) float64 { return a * b },
	"Div":         func(a, b, _ float64) float64 { return a / b },
	"Pow":         func(a, b, _ float64) float64 { return math.Pow(a, b) },
	"Min":         func(a, b, _ float64) float64 { return math.Min(a, b) },
	"Abs":         func(a, _, _ float64) float64 { return math.Abs(a) },
	"Sqrt":        func(a, _, _ float64) float64 { return math.Sqrt(a) },
	"Not":         func(a, _, _ float64) float64 { return 1 - a },
	"And":         func(a, b, _ float64) float64 { return a * b },
	"Equal":       func(a, b, _ float64) float64 { return truth(a == b) },
	"LessOrEqual": func(a, b, _ float64) float64 { return truth(a <= b) },
	"Where": func(a, b, c float64) float64 {
		if a != 0 {
			return b
		}
		return c
	},
}

// reductions are those over all of n elements v.
var reductions = map[string]func(v, n float64) float64{
	"ReduceSum":       func(v, n float64) float64 { return n * v },
	"ReduceSumSquare": func(v, n float64) float64 { return n * (v * v) },
	"ReduceL1":        func(v, n float64) float64 { return n * math.Abs(v) },
	"ReduceMean":      func(v, _ float64) float64 { return v },
}

// all returns the number that all elements of an initializer are.
func (p *prover) all(d *graph.Data) (float64, error) {
	raw, err := p.files[0].Read(d)
	if err != nil {
		return 0, err
	}
	shape := make([]int, len(d.Dims))
	for i, n := range d.Dims {
		shape[i] = int(n)
	}
	x, err := reference.Decode(d.Type, shape, raw.Raw)
	if err != nil {
		return 0, err
	}
	list := x.F
	for _, v := range x.I {
		list = append(list, float64(v))
	}
	if len(list) == 0 || slices.ContainsFunc(list, func(v float64) bool { return v != list[0] }) {
		return 0, fmt.Errorf("initializer %q: expected equal elements", graph.Short(d.Name))
	}
	return list[0], nil
}
