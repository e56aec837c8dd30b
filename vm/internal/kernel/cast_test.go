package kernel

import (
	"bytes"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// The loops for a pair of dtypes write the bytes of the functions that convert one element,
// also of an odd number of elements and from the middle of a tensor.
func TestCastLoops(t *testing.T) {
	wholes := []graph.DType{
		graph.Int64, graph.Int32, graph.Int16, graph.Int8,
		graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8, graph.Bool,
	}
	reals := []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), -1.5, 0.4, 300.9, 65536.5, -40000, 1 << 31, -1 << 31,
		math.Nextafter(1<<31, 0), -1<<31 - 0.5, -1<<31 - 1, 3e9, 5e9, -3e9, 1 << 63, -1 << 63, math.Nextafter(1<<63, 0), 1.9e19, -1e19, 1, 2,
	}
	const n = 37
	check := func(to graph.DType, in *Tensor, set func(*Tensor, int)) {
		t.Helper()
		loop := fastConverter(to, in.Type)
		if loop == nil {
			return
		}
		got, want := blank(to, []int{n}), blank(to, []int{n})
		loop(got.At, in.At, 0, 14)
		loop(got.At, in.At, 14, n)
		for i := range n {
			set(want, i)
		}
		if !bytes.Equal(raw(got), raw(want)) {
			t.Errorf("%v to %v: got % x, want % x", in.Type, to, raw(got), raw(want))
		}
	}
	targets := append([]graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16}, wholes...)
	for _, from := range append([]graph.DType{graph.Float32, graph.Float64}, wholes...) {
		in := blank(from, []int{n})
		for i := range raw(in) {
			raw(in)[i] = byte(i*i*7 + i>>3)
		}
		if set, _ := writer(from); from == graph.Float32 || from == graph.Float64 {
			for i := range n {
				set(in.At, i, reals[i%len(reals)])
			}
		}
		if from == graph.Bool {
			copy(raw(in), make([]byte, 9))
		}
		for _, to := range targets {
			if to == from {
				continue
			}
			whole, isWhole := intReader(from)
			put, puts := intWriter(to)
			get, _ := reader(from)
			set, _ := writer(to)
			check(to, in, func(want *Tensor, i int) {
				if isWhole && puts {
					put(want.At, i, whole(in.At, i))
				} else {
					set(want.At, i, get(in.At, i))
				}
			})
		}
	}
}

func TestRelationLoops(t *testing.T) {
	a, b := make([]float64, 36), make([]float64, 36)
	for i := range a {
		list := []float64{math.Inf(-1), -2, 0, 3, math.Inf(1), math.NaN()}
		a[i], b[i] = list[i/6], list[i%6]
	}
	for _, r := range []simd.Relation{simd.Equal, simd.Less, simd.LessOrEqual} {
		for _, swapped := range []bool{false, true} {
			l := relationLoops[float64](r, swapped)
			vv, one := make([]bool, len(a)), make([]bool, 1)
			l.vv(vv, a, b)
			for i := range a {
				x, y := a[i], b[i]
				if swapped {
					x, y = y, x
				}
				want := x == y && r != simd.Less || x < y && r != simd.Equal
				l.vs(one, a[i:i+1], b[i])
				vs := one[0]
				l.sv(one, a[i], b[i:i+1])
				if vv[i] != want || vs != want || one[0] != want {
					t.Errorf("relation %v (swapped %v) of %v and %v: got %v, %v, %v, want %v", r, swapped, a[i], b[i], vv[i], vs, one[0], want)
				}
			}
		}
	}
}
