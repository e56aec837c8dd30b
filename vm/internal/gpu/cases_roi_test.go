package gpu

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() {
	cases = append(cases, roiCases...)
	exactCases = append(append(exactCases, roiCases...),
		nodeCase{op: "RoiAlign", version: 10, attrs: binsOf(2, 3), in: args(noise(1, 1, 5, 7), strangeBoxes, wholes(graph.Int64, 0, 1, 5))},
		nodeCase{op: "RoiAlign", attrs: append(binsOf(2, 3), text("mode", "max")), in: args(noise(1, 1, 5, 7), strangeBoxes, wholes(graph.Int64, 0, 1, 5))},
	)
}

// boxes are regions within an image of 20 x 20 elements and a little beyond.
func boxes(many int) *reference.Tensor {
	t := noise(many, 4)
	for i := range t.F {
		if i%4 < 2 {
			t.F[i] = float64(float32(4*t.F[i] + 7))
		} else {
			t.F[i] = float64(float32(t.F[i-2] + 3*t.F[i] + 7))
		}
	}
	return t
}

// strangeBoxes are outside, without an extent, turned round, large, and not numbers.
var strangeBoxes = reference.Reals([]int{5, 4}, -50, -50, -40, -40, 3, 3, 3, 3, 6, 4, 1, 1, -1000, -3, 2000, 4, 2, 1, math.NaN(), 4)

func binsOf(rows, columns int64) []*graph.Attr {
	return attrs(whole("output_height", rows), whole("output_width", columns))
}

var roiCases = []nodeCase{
	{op: "RoiAlign", attrs: append(binsOf(3, 4), whole("sampling_ratio", 2), real("spatial_scale", 0.75)), in: args(noise(2, 3, 20, 20), boxes(7), wholes(graph.Int64, 0, 2, 7)), tolerance: 1e-5, types: inSingle},
	{op: "RoiAlign", attrs: binsOf(2, 2), in: args(noise(2, 3, 20, 20), boxes(5), wholes(graph.Int64, 0, 2, 5)), tolerance: 1e-5, types: inSingle},
	{op: "RoiAlign", version: 10, attrs: binsOf(2, 5), in: args(noise(2, 3, 20, 20), boxes(5), wholes(graph.Int64, 0, 2, 5)), tolerance: 1e-5, types: inSingle},
	{op: "RoiAlign", attrs: append(binsOf(3, 3), whole("sampling_ratio", 3), text("mode", "max"), text("coordinate_transformation_mode", "output_half_pixel")), in: args(noise(2, 3, 20, 20), boxes(5), wholes(graph.Int64, 0, 2, 5)), tolerance: 1e-5, types: inSingle},
	{op: "MaxRoiPool", attrs: attrs(ints("pooled_shape", 3, 4), real("spatial_scale", 0.75)), in: args(noise(2, 5, 17, 19), reference.Reals([]int{4, 5},
		0, 1, 2, 9, 12, 1, 0, 0, 30, 30, 1, 5, 5, 5, 5, 0, 40, 40, 50, 50))},
}

// TestRegionsOfNoImage: a region of an image that is not there is reported, and one with very
// many samples, too.
func TestRegionsOfNoImage(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	x, images := noise(2, 1, 3, 3), "the image of region 1: expected a whole number in [0, 2)"
	for _, test := range []struct {
		c    nodeCase
		i    int   // of input 2, or of input 1 with huge
		v    int64 // that element then
		huge bool
		err  string
	}{
		{nodeCase{op: "RoiAlign", in: args(x, reference.Reals([]int{2, 4}, 0, 0, 1, 1, 0, 0, 2, 2), list(1, 0))}, 1, 2, false, images},
		{nodeCase{op: "RoiAlign", in: args(x, reference.Reals([]int{2, 4}, 0, 0, 1, 1, 0, 0, 2, 2), list(1, 0))}, 1, -1, false, images},
		{nodeCase{op: "RoiAlign", in: args(x, reference.Reals([]int{2, 4}, 0, 0, 1, 1, 0, 0, 2, 2), list(1, 0))}, 3, 0x7149f2ca_40000000, true, "region 1 takes more samples for each bin than 2147483648 along an axis (sampling_ratio)"}, // 1e30
		{nodeCase{op: "MaxRoiPool", attrs: attrs(ints("pooled_shape", 1, 1)), in: args(x, reference.Reals([]int{2, 5}, 0, 0, 0, 1, 1, 0, 0, 0, 2, 2))}, 2, 0x3f000000_3f800000, true, images},                                              // half an image
	} {
		p := b.prepare(&test.c, graph.Float32)
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		b.must(b.kernels.ClearFaults())
		if test.huge {
			b.put(p.n.In[1], test.i, test.v)
		} else {
			b.put(p.n.In[2], test.i, test.v)
		}
		b.must(p.run(nil))
		if node, err := b.kernels.Fault(); node != p.n.Node || err == nil || err.Error() != test.err {
			t.Errorf("%s: got fault %v of %v, want %s", test.c.op, err, node, test.err)
		}
	}
}
