package vm_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// bodyNets are graphs with bodies whose tensors depend on dimensions. x[1] is the batch.
var bodyNets = []struct {
	name   string
	text   graphText
	ranges map[string]string
}{
	{
		name: "a Scan with an If inside",
		text: graphText{main: `
			in x float32[3,?,4]
			a = Relu(x)
			r = ReduceMax(a) axes=[0] keepdims=0
			w = Transpose(r) perm=[1, 0]
			s, y = Scan(r, a) num_scan_inputs=1
			m = MatMul(s, w)
			out m
			out y
		`, bodies: map[string]string{
			"s.body": `
				in s
				in v
				u = Add(v, s)
				c = Tanh(u)
				k = ReduceSum(u) keepdims=0
				z = Sub(k, k)
				p = Less(k, z)
				i, q = If(p)
				j = Add(i, q)
				d = Identity(j)
				f = Concat(c, d) axis=1
				g = Neg(f)
				out d
				out g
			`,
			"i.then_branch": "a = Exp(u)\nb = Mul(a, c)\nout b\nout c",
			"i.else_branch": "a = MatMul(u, w)\nb = MatMul(a, u)\nd = Sin(b)\ne = Mul(d, b)\nout e\nout d",
		}},
		ranges: map[string]string{"x[1]": "1..9"},
	},
	{
		name: "a Loop whose number of iterations is an input",
		text: graphText{main: `
			in n int64[]
			in x float32[?,?,3]
			t = Transpose(x) perm=[0, 2, 1]
			y, rows = Loop(n, _, x)
			z = MatMul(y, t)
			out z
			out rows
		`, bodies: map[string]string{
			"y.body": `
				in i
				in c
				in v
				d = Identity(c)
				e = Exp(v)
				f = MatMul(e, t)
				g = Softmax(f)
				h = MatMul(g, x)
				k = Sigmoid(h)
				r = ReduceSum(k) keepdims=0
				out d
				out k
				out r
			`,
		}},
		ranges: map[string]string{"x[0]": "1..4", "x[1]": "1,2,5,8"},
	},
	{
		name: "a branch that is a view of what it captures",
		text: graphText{main: `
			in c bool[]
			in x float32[?,6]
			a = Exp(x)
			y = If(c)
			z = Relu(y)
			out z
		`, bodies: map[string]string{
			"y.then_branch": "f = Flatten(a)\nout f",
			"y.else_branch": "f = Identity(a)\ng = Neg(f)\nh = Add(g, a)\nout h",
		}},
		ranges: map[string]string{"x[0]": "1..20"},
	},
}

// encoded is a model that has been written and read.
func (x *graphText) encoded(t testing.TB) *graph.Model {
	t.Helper()
	image, err := onnx.Encode(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: x.graph(x.main)})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := image.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse("g.onnx", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBodiesAtRandomShapes: with bodies, too, a session of a plan for ranges gives the bits of
// a plan of each point alone, needs no more memory than its worst ratio says, and writes no dead bytes.
func TestBodiesAtRandomShapes(t *testing.T) {
	for _, c := range bodyNets {
		t.Run(c.name, func(t *testing.T) {
			p := rangedProgram(t, c.text.encoded(t), c.ranges)
			s := newSession(t, p, vm.Options{Poison: true})
			draw := rand.New(rand.NewPCG(1, 1))
			for i := range randomShapes(t) {
				dims := randomPoint(draw, p)
				in := inputsAt(t, p, dims, uint64(i))
				if n, has := in["n"]; has {
					in["n"] = vm.Int64s([]int64{int64(i % 4)}, n.Shape...)
				}
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("at %v: %v", dims, err)
				}
				sameOutputs(t, dims, out, alone(t, c.text.encoded(t), dims, in))
				at, err := p.At(dims)
				if err != nil {
					t.Fatal(err)
				}
				own, err := passes.Optimize(t.Context(), c.text.encoded(t), passes.Options{Dims: dims, Fold: passes.FoldOff})
				if err != nil {
					t.Fatal(err)
				}
				// At batch 1, a Transpose is a view, which the plan for all points does not use.
				if got, want := at.Plan().Summary.ArenaBytes, own.Plan.Summary.ArenaBytes; float64(got) > p.Plan().Ranges.Worst.Ratio()*float64(want) {
					t.Errorf("at %v: an arena of %d bytes, expected the %d of a plan of that point alone, or as many more as %v says", dims, got, want, p.Plan().Ranges.Worst)
				}
			}
		})
	}
}
