package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// broadcasting lists the operators whose inputs broadcast.
var broadcasting = []struct {
	op          string
	least, most int // inputs
	kind        rune
}{
	{"Sum", 1, 5, 'n'},
	{"Max", 1, 5, 'n'},
	{"Min", 1, 5, 'n'},
	{"Mean", 1, 5, 'f'},
	{"Add", 2, 2, 'n'},
	{"Sub", 2, 2, 'n'},
	{"Mul", 2, 2, 'n'},
	{"Div", 2, 2, 'd'},
	{"Mod", 2, 2, 'd'},
	{"Pow", 2, 2, 'p'},
	{"Equal", 2, 2, 'n'},
	{"Less", 2, 2, 'n'},
	{"LessOrEqual", 2, 2, 'n'},
	{"Greater", 2, 2, 'n'},
	{"GreaterOrEqual", 2, 2, 'n'},
	{"And", 2, 2, 'b'},
	{"Or", 2, 2, 'b'},
	{"Xor", 2, 2, 'b'},
	{"BitwiseAnd", 2, 2, 'i'},
	{"BitwiseOr", 2, 2, 'i'},
	{"BitwiseXor", 2, 2, 'i'},
	{"BitShift", 2, 2, 'h'},
	{"Concat", 1, 5, 'c'},
	{"Clip", 3, 3, 'k'},
	{"Where", 3, 3, 'w'},
	{"PRelu", 2, 2, 's'},
	{"Expand", 2, 2, 'e'},
	{"Gemm", 3, 3, 'g'},
	{"MatMul", 2, 2, 'm'},
}

// TestBroadcasting compares operators with the evaluator for random shapes: of any number
// of inputs, none of which has to have the output's shape. The elements are small
// integers, so that every dtype computes exactly.
func TestBroadcasting(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 6000 {
		b := broadcasting[i%len(broadcasting)]
		d := []graph.DType{graph.Float32, graph.Float32, graph.Float16, graph.Float64, graph.Int64, graph.Int32}[r.IntN(6)]
		switch {
		case b.kind == 'f' && d.Integer():
			d = graph.Float32
		case b.kind == 'i':
			d = []graph.DType{graph.Int64, graph.Int32, graph.Int16, graph.Int8}[r.IntN(4)]
		case b.kind == 'h':
			d = []graph.DType{graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8}[r.IntN(4)]
		}
		k := nodeCase{op: b.op, version: 18}
		shapes := broadcastShapes(r, b.least+r.IntN(b.most-b.least+1))
		for _, s := range shapes {
			k.in = append(k.in, small(r, s, d))
		}
		switch b.kind {
		case 'b':
			for n := range k.in {
				k.in[n] = truths(r, shapes[n])
			}
		case 'w':
			k.in[0] = truths(r, shapes[0])
		case 'h':
			k.attrs = attrs(text("direction", []string{"LEFT", "RIGHT"}[r.IntN(2)]))
			for n := range k.in {
				k.in[n] = transformed(k.in[n], math.Abs)
			}
		case 'c':
			whole := append(spreadShape(shapes), 3)
			axis := r.IntN(len(whole))
			k.attrs = attrs(whole1("axis", int64(axis)))
			for n := range k.in {
				s := slices.Clone(whole)
				s[axis] = r.IntN(4)
				k.in[n] = small(r, s, d)
			}
		case 'k':
			k.in[1], k.in[2] = small(r, []int{}, d), small(r, []int{}, d)
		case 'd': // no division by zero, and no fractions
			k.in[1] = transformed(k.in[1], func(v float64) float64 { return math.Copysign(math.Exp2(math.Abs(v)), v) })
			if b.op == "Div" && !d.Integer() {
				k.in[0] = transformed(k.in[0], func(v float64) float64 { return 8 * v })
			}
		case 'p':
			if !d.Integer() && r.IntN(2) == 0 {
				k.in[1] = small(r, shapes[1], graph.Int64) // a different dtype
			}
			k.in[1] = transformed(k.in[1], math.Abs)
			if d.Integer() && r.IntN(2) == 0 { // square roots of squares
				k.in[0] = transformed(k.in[0], func(v float64) float64 { return v * v })
				k.in[1] = transformed(small(r, shapes[1], graph.Float64), func(v float64) float64 { return math.Abs(v) / 2 })
			}
		case 's': // the slope broadcasts to the other input only
			k.in[0] = small(r, spreadShape(shapes), d)
			k.in[1] = small(r, shapes[1], d)
		case 'e':
			list := make([]int64, len(shapes[1]))
			for a, n := range shapes[1] {
				list[a] = int64(n)
			}
			k.in[1] = wholes([]int{len(list)}, list...)
		case 'g':
			m, n := 1+r.IntN(4), 1+r.IntN(4)
			c := [][]int{{}, {1}, {n}, {1, n}, {m, 1}, {m, n}, {1, 1}}[r.IntN(7)]
			k.in = args(small(r, []int{m, 3}, d), small(r, []int{3, n}, d), small(r, c, d))
			k.attrs = attrs(float1("beta", 2))
		case 'm':
			for n, s := range shapes {
				k.in[n] = small(r, append(slices.Clone(s), [][]int{{2, 3}, {3, 4}}[n]...), d)
			}
		}
		t.Run(fmt.Sprintf("%04d-%s-%v", i, b.op, d), func(t *testing.T) { k.exact(t, d) })
	}
}

// broadcastShapes returns shapes that broadcast, each with its own axes of length 1 and
// missing axes.
func broadcastShapes(r *rand.Rand, n int) [][]int {
	whole := make([]int, r.IntN(5))
	for a := range whole {
		whole[a] = []int{0, 1, 2, 2, 3, 3, 4, 5, 7, 40}[r.IntN(10)]
		if whole[a] == 0 && r.IntN(4) > 0 {
			whole[a] = 2
		}
	}
	if len(whole) == 1 && r.IntN(8) == 0 {
		whole[0] = grain + 100 // more than one part
	}
	shapes := make([][]int, n)
	for i := range shapes {
		s := slices.Clone(whole[r.IntN(len(whole)+1):])
		for a := range s {
			if r.IntN(5) < 2 {
				s[a] = 1
			}
		}
		shapes[i] = s
	}
	return shapes
}

func spreadShape(shapes [][]int) []int {
	var out []int
	for _, s := range shapes {
		out = broadcastShape(out, s)
	}
	return out
}

// small returns integers from -3 to 3.
func small(r *rand.Rand, shape []int, d graph.DType) *reference.Tensor {
	t := &reference.Tensor{Type: d, Shape: shape}
	for range count(shape) {
		if d.Integer() {
			t.I = append(t.I, int64(r.IntN(7)-3))
		} else {
			t.F = append(t.F, float64(r.IntN(7)-3))
		}
	}
	return t
}

func truths(r *rand.Rand, shape []int) *reference.Tensor {
	t := &reference.Tensor{Type: graph.Bool, Shape: shape}
	for range count(shape) {
		t.I = append(t.I, int64(r.IntN(2)))
	}
	return t
}

func transformed(t *reference.Tensor, f func(float64) float64) *reference.Tensor {
	for i, v := range t.F {
		t.F[i] = f(v)
	}
	for i, v := range t.I {
		t.I[i] = int64(f(float64(v)))
	}
	return t
}

// exact computes the case with one worker and with three, with NaN around the tensors, and
// expects exactly the evaluator's elements.
func (k *nodeCase) exact(t *testing.T, d graph.DType) {
	t.Helper()
	n, want, err := k.node(k.in)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		in := make([]*Tensor, len(k.in))
		for i, x := range k.in {
			in[i] = store(x, d)
		}
		got, err := k.run(n, in, want, d, workers, alone{})
		if err != nil {
			t.Fatal(err)
		}
		for o, w := range want {
			list, _ := got[o].Reals()
			if len(list) != len(w.F)+len(w.I) {
				t.Fatalf("output %d has %d elements, want %d", o, len(list), len(w.F)+len(w.I))
			}
			for i, v := range list {
				var expected float64
				if w.F != nil {
					expected = w.F[i]
				} else {
					expected = float64(w.I[i])
				}
				if d == graph.Float32 && k.op == "Mean" {
					expected = float64(float32(expected))
				}
				if v != expected && !(v != v && expected != expected) {
					t.Fatalf("inputs of shapes %v, output %v: element %d: got %v, want %v", shapesOf(in), w.Shape, i, v, expected)
				}
			}
		}
	}
}

func shapesOf(list []*Tensor) [][]int {
	var shapes [][]int
	for _, t := range list {
		shapes = append(shapes, t.Shape)
	}
	return shapes
}
