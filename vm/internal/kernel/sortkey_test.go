package kernel

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// fewReals are numbers of which many are equal, or NaN in two forms.
var fewReals = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, -3.5, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffc00001), 1e-45}

// compareReals is the order of TopK and Unique.
func compareReals(a, b float32) int {
	if d := cmp.Compare(btoi(a != a), btoi(b != b)); d != 0 || a != a {
		return d
	}
	return order(a, b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The keys of a line are those of a stable sort, however many are asked for.
func TestTopKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	c := &Invocation{Call: form.Call{Runtime: alone{}}}
	for _, n := range []int{1, 2, 3, 17, 64, 65, 300, 777} {
		for round := range 12 {
			step := 1 + round%3
			x := make([]float32, n*step)
			for i := range x {
				x[i] = fewReals[r.IntN(len(fewReals))]
				if round > 5 || round%2 == 0 && r.IntN(2) == 0 {
					x[i] = float32(r.NormFloat64())
				}
			}
			if round == 11 {
				slices.Sort(x) // each element is larger than those before
			}
			for _, k := range []int{0, 1, min(n, 2), min(n, 10), n / 4, n/2 + 1, n} {
				for _, largest := range []bool{false, true} {
					want := make([]int, n)
					for j := range want {
						want[j] = j
					}
					slices.SortStableFunc(want, func(a, b int) int {
						if d := compareReals(x[a*step], x[b*step]); largest {
							return -d
						} else {
							return d
						}
					})
					keys := make([]uint64, n)
					topKeys(c, keys, x, step, k, largest)
					for j := range k {
						if got := int(uint32(keys[j])); got != want[j] {
							t.Fatalf("%d of %d, largest %v, step %d: element %d: got index %d, want %d", k, n, largest, step, j, got, want[j])
						}
					}
				}
			}
		}
	}
}

// Elements that do not fit beside their indices have no keys, and all others sort stably.
func TestElementKeys(t *testing.T) {
	c := &Invocation{Call: form.Call{Runtime: alone{}}}
	for _, k := range []struct {
		list []int64
		ok   bool
	}{
		{[]int64{5, -3, 5, 0, -3, 1 << 40}, true},
		{[]int64{math.MaxInt64, math.MinInt64}, false},
		{[]int64{math.MaxInt64, math.MinInt64 / 4, 7}, false},
		{[]int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64}, true},
		{[]int64{9}, true},
	} {
		keys := make([]uint64, len(k.list))
		in := &Tensor{Type: graph.Int64, Shape: []int{len(k.list)}, At: unsafe.Pointer(&k.list[0])}
		low, ok := elementKeys(c, keys, in)
		if ok != k.ok {
			t.Errorf("%v: keys: %v, expected %v", k.list, ok, k.ok)
		}
		if !ok {
			continue
		}
		sortKeys(c, keys)
		for j := 1; j < len(keys); j++ {
			a, b := keys[j-1]&(1<<low-1), keys[j]&(1<<low-1)
			if d := cmp.Compare(k.list[a], k.list[b]); d > 0 || d == 0 && a >= b || (d == 0) != (keys[j-1]>>low == keys[j]>>low) {
				t.Errorf("%v: elements %d and %d are out of order", k.list, a, b)
			}
		}
	}
}

// The best elements of rows and of columns are those of the definition: of equal ones the
// first or the last, and NaN is better only where it comes first.
func TestBestOfLines(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	c := &Invocation{Call: form.Call{Runtime: alone{}}}
	for round := range 60 {
		n, step := 1+r.IntN(600), 1+r.IntN(40)
		x := make([]float32, n*step)
		for i := range x {
			x[i] = fewReals[r.IntN(len(fewReals))]
			if round%3 == 0 {
				x[i] = fewReals[7+i/step/300] // -∞, then NaN
			}
		}
		for _, largest := range []bool{false, true} {
			for _, last := range []bool{false, true} {
				best := func(x []float32, step int) int64 {
					at := 0
					for j := range n {
						v, top := x[j*step], x[at*step]
						if largest && v > top || !largest && v < top || last && v == top {
							at = j
						}
					}
					return int64(at)
				}
				if got, want := bestReal(c, x, line{n: n, step: 1}, largest, last), best(x, 1); int64(got) != want {
					t.Fatalf("row of %d, largest %v, last %v: got %d, want %d", n, largest, last, got, want)
				}
				got := make([]int64, step)
				bestOfColumns(c, got, x, line{n: n, step: step}, largest, last)
				for i := range got {
					if want := best(x[i:], step); got[i] != want {
						t.Fatalf("column %d of %d x %d, largest %v, last %v: got %d, want %d", i, n, step, largest, last, got[i], want)
					}
				}
			}
		}
	}
}
