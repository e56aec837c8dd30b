package autodiff

// gridCases sample images at points within and beyond their borders.
var gridCases = []ruleCase{
	{op: "GridSample", in: []operand{param(2, 3, 4, 5), param(2, 3, 2, 2).in(-1.3, 1.3)}, opsets: []int64{16, 20}},
	{op: "GridSample", name: "corners", in: []operand{param(1, 2, 3, 4), param(1, 4, 2, 2).in(-1.2, 1.2)}, attrs: attrs{"align_corners": 1}, opsets: []int64{20}},
	{op: "GridSample", name: "border", in: []operand{param(1, 2, 3, 4), param(1, 5, 2, 2).in(-1.4, 1.4)}, attrs: attrs{"padding_mode": "border"}, opsets: []int64{20}},
	{op: "GridSample", name: "volumes", in: []operand{param(1, 2, 3, 2, 4), param(1, 2, 3, 2, 3).in(-1.1, 1.1)}, opsets: []int64{20}},
	{op: "GridSample", name: "nearest", in: []operand{param(2, 2, 4, 5), param(2, 3, 2, 2).in(-1.3, 1.3)}, attrs: attrs{"mode": "nearest"}, opsets: []int64{20}},
	{op: "GridSample", name: "the grid alone", in: []operand{param(1, 2, 3, 4).fed(), param(1, 4, 2, 2).in(-1, 1)}, opsets: []int64{20}},
	{op: "GridSample", name: "the image alone", in: []operand{param(1, 2, 3, 4), param(1, 4, 2, 2).in(-1, 1).fed()}, attrs: attrs{"padding_mode": "border"}, opsets: []int64{20}},
}
