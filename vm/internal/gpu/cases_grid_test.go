package gpu

func init() { cases = append(cases, gridCases...) }

// gridCases have tolerances of coordinates in float32.
var gridCases = []nodeCase{
	{op: "GridSample", version: 20, tolerance: 1e-5, in: args(noise(2, 3, 7, 9), noise(2, 5, 6, 2)), types: onlySingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, attrs: attrs(text("padding_mode", "border"), whole("align_corners", 1)), in: args(noise(2, 19, 7, 9), noise(2, 5, 6, 2)), types: onlySingle},
	{op: "GridSample", version: 16, tolerance: 1e-5, attrs: attrs(text("mode", "bilinear"), text("padding_mode", "reflection")), in: args(noise(2, 3, 7, 9), noise(2, 5, 6, 2)), types: onlySingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, attrs: attrs(text("mode", "nearest"), text("padding_mode", "reflection"), whole("align_corners", 1)), in: args(noise(2, 3, 7, 9), noise(2, 5, 6, 2)), types: onlySingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, attrs: attrs(text("mode", "nearest")), in: args(noise(1, 2, 5, 4, 3), noise(1, 3, 4, 5, 3)), types: onlySingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, attrs: attrs(text("mode", "cubic"), text("padding_mode", "reflection")), in: args(noise(2, 3, 7, 9), noise(2, 5, 6, 2)), types: halfAndSingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, attrs: attrs(text("mode", "cubic"), text("padding_mode", "border"), whole("align_corners", 1)), in: args(noise(2, 3, 4, 4), noise(2, 5, 6, 2)), types: onlySingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, attrs: attrs(text("mode", "linear")), in: args(noise(1, 2, 5, 4, 3), noise(1, 3, 4, 5, 3)), types: onlySingle},
	{op: "GridSample", version: 20, tolerance: 1e-5, in: args(noise(2, 3, 7), noise(2, 5, 1)), types: onlySingle},
	{op: "AffineGrid", version: 20, in: args(noise(3, 2, 3), list(3, 4, 5, 7)), consts: []int{1}, types: allReals},
	{op: "AffineGrid", version: 20, attrs: attrs(whole("align_corners", 1)), in: args(noise(2, 3, 4), list(2, 4, 5, 1, 6)), consts: []int{1}},
}
