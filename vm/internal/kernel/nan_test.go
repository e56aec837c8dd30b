package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// The expected integers are those of ONNX Runtime 1.31 on x86 (of uint32, of its last elements).
func TestCastOutOfRange(t *testing.T) {
	reals := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1.5, 300.9, 65536.5, -40000, 3e9, 5e9, -3e9, 9.5e18, 1.9e19, -1e19}
	const least32, least64 = math.MinInt32, math.MinInt64
	for _, k := range []struct {
		d    graph.DType
		want []int64
	}{
		{graph.Int8, []int64{0, 0, 0, -1, 44, 0, -64, 0, 0, 0, 0, 0, 0}},
		{graph.Uint8, []int64{0, 0, 0, 255, 44, 0, 192, 0, 0, 0, 0, 0, 0}},
		{graph.Int16, []int64{0, 0, 0, -1, 300, 0, 25536, 0, 0, 0, 0, 0, 0}},
		{graph.Int32, []int64{least32, least32, least32, -1, 300, 65536, -40000, least32, least32, least32, least32, least32, least32}},
		{graph.Uint32, []int64{0, 0, 0, 1<<32 - 1, 300, 65536, 1<<32 - 40000, 3e9, 705032704, 1294967296, 0, 0, 0}},
		{graph.Int64, []int64{least64, least64, least64, -1, 300, 65536, -40000, 3e9, 5e9, -3e9, least64, least64, least64}},
		{graph.Uint64, []int64{least64, 0, least64, -1, 300, 65536, -40000, 3e9, 5e9, -3e9, 9.5e18 - 1<<64, 0, least64}},
	} {
		in, out := blank(graph.Float64, []int{len(reals)}), blank(k.d, []int{len(reals)})
		copy(data[float64](in), reals)
		if err := castOne(in, out); err != nil {
			t.Fatal(err)
		}
		get, _ := form.IntReader(k.d)
		got := make([]int64, len(reals))
		for i := range got {
			got[i] = get(out.At, i)
		}
		if !slices.Equal(got, k.want) {
			t.Errorf("%v: got %v, want %v", k.d, got, k.want)
		}
	}
}

// A NaN is larger than all numbers, so numbers are in order wherever it stands.
func TestTopKOfNaN(t *testing.T) {
	x := blank(graph.Float32, []int{6})
	copy(data[float32](x), []float32{3, float32(math.NaN()), 1, float32(math.Inf(1)), float32(math.NaN()), 2})
	for largest, want := range [][]int64{{2, 5, 0, 3, 1}, {1, 4, 3, 0, 5}} {
		k, out, places := blank(graph.Int64, []int{1}), blank(graph.Float32, []int{5}), blank(graph.Int64, []int{5})
		data[int64](k)[0] = 5
		c := &Invocation{Call: form.Call{
			Node: &graph.Node{Op: "TopK", Attrs: attrs(whole1("largest", int64(largest)))}, Version: 11,
			In: []*Tensor{x, k}, Out: []*Tensor{out, places}, Runtime: alone{},
		}}
		if err := prepareAndRun(c, Lookup("", "TopK"), 1); err != nil {
			t.Fatal(err)
		}
		if got := data[int64](places); !slices.Equal(got, want) {
			t.Errorf("largest %d: got %v, want %v", largest, got, want)
		}
	}
}
