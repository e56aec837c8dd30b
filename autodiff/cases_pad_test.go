package autodiff

import "github.com/onnxmem/onnxmem/graph"

var padCases = []ruleCase{
	{op: "Pad", name: "attributes", in: []operand{param(2, 3)}, attrs: attrs{"pads": []int64{1, 0, 2, 1}, "value": 0.5}, opsets: []int64{7, 10}},
	{op: "Pad", name: "reflect, attributes", in: []operand{param(2, 3)}, attrs: attrs{"pads": []int64{1, 0, 0, 2}, "mode": "reflect"}, opsets: []int64{7}},
	{op: "Pad", name: "constant", in: []operand{param(2, 3), list(1, 0, 2, 1)}, opsets: []int64{11, 13, 18, 19, 21}},
	{op: "Pad", name: "value", in: []operand{param(2, 3), list(1, 0, 2, 1), param(1)}},
	{op: "Pad", name: "value alone", in: []operand{param(2, 3).fed(), list(1, 0, 2, 1), param(1)}},
	{op: "Pad", name: "axes", in: []operand{param(2, 3, 2), list(1, 2, 0, 1), omitted, list(-1, 0)}},
	{op: "Pad", name: "crops", in: []operand{param(4, 5), list(-1, 2, 1, -2)}},
	{op: "Pad", name: "crops with a value", in: []operand{param(4, 5), list(-1, 2, 1, -2), param(1)}},
	{op: "Pad", name: "nothing", in: []operand{param(4, 5), list(0, 0, 0, 0)}},
	{op: "Pad", name: "reflect", in: []operand{param(3, 4), list(2, 1, 1, 3)}, attrs: attrs{"mode": "reflect"}},
	{op: "Pad", name: "edge", in: []operand{param(3, 4), list(2, 1, 0, 3)}, attrs: attrs{"mode": "edge"}},
	{op: "Pad", name: "edge, one axis", in: []operand{param(2, 3, 2), list(0, 3, 0, 0, 1, 0)}, attrs: attrs{"mode": "edge"}},
	{op: "Pad", name: "wrap", in: []operand{param(3, 4), list(2, 5, 1, 3)}, attrs: attrs{"mode": "wrap"}, opsets: []int64{19}},
	{op: "Pad", name: "reflect, crops", in: []operand{param(6, 5), list(-2, 1, 2, -1)}, attrs: attrs{"mode": "reflect"}},
	{op: "Pad", name: "reflect, longer than the axis", in: []operand{param(3, 4), list(7, 0, 6, 9)}, attrs: attrs{"mode": "reflect"}},
	{op: "Pad", name: "reflect, one element", in: []operand{param(1, 4), list(2, 0, 1, 0)}, attrs: attrs{"mode": "reflect"}},
	{op: "Pad", name: "reflect, both ends meet", in: []operand{param(4, 2), list(3, 0, 3, 0)}, attrs: attrs{"mode": "reflect"}},
	{op: "Pad", name: "reflect, many turns", in: []operand{param(2, 2), list(0, 20, 0, 3)}, attrs: attrs{"mode": "reflect"}},
	{op: "Pad", name: "edge, crops", in: []operand{param(6, 5), list(-2, 1, 2, -1)}, attrs: attrs{"mode": "edge"}},
	{op: "Pad", name: "wrap, crops and many rounds", in: []operand{param(6, 2), list(-2, 9, 5, 30)}, attrs: attrs{"mode": "wrap"}, opsets: []int64{19}},
	{op: "CenterCropPad", name: "pads", in: []operand{param(2, 3), list(5, 6)}},
	{op: "CenterCropPad", name: "crops", in: []operand{param(5, 6), list(2, 3)}},
	{op: "CenterCropPad", name: "both, axes", in: []operand{param(5, 2, 3), list(6, 2)}, attrs: attrs{"axes": []int64{-1, 0}}},
	{op: "ReverseSequence", in: []operand{param(4, 3, 2), indices([]int{3}, 1, 4, 3)}, opsets: []int64{10, 18}},
	{op: "ReverseSequence", name: "batch first", in: []operand{param(3, 4), indices([]int{3}, 1, 4, 3)}, attrs: attrs{"batch_axis": 0, "time_axis": 1}},
}

// factors returns the constant scales of a Resize.
func factors(v ...float64) operand {
	return operand{shape: []int{len(v)}, reals: v, elem: graph.Float32, known: true}
}

var resizeCases = func() []ruleCase {
	cases := []ruleCase{
		{op: "Upsample", rule: "Resize", name: "scales are an attribute", in: []operand{param(1, 2, 3, 2)}, attrs: attrs{"scales": []float64{1, 1, 2, 3}}, opsets: []int64{7, 8}},
		{op: "Upsample", rule: "Resize", name: "linear", in: []operand{param(1, 2, 3, 2), factors(1, 1, 2, 1.5)}, attrs: attrs{"mode": "linear"}, opsets: []int64{9}},
		{op: "Resize", name: "scales are input 1", in: []operand{param(1, 2, 3, 2), factors(1, 1, 2, 3)}, attrs: attrs{"mode": "nearest"}, opsets: []int64{10}},
		{op: "Resize", name: "scales are input 1, linear", in: []operand{param(1, 2, 3, 2), factors(1, 1, 2, 1.5)}, attrs: attrs{"mode": "linear"}, opsets: []int64{10}},
		{op: "Resize", name: "nearest by whole numbers", in: []operand{param(1, 2, 3, 2), omitted, factors(1, 1, 2, 3)}, attrs: attrs{"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, opsets: []int64{13, 18, 19, 21}},
		{op: "Resize", name: "empty roi and scales, sizes", in: []operand{param(1, 2, 3, 2), factors(), factors(), list(1, 2, 5, 3)}, opsets: []int64{11, 13}},
		{op: "Resize", name: "all axes", in: []operand{param(2, 3, 2), omitted, factors(1.5, 2, 0.5)}, attrs: attrs{"mode": "linear"}},
		{op: "Resize", name: "axes, sizes", in: []operand{param(1, 2, 3, 4), omitted, omitted, list(6, 5)}, attrs: attrs{"mode": "linear", "axes": []int64{-1, 2}}},
		{op: "Resize", name: "not larger", in: []operand{param(1, 1, 3, 4), omitted, omitted, list(6, 5)}, attrs: attrs{"mode": "linear", "axes": []int64{2, 3}, "keep_aspect_ratio_policy": "not_larger"}},
		{op: "Resize", name: "not smaller", in: []operand{param(1, 1, 3, 4), omitted, omitted, list(6, 5)}, attrs: attrs{"mode": "linear", "axes": []int64{2, 3}, "keep_aspect_ratio_policy": "not_smaller"}},
		{op: "Resize", name: "exclude outside", in: []operand{param(1, 1, 4, 4), omitted, factors(1, 1, 1.5, 0.75)}, attrs: attrs{"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}},
		{op: "Resize", name: "crop", in: []operand{param(4, 4), factors(0.25, 0, 0.75, 1.25), omitted, list(3, 5)}, attrs: attrs{"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.0}},
		{op: "Resize", name: "corners of a length that is rounded", in: []operand{param(1, 1, 4, 5), omitted, factors(1, 1, 1.7, 0.7)}, attrs: attrs{"mode": "linear", "coordinate_transformation_mode": "align_corners"}},
		{op: "Resize", name: "no change", in: []operand{param(2, 3), omitted, factors(1, 1)}, attrs: attrs{"mode": "linear"}},
	}
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, coordinates := range []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"} {
			opset := []int64{19}
			for name, scales := range map[string]operand{"larger": factors(1, 1, 2, 1.6), "smaller": factors(1, 1, 0.5, 0.8)} {
				cases = append(cases, ruleCase{
					op: "Resize", name: mode + ", " + coordinates + ", " + name, in: []operand{param(1, 1, 4, 5), omitted, scales},
					attrs: attrs{"mode": mode, "coordinate_transformation_mode": coordinates}, opsets: opset,
				})
			}
		}
	}
	for _, nearest := range []string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"} {
		cases = append(cases, ruleCase{
			op: "Resize", name: nearest, in: []operand{param(3, 5), omitted, factors(2, 0.7)}, attrs: attrs{"nearest_mode": nearest},
		})
	}
	return cases
}()
