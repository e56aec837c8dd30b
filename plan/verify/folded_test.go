package verify_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// fill gives the weights of a graph and its bodies elements that all differ; one of each
// is a NaN with a payload.
func fill(g *graph.Graph) {
	for _, t := range g.Tensors {
		if t.Data == nil || t.Data.Type != graph.Float32 {
			continue
		}
		for i := 0; i+4 <= len(t.Data.Raw); i += 4 {
			binary.LittleEndian.PutUint32(t.Data.Raw[i:], math.Float32bits(float32(i)/64-1))
		}
		if strings.HasPrefix(t.Name, "nan") {
			binary.LittleEndian.PutUint32(t.Data.Raw[4:], 0x7f812345) // a signalling one
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				fill(b)
			}
		}
	}
}

// TestFolded: which nodes are computed from constants, what remains of them, and that
// verify accepts the planned file with its source, and no other.
func TestFolded(t *testing.T) {
	for _, c := range []struct {
		name   string
		x      text
		opt    passes.Options
		folded string // the tensors; "" for none
		steps  string // the operators that remain
		inner  string // those of the bodies, if not "", separated by |
		before func(m *graph.Model)
	}{
		{name: "a transposed weight becomes an initializer", folded: "t", steps: "Add", x: text{main: `
			in x float32[4,8]
			init nan float32[8,4] = ...
			t = Transpose(nan)
			y = Add(x, t)
			out y`}},
		{name: "what a product reads stays the output of a node", folded: "t.folded", steps: "Identity MatMul", x: text{main: `
			in x float32[4,4]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = MatMul(x, t)
			out y`}},
		{name: "a chain through small constants", folded: "d", steps: "Mul", x: text{main: `
			in x float32[8,16]
			init w float32[16,8] = ...
			k = Constant() value_int=3
			f = Cast(k) to=1
			a = Transpose(w)
			b = Mul(a, f)
			c = Neg(b)
			d = Abs(c)
			y = Mul(x, d)
			out y`}},
		{name: "views alone stay", steps: "Flatten Add", x: text{main: `
			in x float32[8,4]
			init w float32[8,2,2] = ...
			f = Flatten(w)
			y = Add(x, f)
			out y`}},
		{name: "an output of the graph stays", steps: "Transpose Relu", x: text{main: `
			in x float32[4]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = Relu(x)
			out t
			out y`}},
		{name: "a weight with another reader is copied where the peak falls by as much", folded: "t.folded", steps: "Identity MatMul Gather", x: text{main: `
			in i int64[2]
			in x float32[4,512]
			init w float32[256,512] = ...
			t = Transpose(w)
			y = MatMul(x, t)
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: a product reads the weight as it lies", steps: "Gemm Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[4,512]
			init w float32[256,512] = ...
			t = Transpose(w)
			y = MatMul(x, t)
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: with more axes, between views", steps: "Reshape Gemm Reshape Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[2,3,512]
			init w float32[256,512] = ...
			t = Transpose(w)
			y = MatMul(x, t)
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: the lengths of the input are open", steps: "Reshape Gemm Shape Concat Reshape Gather", x: text{main: `
			in i int64[2]
			in x float32[batch,3,512]
			init w float32[256,512] = ...
			t = Transpose(w)
			y = MatMul(x, t)
			g = Gather(w, i)
			out y
			out g`}, opt: passes.Options{Fold: passes.FoldAny, Dims: map[string]int64{"batch": 2}}},
		{name: "any: a value decides about the lengths", steps: "Reshape Reshape Gemm Shape Concat Reshape Gather", x: text{main: `
			in i int64[2]
			in n int64[3]
			in x float32[3072]
			init w float32[256,512] = ...
			t = Transpose(w)
			a = Reshape(x, n)
			y = MatMul(a, t)
			g = Gather(w, i)
			out y
			out g`}, opt: passes.Options{Fold: passes.FoldAny, Values: map[string]graph.Literal{"n": {Shape: []int64{3}, Data: []json.Number{"2", "3", "512"}}}}},
		{name: "any: a Gemm with a bias", steps: "Gemm Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[4,512]
			in b float32[256]
			init w float32[256,512] = ...
			t = Transpose(w)
			y = Gemm(x, t, b)
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: from the left", steps: "Gemm Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[512,4]
			init w float32[512,256] = ...
			t = Transpose(w)
			y = MatMul(t, x)
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: a Gemm from the left, of a transposed second operand", steps: "Gemm Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[4,512]
			in b float32[4]
			init w float32[512,256] = ...
			t = Transpose(w)
			y = Gemm(t, x, b) transB=1
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: a Gemm from the left that transposed back", steps: "Gemm Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[256,4]
			init w float32[512,256] = ...
			t = Transpose(w)
			y = Gemm(t, x) transA=1
			g = Gather(w, i)
			out y
			out g`}},
		{name: "any: a product of two transposed weights loses one of them", steps: "Transpose Gemm Gather Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			init v float32[512,4] = ...
			init w float32[256,512] = ...
			s = Transpose(v)
			t = Transpose(w)
			y = MatMul(s, t)
			h = Gather(v, i)
			g = Gather(w, i)
			out y
			out h
			out g`}},
		{name: "any: in both branches", steps: "If Gather", inner: "Gemm Neg|Gemm", opt: passes.Options{Fold: passes.FoldAny}, x: text{
			main: `
				in p bool[]
				in i int64[2]
				in x float32[4,512]
				init w float32[256,512] = ...
				r = If(p)
				g = Gather(w, i)
				out r
				out g`,
			bodies: map[string]string{
				"r.then_branch": "t = Transpose(w)\nj = MatMul(x, t)\nout j",
				"r.else_branch": "t = Transpose(w)\nk = MatMul(x, t)\nl = Neg(k)\nout l",
			},
		}},
		{name: "any: with more axes in a loop, with a weight of its own that has another reader", steps: "Loop", inner: "Reshape Gemm Reshape Gather Identity", opt: passes.Options{Fold: passes.FoldAny}, x: text{
			main: `
				in n int64[]
				in c bool[]
				in x float32[2,3,256]
				in i int64[2]
				y, z = Loop(n, c, x)
				out y
				out z`,
			bodies: map[string]string{"y.body": `
				in k int64[]
				in go bool[]
				in v float32[2,3,256]
				init w float32[256,256] = ...
				t = Transpose(w)
				q = MatMul(v, t)
				r = Gather(w, i)
				on = Identity(go)
				out on
				out q
				out r`},
		}},
		{name: "any: a body in a body, with a weight of the outermost graph, from the left", steps: "If Gather", inner: "Neg|If|Neg|Gemm", opt: passes.Options{Fold: passes.FoldAny}, x: text{
			main: `
				in p bool[]
				in i int64[2]
				in x float32[512,256]
				init w float32[512,256] = ...
				r = If(p)
				g = Gather(w, i)
				out r
				out g`,
			bodies: map[string]string{
				"r.then_branch": "a = If(p)\nout a",
				"a.then_branch": "t = Transpose(w)\nb = MatMul(t, x)\nout b",
				"a.else_branch": "d = Neg(x)\nout d",
				"r.else_branch": "e = Neg(x)\nout e",
			},
		}},
		{name: "any: transposed outside of a loop, and read outside and in a branch within, too", steps: "Gemm Loop Gather", inner: "Gemm If Identity|Gemm Transpose|Gemm", opt: passes.Options{Fold: passes.FoldAny}, x: text{
			main: `
				in n int64[]
				in c bool[]
				in p bool[]
				in x float32[4,256]
				in i int64[2]
				init w float32[256,256] = ...
				t = Transpose(w)
				y = MatMul(x, t)
				z = Loop(n, c, y)
				g = Gather(w, i)
				out z
				out g`,
			bodies: map[string]string{
				"z.body":        "in k int64[]\nin go bool[]\nin v float32[4,256]\nq = MatMul(v, t)\nr = If(p)\non = Identity(go)\nout on\nout r",
				"r.then_branch": "a = MatMul(q, t)\nout a",
				"r.else_branch": "s = Transpose(q)\nb = MatMul(w, s)\nd = Transpose(b)\nout d",
			},
		}},
		{name: "any: transposed outside of a body that also reads it otherwise", folded: "t.folded", steps: "Identity If Gather", inner: "Gemm|MatMul", opt: passes.Options{Fold: passes.FoldAny}, x: text{
			main: `
				in p bool[]
				in i int64[2]
				in x float32[256,256]
				init w float32[256,256] = ...
				t = Transpose(w)
				r = If(p)
				g = Gather(w, i)
				out r
				out g`,
			bodies: map[string]string{"r.then_branch": "a = MatMul(x, t)\nout a", "r.else_branch": "b = Gemm(x, w, t)\nout b"},
		}},
		{name: "any: a weight that nobody else reads is folded as with exact", folded: "t.folded", steps: "Identity MatMul", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in x float32[4,4]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = MatMul(x, t)
			out y`}},
		{name: "and not where the peak is elsewhere", steps: "Relu Neg Abs Mul ReduceMax Transpose Gather Gather Add", x: text{main: `
			in i int64[2]
			in x float32[4096,64]
			init w float32[64,32] = ...
			a = Relu(x)
			b = Neg(a)
			c = Abs(a)
			d = Mul(b, c)
			e = ReduceMax(d)
			t = Transpose(w)
			g = Gather(t, i)
			h = Gather(w, i)
			y = Add(e, g)
			out y
			out h`}},
		{name: "nodes in no topological order, of which folding makes one", folded: "t", steps: "Add Relu", x: text{main: `
			in x float32[4,8]
			init w float32[8,4] = ...
			y = Add(x, t)
			z = Relu(x)
			t = Transpose(w)
			out y
			out z`}},
		{name: "any: nodes in no topological order", steps: "Relu Neg Reshape Gemm Reshape Gather", opt: passes.Options{Fold: passes.FoldAny}, x: text{main: `
			in i int64[2]
			in x float32[2,3,512]
			init w float32[256,512] = ...
			z = Neg(a)
			y = MatMul(a, t)
			t = Transpose(w)
			a = Relu(x)
			g = Gather(w, i)
			out y
			out z
			out g`}},
		{name: "a NaN is not computed", steps: "Mul Add", x: text{main: `
			in x float32[8]
			init nan float32[8] = ...
			a = Mul(nan, nan)
			y = Add(x, a)
			out y`}},
		{name: "an explosion stays", steps: "ConstantOfShape Gather Add", x: text{main: `
			in x float32[1]
			in i int64[1]
			init k int64[1] = ...
			z = ConstantOfShape(k)
			g = Gather(z, i)
			y = Add(x, g)
			out y`}, before: func(m *graph.Model) { binary.LittleEndian.PutUint64(find(m.Graph, "k").Data.Raw, 1<<40) }},
		{name: "in a body, and what a body captures", folded: "i t", steps: "If", x: text{
			main: `
				in p bool[]
				in x float32[4,8]
				init w float32[8,4] = ...
				t = Transpose(w)
				r = If(p)
				out r`,
			bodies: map[string]string{
				"r.then_branch": "init k float32[8,4] = ...\ni = Transpose(k)\nj = Sub(x, i)\nout j",
				"r.else_branch": "l = Mul(x, t)\nout l",
			},
		}},
		{name: "a constant of the main graph that only nodes of a body read", folded: "i", steps: "If", x: text{
			main: `
				in p bool[]
				in x float32[4,8]
				init w float32[8,4] = ...
				r = If(p)
				out r`,
			bodies: map[string]string{
				"r.then_branch": "i = Transpose(w)\nj = Sub(x, i)\nout j",
				"r.else_branch": "l = Neg(x)\nout l",
			},
		}},
		{name: "an initializer that is an input, too", steps: "Transpose Add", x: text{main: `
			in x float32[4,8]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = Add(x, t)
			out y`}, before: func(m *graph.Model) { find(m.Graph, "w").Overridable = true }},
		{name: "before IR version 4, an initializer is an input, too", folded: "t", steps: "Add", x: text{main: `
			in x float32[4,8]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = Add(x, t)
			out y`}, before: func(m *graph.Model) {
			m.IRVersion = 3
			for i, b := range m.Source.Bytes[:2] {
				if b == 8 && m.Source.Bytes[i+1] == 10 {
					m.Source.Bytes[i+1] = 3 // the field ir_version
				}
			}
		}},
		{name: "below a limit, where nodes run again", folded: "t", steps: "Relu Sigmoid Tanh Softmax Exp Mul Mul Mul Mul Mul", opt: passes.Options{Limit: &passes.Limit{Percent: 70}}, x: text{main: `
			in x float32[512,1024]
			init w float32[1024,512] = ...
			t = Transpose(w)
			a = Relu(x)
			b = Sigmoid(a)
			c = Tanh(b)
			d = Softmax(c)
			e = Exp(d)
			f = Mul(e, d)
			g = Mul(f, c)
			h = Mul(g, b)
			i = Mul(h, a)
			j = Mul(i, t)
			out j`}},
		{name: "a few bytes that grow to gigabytes, step by step, stay", steps: "Concat Concat Concat Concat Concat Concat Concat Constant Gather Add", x: text{main: `
			in i int64[1]
			in x float32[1]
			init w float32[16] = ...
			c1 = Concat(w, w, w, w, w, w, w, w, w, w, w, w, w, w, w, w) axis=0
			c2 = Concat(c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1) axis=0
			c3 = Concat(c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2) axis=0
			c4 = Concat(c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3) axis=0
			c5 = Concat(c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4) axis=0
			c6 = Concat(c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5) axis=0
			c7 = Concat(c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6) axis=0
			k = Constant() value_int=0
			g = Gather(c7, k)
			y = Add(x, g)
			out y`}},
		{
			name: "what does not fit into the budget of the model stays, in the order of the file", folded: "g0 g1 g2 g3",
			steps: "ConstantOfShape ConstantOfShape Gather Gather Sum Add", x: text{main: `
			in x float32[1]
			init k int64[1] = ...
			init i int64[1] = ...
			z0 = ConstantOfShape(k)
			z1 = ConstantOfShape(k)
			z2 = ConstantOfShape(k)
			z3 = ConstantOfShape(k)
			z4 = ConstantOfShape(k)
			z5 = ConstantOfShape(k)
			g0 = Gather(z0, i)
			g1 = Gather(z1, i)
			g2 = Gather(z2, i)
			g3 = Gather(z3, i)
			g4 = Gather(z4, i)
			g5 = Gather(z5, i)
			s = Sum(g0, g1, g2, g3, g4, g5)
			y = Add(x, s)
			out y`}, before: func(m *graph.Model) {
				binary.LittleEndian.PutUint64(find(m.Graph, "k").Data.Raw, 15<<18) // 15 MiB, of at least 64
			},
		},
		{name: "a node all of whose outputs are left out is none that was folded", folded: "t", steps: "Relu Add", x: text{main: `
			in x float32[4,8]
			init w float32[8,4] = ...
			t = Transpose(w)
			none = Relu(x)
			y = Add(x, t)
			out y`}, before: func(m *graph.Model) {
			m.Graph.Nodes[1].Outputs[0] = graph.None
			m.Graph.DropTensors(func(t graph.TensorID) bool { return m.Graph.Tensors[t].Name == "none" })
			*m = *parse(t, encode(t, m))
		}},
		{name: "lengths of an input that the file declares, as views ask for them", folded: "c", steps: "Relu Reshape", x: text{main: exported("in x float32[4,8,16]", "a = Relu(x)")}},
		{name: "lengths of an input that is open", steps: "Relu Shape Size Div Concat Reshape", opt: passes.Options{Dims: map[string]int64{"batch": 4}}, x: text{main: exported("in x float32[batch,8,16]", "a = Relu(x)")}},
		{name: "lengths beside an input that is open", steps: "Relu Neg Shape Size Div Concat Reshape", opt: passes.Options{Dims: map[string]int64{"batch": 4}}, x: text{main: exported("in x float32[4,8,16]\nin z float32[batch]", "a = Relu(x)\nb = Neg(z)\nout b")}},
		{name: "some axes, counted from the back", folded: "m", steps: "Sub", x: text{main: `
			in x float32[4,8,16]
			s = Shape(x) start=-2 end=9
			m = ConstantOfShape(s)
			y = Sub(x, m)
			out y`}},
		{name: "a mask as large as an input", folded: "m", steps: "Where Neg", x: text{main: `
			in p bool[64,64]
			in x float32[64,64]
			s = Shape(x)
			m = ConstantOfShape(s)
			y = Where(p, x, m)
			z = Neg(y)
			out z`}},
		{name: "lengths of what a branch captures and makes", folded: "c d", steps: "Relu If", x: text{
			main: `
				in p bool[]
				in x float32[4,8,16]
				a = Relu(x)
				r = If(p)
				out r`,
			bodies: map[string]string{
				"r.then_branch": "s = Shape(a) start=0 end=1\nn = Size(a)\nq = Div(n, s)\nc = Concat(s, q) axis=0\nj = Reshape(a, c)\nout j",
				"r.else_branch": "b = Neg(a)\nt = Shape(b) start=0 end=1\nm = Size(b)\nu = Div(m, t)\nd = Concat(t, u) axis=0\nl = Reshape(b, d)\nout l",
			},
		}},
		{name: "lengths of a result of an If whose branches agree", folded: "c", steps: "If Reshape", x: text{
			main: `
				in p bool[]
				in x float32[4,8,16]
				a = If(p)
				s = Shape(a) start=0 end=1
				n = Size(a)
				k = Constant() value_int=1
				m = Mul(n, k)
				q = Div(m, s)
				c = Concat(s, q) axis=0
				y = Reshape(a, c)
				out y`,
			bodies: map[string]string{
				"a.then_branch": "j = Relu(x)\nout j",
				"a.else_branch": "l = Neg(x)\nout l",
			},
		}},
		{name: "an If decides by an input without axes, which ONNX Runtime also takes with axes", steps: "Size Equal If Shape Size Div Concat Reshape", x: text{
			main: exported("in k int64[]\nin x float32[4,8,16]", "g = Size(k)\nh = Equal(g, g)\na = If(h)"),
			bodies: map[string]string{
				"a.then_branch": "j = Relu(x)\nout j",
				"a.else_branch": "l = Transpose(x)\nout l",
			},
		}},
		{name: "off", steps: "Transpose Add", opt: passes.Options{Fold: passes.FoldOff}, x: text{main: `
			in x float32[4,8]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = Add(x, t)
			out y`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.x.build(t)
			fill(m.Graph)
			if c.before != nil {
				c.before(m)
			}
			source := m.Source.Bytes
			c.opt.Check = true
			r, err := passes.Optimize(t.Context(), m, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			im, err := onnx.Encode(r.Model)
			if err != nil {
				t.Fatal(err)
			}
			p := r.Plan
			p.Model = plan.ImageOf("out.onnx", im)
			var tensors, steps []string
			if p.Folded != nil {
				for _, f := range p.Folded.Tensors {
					tensors = append(tensors, f.Tensor)
				}
				if p.Folded.UnfoldedTotalBytes < p.Summary.TotalBytes {
					t.Errorf("total %d, before %d: it grew", p.Summary.TotalBytes, p.Folded.UnfoldedTotalBytes)
				}
			}
			for _, i := range p.ProgramOrder.Steps {
				steps = append(steps, p.Steps[i].Op)
			}
			var inner []string
			for _, b := range p.Subgraphs {
				var ops []string
				for _, step := range b.Steps {
					ops = append(ops, step.Op)
				}
				inner = append(inner, strings.Join(ops, " "))
			}
			if got := strings.Join(inner, "|"); c.inner != "" && got != c.inner {
				t.Errorf("bodies %q, expected %q", got, c.inner)
			}
			slices.Sort(tensors)
			if got := strings.Join(tensors, " "); got != c.folded {
				t.Errorf("folded %q, expected %q", got, c.folded)
			}
			if got := strings.Join(steps, " "); got != c.steps {
				t.Errorf("steps %q, expected %q", got, c.steps)
			}
			file := encode(t, r.Model)
			if back := parse(t, file); back.IRVersion < 4 && !find(back.Graph, c.folded).Overridable {
				t.Error("the initializer is not listed as an input")
			}
			report, err := verify.Plan(parse(t, file), p, verify.Options{Source: parse(t, source)})
			if err != nil || !report.Valid || slices.Contains(report.Claimed, "folded") {
				t.Fatalf("error %v, %v, claimed %v", err, report.Violations, report.Claimed)
			}
			if p.Folded == nil {
				return
			}
			if c.opt.Dims == nil && c.opt.Values == nil {
				same(t, parse(t, source), parse(t, file))
			}
			if len(p.Folded.Tensors) == 0 {
				return
			}
			// Another byte in a folded tensor, which the digest of the graph leaves out.
			other := parse(t, file)
			flip(other.Graph, p.Folded.Tensors[0].Tensor)
			report, err = verify.Plan(other, p, verify.Options{Source: parse(t, source)})
			if err == nil && !slices.ContainsFunc(report.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeFolded }) {
				t.Errorf("a changed constant is accepted: %v", report.Violations)
			} else if err != nil && !strings.Contains(err.Error(), "(Reshape)") { // no graph at all with another length
				t.Error(err)
			}
		})
	}
}

// TestFoldedFromAnotherSource: what a source computes instead is refused, and quickly.
func TestFoldedFromAnotherSource(t *testing.T) {
	ordinary := text{main: `
			in x float32[4,8]
			init w float32[8,4] = ...
			t = Transpose(w)
			y = Add(x, t)
			out y`}
	for _, c := range []struct {
		name            string
		planned, source text
		declared        []graph.Dim // of t in the source
		want            string
	}{
		{name: "terabytes, step by step", planned: ordinary, want: "too large", source: text{main: `
			in x float32[4,8]
			init w float32[16] = ...
			c1 = Concat(w, w, w, w, w, w, w, w, w, w, w, w, w, w, w, w) axis=0
			c2 = Concat(c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1, c1) axis=0
			c3 = Concat(c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2, c2) axis=0
			c4 = Concat(c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3, c3) axis=0
			c5 = Concat(c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4, c4) axis=0
			c6 = Concat(c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5, c5) axis=0
			c7 = Concat(c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6, c6) axis=0
			init k int64[4,8] = ...
			t = Gather(c7, k)
			y = Add(x, t)
			out y`}},
		{name: "terabytes, and the file declares a few bytes", planned: ordinary, declared: []graph.Dim{4, 8}, want: "ask for", source: text{main: `
			in x float32[4,8]
			init w float32[1,1] = ...
			init k int64[3] = ...
			init cut int64[2] = ...
			s = Pad(k, cut)
			t = Expand(w, s)
			y = Add(x, t)
			out y`}},
		{name: "few bytes, many times", want: "all folded constants together", planned: text{main: `
			in x float32[4,8]
			init w float32[40,4] = ...
			a = Transpose(w)
			b, c, d, e, f = Split(a) axis=1 num_outputs=5
			y = Sum(x, b, c, d, e, f)
			out y`}, source: text{main: `
			in x float32[4,8]
			init w float32[65536] = ...
			init i int64[4,8] = ...
			cb = Concat(` + strings.Repeat("w, ", 59) + `w) axis=0
			cc = Concat(` + strings.Repeat("w, ", 59) + `w) axis=0
			cd = Concat(` + strings.Repeat("w, ", 59) + `w) axis=0
			ce = Concat(` + strings.Repeat("w, ", 59) + `w) axis=0
			cf = Concat(` + strings.Repeat("w, ", 59) + `w) axis=0
			b = Gather(cb, i)
			c = Gather(cc, i)
			d = Gather(cd, i)
			e = Gather(ce, i)
			f = Gather(cf, i)
			y = Sum(x, b, c, d, e, f)
			out y`}},
		{name: "an initializer that only a body reads stands for a node", want: `"r" of the source is missing`, planned: text{
			main: `
			in x float32[4,8]
			in c bool[]
			init w float32[8,4] = ...
			init r float32[4,8] = ...
			t = Transpose(w)
			b = Add(x, t)
			y = If(c)
			out b
			out y`,
			bodies: map[string]string{"y.then_branch": "j = Neg(r)\nout j", "y.else_branch": "l = Neg(x)\nout l"},
		}, source: text{
			main: `
			in x float32[4,8]
			in c bool[]
			init w float32[8,4] = ...
			r = Relu(x)
			t = Transpose(w)
			b = Add(x, t)
			y = If(c)
			out b
			out y`,
			bodies: map[string]string{"y.then_branch": "j = Neg(r)\nout j", "y.else_branch": "l = Neg(x)\nout l"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := passes.Optimize(t.Context(), c.planned.build(t), passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			im, err := onnx.Encode(r.Model)
			if err != nil {
				t.Fatal(err)
			}
			r.Plan.Model = plan.ImageOf("out.onnx", im)
			source := c.source.build(t)
			if c.declared != nil {
				for i, k := range []int64{1 << 40, 8, 1} {
					binary.LittleEndian.PutUint64(find(source.Graph, "k").Data.Raw[8*i:], uint64(k))
				}
				binary.LittleEndian.PutUint64(find(source.Graph, "cut").Data.Raw[8:], math.MaxUint64) // -1
				find(source.Graph, "t").Declared = &graph.Declared{
					Type:    graph.Type{Kind: graph.KindTensor, Elem: graph.Float32, Ranked: true, Shape: c.declared},
					Symbols: make([]string, len(c.declared)),
				}
			}
			report, err := verify.Plan(parse(t, encode(t, r.Model)), r.Plan, verify.Options{Source: source})
			if err != nil || !slices.ContainsFunc(report.Violations, func(v verify.Violation) bool {
				return v.Code == verify.CodeFolded && strings.Contains(v.Message, c.want)
			}) {
				t.Errorf("error %v, violations %v, expected one with %q", err, report.Violations, c.want)
			}
		})
	}
}

// TestFoldedProductThatDiffers: a product by a constant that is no longer transposed must
// have the operands and the attributes of the source, on either side.
func TestFoldedProductThatDiffers(t *testing.T) {
	for _, product := range []string{"MatMul(x, t)", "MatMul(t, x)", "Gemm(x, t)", "Gemm(t, x) transB=1"} {
		source := text{main: `
			in i int64[2]
			in x float32[256,256]
			init w float32[256,256] = ...
			t = Transpose(w)
			y = ` + product + `
			g = Gather(w, i)
			out y
			out g`}.build(t)
		file := encode(t, source)
		r, err := passes.Optimize(t.Context(), source, passes.Options{Fold: passes.FoldAny})
		if err != nil {
			t.Fatal(err)
		}
		gemm := r.Model.Graph.Nodes[slices.IndexFunc(r.Model.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "Gemm" })]
		inputs, attrs := gemm.Inputs, gemm.Attrs
		flipped := func(name string) []*graph.Attr {
			list, v := []*graph.Attr{}, int64(1)
			for _, a := range attrs {
				if a.Name == name {
					v = 1 - a.Int
				} else {
					list = append(list, a)
				}
			}
			return append(list, &graph.Attr{Name: name, Type: graph.AttrInt, Int: v})
		}
		for _, c := range []struct {
			name   string
			inputs []graph.TensorID
			attrs  []*graph.Attr
			valid  bool
		}{
			{"as it is", inputs, attrs, true},
			{"another transA", inputs, flipped("transA"), false},
			{"another transB", inputs, flipped("transB"), false},
			{"exchanged operands", []graph.TensorID{inputs[1], inputs[0]}, attrs, false},
		} {
			gemm.Inputs, gemm.Attrs = c.inputs, c.attrs
			im, err := onnx.Encode(r.Model)
			if err != nil {
				t.Fatal(err)
			}
			r.Plan.Model = plan.ImageOf("out.onnx", im)
			report, err := verify.Plan(parse(t, encode(t, r.Model)), r.Plan, verify.Options{Source: parse(t, file)})
			if err != nil {
				t.Fatal(err)
			}
			if refused := slices.ContainsFunc(report.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeFolded }); refused == c.valid {
				t.Errorf("%s, %s: violations %v", product, c.name, report.Violations)
			}
		}
	}
}

// exported is a model that makes a from x and views it with two axes, as exporters
// write it.
func exported(inputs, nodes string) string {
	return inputs + "\n" + nodes + `
		s = Shape(a) start=0 end=1
		n = Size(a)
		q = Div(n, s)
		c = Concat(s, q) axis=0
		y = Reshape(a, c)
		out y`
}

// find returns the tensor of that name.
func find(g *graph.Graph, name string) *graph.Tensor {
	return g.Tensors[slices.IndexFunc(g.Tensors, func(t *graph.Tensor) bool { return t.Name == name })]
}

// flip changes a bit of an initializer of a graph or of a body.
func flip(g *graph.Graph, name string) {
	for _, t := range g.Tensors {
		if t.Name == name && t.Data != nil {
			t.Data.Raw[0] ^= 1
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				flip(b, name)
			}
		}
	}
}

// same fails unless both models compute the same outputs, by the plain evaluator. It
// has no bodies, so models with them are left to TestFolded's comparison of constants.
func same(t *testing.T, a, b *graph.Model) {
	t.Helper()
	feeds := map[string]*reference.Tensor{}
	for _, id := range a.Graph.Inputs {
		in := a.Graph.Tensors[id]
		x := &reference.Tensor{Type: in.Declared.Type.Elem}
		n := 1
		for _, d := range in.Declared.Type.Shape {
			x.Shape = append(x.Shape, int(d))
			n *= int(d)
		}
		if x.Type.Floating() {
			for i := range n {
				x.F = append(x.F, float64(i%17)-8)
			}
		} else {
			x.I = make([]int64, n)
		}
		feeds[in.Name] = x
	}
	if slices.ContainsFunc(a.Graph.Nodes, func(n *graph.Node) bool { return len(n.Bodies()) > 0 }) {
		return
	}
	x, err := reference.Eval(a, feeds)
	if err != nil {
		t.Fatal(err)
	}
	y, err := reference.Eval(b, feeds)
	if err != nil {
		t.Fatal(err)
	}
	for name := range x {
		for i, v := range x[name].F {
			if w := y[name].F[i]; math.Float64bits(v) != math.Float64bits(w) {
				t.Fatalf("%s[%d]: %v, after folding %v", name, i, v, w)
			}
		}
	}
}

// TestFoldedShapes: a shape is a constant only if it follows from lengths that the file
// gives to its inputs, in every runtime. verify finds that out by itself: with a source
// in which it does not, it refuses the plan that is right for another source.
func TestFoldedShapes(t *testing.T) {
	const x = "in x float32[4,8,16]"
	good := text{main: exported(x, "a = Relu(x)")}.build(t)
	r, err := passes.Optimize(t.Context(), good, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := encode(t, r.Model)
	im, err := onnx.Encode(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.Model = plan.ImageOf("out.onnx", im)
	if r.Plan.Folded == nil {
		t.Fatal("nothing is folded")
	}
	for _, c := range []struct {
		name   string
		source text
		before func(m *graph.Model)
		want   bool // it is folded
	}{
		{name: "the source", source: text{main: exported(x, "a = Relu(x)")}, want: true},
		{name: "an open length", source: text{main: exported("in x float32[batch,8,16]", "a = Relu(x)")}},
		{name: "a length of 0, which some exporters write for an open one", source: text{main: exported("in x float32[0,8,16]", "a = Relu(x)")}},
		{name: "an operator of a runtime", source: text{main: exported(x, "a = com.microsoft::Gelu(x)")}, before: declare("a", 4, 8, 16)},
		{name: "an unknown operator with a declared result", source: text{main: exported(x, "a = acme::Fuse(x)")}, before: declare("a", 4, 8, 16)},
		{name: "a declared shape that inference cannot confirm", source: text{main: exported(x+"\nin k int64[3]", "a = Reshape(x, k)")}, before: declare("a", 4, 8, 16)},
		{name: "an initializer that is an input, too", source: text{main: exported("init x float32[4,8,16] = ...", "a = Relu(x)")}, before: func(m *graph.Model) { find(m.Graph, "x").Overridable = true }},
		{name: "an input without axes", source: text{main: exported(x+"\nin k float32[]", "a = Add(x, k)")}},
		{name: "a number of elements that depends on the data", source: text{main: exported(x, "a = NonZero(x)")}},
		{name: "a result of a loop", source: text{
			main:   exported(x+"\nin k int64[1]\nin p bool[1]", "a = Loop(k, p, x)"),
			bodies: map[string]string{"a.body": "in i int64[]\nin c bool[]\nin v float32[4,8,16]\nd = Identity(c)\nw = Neg(v)\nout d\nout w"},
		}},
		{name: "a length that is rounded", source: text{main: exported("in x float32[1,4,8,16]", "a = MaxPool(x) ceil_mode=1")}, before: func(m *graph.Model) {
			n := m.Graph.Nodes[find(m.Graph, "a").Maker]
			n.Attrs = append(n.Attrs, &graph.Attr{Name: "kernel_shape", Type: graph.AttrInts, Ints: []int64{2, 2}})
		}},
		{name: "a branch that follows from an input without axes", source: text{
			main: exported(x+"\nin k int64[]", "g = Size(k)\nh = Equal(g, g)\na = If(h)"),
			bodies: map[string]string{
				"a.then_branch": "j = Relu(x)\nout j",
				"a.else_branch": "l = Transpose(x)\nout l",
			},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.source.build(t)
			if c.before != nil {
				c.before(m)
			}
			found, err := passes.Optimize(t.Context(), m, passes.Options{Check: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := found.Plan.Folded != nil; got != c.want {
				t.Errorf("folded: %t, expected %t", got, c.want)
			}
			m = c.source.build(t)
			if c.before != nil {
				c.before(m)
			}
			report, err := verify.Plan(parse(t, file), r.Plan, verify.Options{Source: m})
			if err != nil {
				t.Fatal(err)
			}
			refused := slices.ContainsFunc(report.Violations, func(v verify.Violation) bool {
				return v.Code == verify.CodeFolded && strings.Contains(v.Message, `tensor "c": cannot be computed from constants`)
			})
			if refused == c.want || c.want != report.Valid || slices.Contains(report.Claimed, "folded") {
				t.Errorf("refused: %t, valid: %t, claimed %v: %v", refused, report.Valid, report.Claimed, report.Violations)
			}
		})
	}
}

// declare gives a tensor a declared type, as value_info does.
func declare(name string, shape ...graph.Dim) func(m *graph.Model) {
	return func(m *graph.Model) {
		find(m.Graph, name).Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: graph.Float32, Ranked: true, Shape: shape}, Symbols: make([]string, len(shape))}
	}
}

// TestManyFolded: each graph is gone through once, however many tensors and products the
// plan names.
func TestManyFolded(t *testing.T) {
	lines := []string{"in x float32[4,8]"}
	sum := "x"
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("init w%d float32[8,4] = ...\nt%d = Transpose(w%d)\ny%d = Add(%s, t%d)", i, i, i, i, sum, i))
		sum = fmt.Sprintf("y%d", i)
	}
	lines = append(lines, "out "+sum)
	m := text{main: strings.Join(lines, "\n")}.build(t)
	source := m.Source.Bytes
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.Model = plan.ImageOf("out.onnx", im)
	file := encode(t, r.Model)
	tensors := len(parse(t, source).Graph.Tensors) + len(parse(t, file).Graph.Tensors)
	check := func(p *plan.Plan) *verify.Report {
		t.Helper()
		listed, report, err := verify.Listed(parse(t, file), p, verify.Options{Source: parse(t, source)})
		if err != nil {
			t.Fatal(err)
		}
		if listed > tensors {
			t.Errorf("went through %d tensors, expected at most the %d of both files", listed, tensors)
		}
		return report
	}
	if n := len(r.Plan.Folded.Tensors); n != 200 {
		t.Fatalf("%d tensors were folded, expected 200", n)
	}
	if report := check(r.Plan); !report.Valid {
		t.Error(report.Violations)
	}
	hostile := *r.Plan.Folded
	hostile.Mode = "any"
	hostile.Tensors = slices.Repeat(hostile.Tensors, 500)
	for i := range 100_000 {
		hostile.Tensors = append(hostile.Tensors, plan.FoldedTensor{Tensor: fmt.Sprintf("n%d", i), Of: "t0", Bytes: 128})
		hostile.Products = append(hostile.Products, plan.FoldedProduct{Tensor: fmt.Sprintf("y%d", i), Transposed: "t199"})
	}
	r.Plan.Folded = &hostile
	if report := check(r.Plan); report.Valid {
		t.Error("a plan that lists tensors twice, and others that do not exist, is accepted")
	}
}

// TestFoldedProductInAnotherBody: a product in a body must be listed there, once, and read
// what it reads in the same body of the source.
func TestFoldedProductInAnotherBody(t *testing.T) {
	source := text{
		main: `
			in p bool[]
			in i int64[2]
			in x float32[4,512]
			init w float32[256,512] = ...
			r = If(p)
			g = Gather(w, i)
			out r
			out g`,
		bodies: map[string]string{
			"r.then_branch": "t = Transpose(w)\nj = MatMul(x, t)\nout j",
			"r.else_branch": "k = ReduceMax(x) keepdims=1\nl = Expand(k, s)\nout l\ninit s int64[2] = ...",
		},
	}.build(t)
	for i, n := range []uint64{4, 256} {
		other := source.Graph.Nodes[0].Attr("else_branch").Graph
		binary.LittleEndian.PutUint64(find(other, "s").Data.Raw[8*i:], n)
	}
	from := source.Source.Bytes
	r, err := passes.Optimize(t.Context(), source, passes.Options{Fold: passes.FoldAny})
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.Model = plan.ImageOf("out.onnx", im)
	file, list := encode(t, r.Model), r.Plan.Folded.Products
	if len(list) != 1 || list[0].Subgraph == nil || *list[0].Subgraph != 1 {
		t.Fatalf("products %+v, expected one in the second body", list)
	}
	at := func(i int) *int { return &i }
	for _, c := range []struct {
		name string
		list []plan.FoldedProduct
		want string // "" for none
	}{
		{"as it is", list, ""},
		{"none", nil, `tensor "t" of the source is missing`},
		{"twice", slices.Repeat(list, 2), `product "j" is listed twice`},
		{"in the main graph", []plan.FoldedProduct{{Tensor: "j", Transposed: "t"}}, `product "j": the source has no node that makes "j"`},
		{"in the other branch", []plan.FoldedProduct{{Tensor: "j", Transposed: "t", Subgraph: at(0)}}, `product "j": the source has no node that makes "j"`},
		{"by another tensor", []plan.FoldedProduct{{Tensor: "j", Transposed: "g", Subgraph: at(1)}}, `product "j": expected a MatMul or Gemm of the source by "g"`},
		{"in no body", []plan.FoldedProduct{{Tensor: "j", Transposed: "t", Subgraph: at(2)}}, "expected a subgraph from 0 to 1, found 2"},
		{"in a body before all", []plan.FoldedProduct{{Tensor: "j", Transposed: "t", Subgraph: at(-1)}}, "expected a subgraph from 0 to 1, found -1"},
	} {
		r.Plan.Folded.Products = c.list
		report, err := verify.Plan(parse(t, file), r.Plan, verify.Options{Source: parse(t, from)})
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(report.Violations, func(v verify.Violation) bool {
			return v.Code == verify.CodeFolded && strings.Contains(v.Message, c.want)
		})
		if report.Valid != (c.want == "") || c.want != "" && !found {
			t.Errorf("%s: violations %v, expected one with %q", c.name, report.Violations, c.want)
		}
	}
}
