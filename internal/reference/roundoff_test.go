package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestRoundoffOfHalves: of kernels that compute a product of 16-bit operands, the one that
// sums in float32 and rounds once is right; those that cut off, round a partial result to 16
// bits, or sum in 16 bits are not, and neither is one with a term too few.
func TestRoundoffOfHalves(t *testing.T) {
	const m, k, n = 16, 96, 16
	for _, typ := range []graph.DType{graph.Float16, graph.BFloat16} {
		rng := rand.New(rand.NewPCG(1, uint64(typ)))
		draw := func(shape ...int) *Tensor {
			x := zeros(typ, shape)
			for i := range x.F {
				x.F[i] = rng.NormFloat64()
			}
			return x.rounded()
		}
		a, b := draw(m, k), draw(k, n)
		out, err := Node(&graph.Node{Op: "MatMul", Outputs: []graph.TensorID{0}}, 13, []*Tensor{a, b})
		if err != nil {
			t.Fatal(err)
		}
		round := func(v float64) float64 { return (&Tensor{Type: typ, Shape: []int{1}, F: []float64{v}}).rounded().F[0] }
		sum := func(terms int, each func(float64) float64, last func(float64) float64) *Tensor {
			y := zeros(typ, []int{m, n})
			for i := range y.F {
				total := 0.0
				for l := range terms {
					total = each(total + a.F[i/n*k+l]*b.F[l*n+i%n])
				}
				y.F[i] = last(total)
			}
			return y
		}
		single := func(v float64) float64 { return float64(float32(v)) }
		cut := func(v float64) float64 {
			p := precisions[typ]
			u := 2 * p.stored(math.Abs(v))
			return math.Trunc(v/u) * u
		}
		for _, kernel := range []struct {
			name   string
			result *Tensor
			right  bool
		}{
			{"sums in float32", sum(k, single, round), true},
			{"cuts off", sum(k, single, cut), false},
			{"sums in 16 bits", sum(k, round, round), false},
			{"rounds half of the sum", sum(k, func() func(float64) float64 {
				calls := 0
				return func(v float64) float64 {
					if calls++; calls%k == k/2 {
						return round(v)
					}
					return single(v)
				}
			}(), round), false},
			{"leaves out a term", sum(k-1, single, round), false},
		} {
			d, err := out[0].Compare(kernel.result)
			if err != nil {
				t.Fatal(err)
			}
			if (d.Ratio <= 1) != kernel.right {
				t.Errorf("%v: a kernel that %s: an element is off by %.3g of its tolerance", typ, kernel.name, d.Ratio)
			}
		}
	}
}
