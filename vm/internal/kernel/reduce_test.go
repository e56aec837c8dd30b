package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// Reductions of rows and of columns are those of the definition, with NaN and infinities,
// for odd lengths, too.
func TestReductionsOfSpecialNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, shape := range [][]int{{3, 5}, {37, 19}, {5, 300}, {70, 1029}} {
		for special := range 3 { // none, few, many
			x := blank(graph.Float32, shape)
			list := data[float32](x)
			for i := range list {
				list[i] = float32(r.NormFloat64())
				if special > 0 && r.IntN([]int{0, 99, 3}[special]) == 0 {
					list[i] = fewReals[r.IntN(len(fewReals))]
				}
			}
			for axis := range 2 {
				for _, k := range []struct {
					op         string
					start      float64
					join       func(sum, v float64) float64
					exact, log bool
				}{
					{"ReduceMax", math.Inf(-1), func(a, b float64) float64 { return max(a, b) }, true, false},
					{"ReduceMin", math.Inf(1), func(a, b float64) float64 { return min(a, b) }, true, false},
					{"ReduceL1", 0, func(a, b float64) float64 { return a + math.Abs(b) }, false, false},
					{"ReduceSumSquare", 0, func(a, b float64) float64 { return a + b*b }, false, false},
					{"ReduceProd", 1, func(a, b float64) float64 { return a * b }, false, false},
					{"ReduceLogSumExp", 0, func(a, b float64) float64 { return a + math.Exp(b) }, false, true},
				} {
					out := blank(graph.Float32, []int{shape[1-axis]})
					c := &Invocation{Call: form.Call{
						Node: &graph.Node{Op: k.op, Attrs: attrs(ints("axes", int64(axis)), whole1("keepdims", 0))}, Version: 11,
						In: []*Tensor{x}, Out: []*Tensor{out}, Runtime: alone{},
					}}
					if err := prepareAndRun(c, Lookup("", k.op), 2); err != nil {
						t.Fatal(err)
					}
					for o, got := range data[float32](out) {
						want := k.start
						for j := range shape[axis] {
							at := o*shape[1] + j
							if axis == 0 {
								at = j*shape[1] + o
							}
							want = k.join(want, float64(list[at]))
						}
						if k.log {
							want = math.Log(want)
						}
						w := float32(want)
						same := got == w && math.Signbit(float64(got)) == math.Signbit(want) || got != got && w != w
						near := !k.exact && math.Abs(float64(got)-want) <= 4e-7*(math.Abs(want)+1)
						if !same && !near {
							t.Fatalf("%s over axis %d of %v, %d: element %d: got %v, want %v", k.op, axis, shape, special, o, got, want)
						}
					}
				}
			}
		}
	}
}
