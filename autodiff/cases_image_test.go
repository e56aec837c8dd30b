package autodiff

// imageCases sample images, or pool over regions of them.
var imageCases = []ruleCase{
	{op: "AffineGrid", in: []operand{param(2, 2, 3), list(2, 3, 4, 5)}, opsets: []int64{20}},
	{op: "AffineGrid", name: "corners", in: []operand{param(2, 2, 3), list(2, 3, 2, 5)}, attrs: attrs{"align_corners": 1}, opsets: []int64{20}},
	{op: "AffineGrid", name: "volumes", in: []operand{param(1, 3, 4), list(1, 2, 2, 3, 4)}, opsets: []int64{20}},

	{op: "RoiAlign", in: []operand{param(2, 3, 5, 6), boxes, indices([]int{3}, 0, 1, 1)}, attrs: attrs{"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}, opsets: []int64{10, 16, 22}},
	{op: "RoiAlign", name: "no half pixels, one sample", in: []operand{param(2, 2, 5, 6), boxes, indices([]int{3}, 1, 0, 1)}, attrs: attrs{"output_height": 3, "output_width": 2, "sampling_ratio": 1, "coordinate_transformation_mode": "output_half_pixel"}, opsets: []int64{16}},
	{op: "MaxRoiPool", in: []operand{param(2, 3, 6, 7), rois}, attrs: attrs{"pooled_shape": []int64{2, 3}, "spatial_scale": 0.5}, opsets: []int64{7, 18, 22}},
	{op: "MaxRoiPool", name: "more bins than elements", in: []operand{param(2, 2, 6, 7), rois}, attrs: attrs{"pooled_shape": []int64{4, 5}}},
}

// boxes reach beyond an image of 5 by 6 elements; one is degenerate.
var boxes = param(3, 4).of(0.4, 0.6, 5.3, 4.1, -3.2, -2.1, 9.7, 14.2, 2.3, 1.2, 2.3, 1.1).fed()

// rois are images and boxes; one box lies outside.
var rois = param(3, 5).of(1, 0.4, 0.6, 8.3, 6.1, 0, -3.2, -2.1, 9.7, 14.2, 1, 40.3, 41.2, 45.3, 48.1).fed()

// signalCases transform signals.
var signalCases = func() []ruleCase {
	both := []int64{17, 20}
	along := func(axis int64, in ...operand) []operand { // the axis is an input from opset 20 on
		for len(in) < 2 {
			in = append(in, omitted)
		}
		return append(in, number(axis))
	}
	cases := []ruleCase{
		{op: "DFT", in: []operand{param(2, 5, 1)}, opsets: both},
		{op: "DFT", name: "complex", in: []operand{param(2, 4, 2)}, opsets: both},
		{op: "DFT", name: "inverse", in: []operand{param(2, 5, 2)}, attrs: attrs{"inverse": 1}, opsets: both},
		{op: "DFT", name: "one side", in: []operand{param(2, 6, 1)}, attrs: attrs{"onesided": 1}, opsets: both},
		{op: "DFT", name: "one side of an odd length", in: []operand{param(5, 1)}, attrs: attrs{"onesided": 1}, opsets: []int64{20}},
		{op: "DFT", name: "longer", in: []operand{param(2, 3, 1), number(5)}, attrs: attrs{"onesided": 1}, opsets: both},
		{op: "DFT", name: "shorter", in: []operand{param(2, 6, 2), number(4)}, opsets: both},
		{op: "DFT", name: "axis", in: []operand{param(2, 3, 4, 2)}, attrs: attrs{"axis": 2, "inverse": 1}, opsets: []int64{17}},
		{op: "DFT", name: "axis as input", in: along(0, param(3, 4, 1)), opsets: []int64{20}},
		{op: "DFT", name: "from one side", in: []operand{param(2, 4, 2)}, attrs: attrs{"onesided": 1, "inverse": 1}, opsets: []int64{20}},
		{op: "DFT", name: "from one side to an odd length", in: []operand{param(2, 3, 2), number(5)}, attrs: attrs{"onesided": 1, "inverse": 1}, opsets: []int64{20}},
		{op: "DFT", name: "from one side to a short length", in: []operand{param(2, 5, 2), number(4)}, attrs: attrs{"onesided": 1, "inverse": 1}, opsets: []int64{20}},
		{op: "STFT", in: []operand{param(2, 9, 1), number(2), param(4)}, opsets: []int64{17}},
		{op: "STFT", name: "both sides", in: []operand{param(1, 8, 1), number(3), param(5), number(5)}, attrs: attrs{"onesided": 0}, opsets: []int64{17}},
		{op: "STFT", name: "complex", in: []operand{param(2, 7, 2), number(2), param(3)}, attrs: attrs{"onesided": 0}, opsets: []int64{17}},
		{op: "STFT", name: "no window", in: []operand{param(2, 8, 1), number(2), omitted, number(4)}, opsets: []int64{17}},
		{op: "STFT", name: "the window alone", in: []operand{param(2, 8, 1).fed(), number(2), param(4)}, opsets: []int64{17}},
		{op: "MelWeightMatrix", in: []operand{number(3), number(16), number(8000), param().of(100), param().of(4000)}, attrs: attrs{"output_datatype": 11}, opsets: []int64{17}, zero: true},
	}
	return cases
}()

// withdrawnCases are operators of early versions of ONNX.
var withdrawnCases = []ruleCase{
	{op: "Affine", in: []operand{param(2, 3)}, attrs: attrs{"alpha": 0.7, "beta": 0.2}},
	{op: "ImageScaler", in: []operand{param(2, 2, 2, 3)}, attrs: attrs{"scale": 0.7, "bias": []float64{0.1, 0.2}}},
	{op: "Crop", in: []operand{param(2, 2, 5, 6)}, attrs: attrs{"border": []int64{1, 2, 3, 0}}},
	{op: "Crop", name: "scale", in: []operand{param(2, 2, 5, 6)}, attrs: attrs{"border": []int64{1, 2, 0, 0}, "scale": []int64{2, 3}}},
}

// detCases have one row for each way of the rule.
var detCases = []ruleCase{
	{op: "Det", in: []operand{param(2, 3, 3)}, opsets: []int64{11, 18, 22}},
	{op: "Det", name: "a singular matrix", in: []operand{param(3, 3).of(1, 2, 3, 2, 4, 6, 0.5, 0.2, 0.7)}},
	{op: "Det", name: "two rows, no batch", in: []operand{param(2, 2)}},
	{op: "Det", name: "one element", in: []operand{param(3, 1, 1)}},
}

// swigluCases are a gated activation.
var swigluCases = []ruleCase{
	{op: "SwiGLU", in: []operand{param(2, 3), param(2, 3)}, opsets: []int64{28}},
	{op: "SwiGLU", name: "alpha", in: []operand{param(2, 3), param(2, 3)}, attrs: attrs{"alpha": 1.5}, opsets: []int64{28}},
}
