package gpu

import (
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

func init() {
	cases = append(cases, resizeCases...)
	exactCases = append(exactCases,
		nodeCase{op: "Resize", consts: []int{3}, in: args(list(math.MaxInt64, math.MinInt64+1, 1<<53+1), nil, nil, list(4))}, // a float64 does not hold them
		// The evaluator multiplies what is infinite by 0.
		nodeCase{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear"), text("coordinate_transformation_mode", "align_corners")), in: args(reals(1, math.Inf(1), 2, 3), nil, nil, list(7))})
	x, scales := blank(graph.Uint8, 2, 9, 11), blank(graph.Float32, 3)
	for i := range content(x) {
		content(x)[i] = byte(37 * i)
	}
	if err := form.Store(scales, []float64{1, 2, 2}, nil); err != nil {
		panic(err)
	}
	scales.Const = true
	hostCases = append(hostCases, hostCase{ // the evaluator cuts to integers after each axis
		op: "Upsample", version: 9, attrs: attrs(text("mode", "linear")), in: []*form.Tensor{x, scales}, shape: []int{2, 18, 22},
	})
}

var resizeCases = []nodeCase{
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear")), in: args(noise(2, 3, 9, 11), nil, nil, list(2, 3, 20, 31)), types: allReals},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear"), text("coordinate_transformation_mode", "align_corners")), in: args(noise(2, 3, 9, 11), nil, nil, list(2, 3, 9, 31))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear")), in: args(noise(2, 4, 5, 6), nil, nil, list(2, 7, 9, 7))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear"), text("coordinate_transformation_mode", "pytorch_half_pixel")), in: args(noise(2, 4, 5, 3), nil, nil, list(2, 7, 9, 3))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear")), in: args(noise(2, 4, 3, 6), nil, nil, list(2, 7, 3, 13))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "cubic")), in: args(noise(2, 3, 9, 11), nil, nil, list(2, 3, 20, 7)), types: allReals},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "cubic"), whole("exclude_outside", 1)), in: args(noise(40, 9), nil, nil, list(40, 14))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "linear"), whole("antialias", 1)), in: args(noise(2, 17, 23, 3), nil, nil, list(2, 5, 9, 3))},
	{op: "Resize", consts: []int{1, 2}, attrs: attrs(text("mode", "linear"), text("coordinate_transformation_mode", "tf_crop_and_resize"), real("extrapolation_value", 7)), in: args(noise(1, 2, 9, 11), reals(0, 0, -0.28125, 0.28125, 1, 1, 0.75, 1.5), reals(1, 1, 2, 2))},
	{op: "Resize", consts: []int{1, 2}, attrs: attrs(text("coordinate_transformation_mode", "tf_crop_and_resize"), real("extrapolation_value", 7)), in: args(noise(9, 11), reals(-0.28125, 0.28125, 0.75, 1.5), reals(2, 2))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("mode", "nearest")), in: args(noise(2, 3, 9, 11), nil, nil, list(2, 3, 18, 22))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("nearest_mode", "ceil")), in: args(wholes(graph.Int64, -1<<60, 1<<60, 2, 9, 11), nil, nil, list(2, 5, 7))},
	{op: "Resize", consts: []int{3}, attrs: attrs(text("nearest_mode", "floor")), in: args(flags(3, 2, 4, 5), nil, nil, list(5, 2, 7, 9))},
	{op: "Resize", consts: []int{2, 3}, version: 11, attrs: attrs(text("coordinate_transformation_mode", "tf_half_pixel_for_nn"), text("nearest_mode", "floor")), in: args(noise(2, 3, 9, 11), noise(0), noise(0), list(2, 3, 20, 7))},
	{op: "Resize", consts: []int{3}, in: args(noise(3, 4), nil, nil, list(3, 4))},
	{op: "Resize", consts: []int{2}, attrs: attrs(text("nearest_mode", "floor"), text("coordinate_transformation_mode", "asymmetric")), in: args(noise(2, 30), nil, reals(1.1, 1.7))},
	{op: "Resize", consts: []int{2}, attrs: attrs(text("mode", "linear"), text("coordinate_transformation_mode", "align_corners")), in: args(noise(2, 1, 1, 11), nil, reals(1, 1, 1, 1.7))},
	{op: "Resize", consts: []int{2}, attrs: attrs(text("mode", "linear")), in: args(noise(3, 4), nil, reals(1.1, 1.2))}, // of the same lengths
	{op: "Upsample", version: 9, consts: []int{1}, in: args(noise(2, 3, 4, 5), reals(1, 1, 2, 3))},
	{op: "Upsample", version: 9, consts: []int{1}, attrs: attrs(text("mode", "linear")), in: args(noise(2, 3, 4, 5), reals(1, 1, 2, 3))},
	{op: "Upsample", version: 7, attrs: attrs(&graph.Attr{Name: "scales", Type: graph.AttrFloats, Floats: []float32{1, 1, 2, 2}}), in: args(noise(2, 3, 4, 5))},
}

// TestTables: equal tables of two nodes are one, and count as memory that is asked for.
func TestTables(t *testing.T) {
	b := newBench(t)
	c := &nodeCase{op: "Resize", consts: []int{3}, in: args(noise(9, 11), nil, nil, list(9, 300))}
	b.prepare(c, graph.Float32)
	b.prepare(c, graph.Float32)
	var asked []int64
	b.must(b.kernels.Ready(func(bytes int64) error {
		asked = append(asked, bytes)
		return nil
	}))
	if want := int64(1280); !slices.Equal(asked, []int64{want}) || b.kernels.Queue.TableBytes() != want { // 300 indices of 4 bytes, in fives of 256
		t.Errorf("asked for %d bytes, and has %d, expected %d", asked, b.kernels.Queue.TableBytes(), want)
	}
}

// reals returns a list of reals.
func reals(list ...float64) *reference.Tensor { return reference.Reals([]int{len(list)}, list...) }
