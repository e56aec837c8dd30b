package autodiff

import "fmt"

const microsoft = "com.microsoft"

var contribCases = func() []ruleCase {
	cases := []ruleCase{
		{op: "Gelu", in: []operand{fourSides}},
		{op: "BiasGelu", in: []operand{param(2, 3, 4), param(4)}},
		{op: "BiasGelu", name: "bias alone", in: []operand{param(2, 4).fed(), param(4)}},
		{op: "FastGelu", in: []operand{fourSides}},
		{op: "FastGelu", name: "bias", in: []operand{param(2, 3, 4), param(4)}},
		{op: "QuickGelu", in: []operand{fourSides}},
		{op: "QuickGelu", name: "alpha", in: []operand{fourSides}, attrs: attrs{"alpha": 0.5}},
		{op: "SimplifiedLayerNormalization", in: []operand{param(2, 3, 4), param(4)}},
		{op: "Inverse", in: []operand{param(2, 2, 2).of(2, 0.5, -0.3, 1.5, 0.7, -0.2, 0.4, 1.2)}},
		{op: "TransposeMatMul", in: []operand{param(3, 2), param(3, 4)}, attrs: attrs{"transA": 1}},
	}
	shape := func(transposed int, batch []int, rows, columns int) operand {
		if transposed == 1 {
			rows, columns = columns, rows
		}
		return param(append(batch[:len(batch):len(batch)], rows, columns)...)
	}
	for transA := range 2 {
		for transB := range 2 {
			a := attrs{"transA": transA, "transB": transB, "alpha": 0.5}
			for _, batches := range [][2][]int{{{}, {}}, {{2}, {}}, {{}, {2}}, {{2}, {2}}, {{3, 1}, {2}}} {
				name := fmt.Sprintf("transA=%d, transB=%d, batches %v and %v", transA, transB, batches[0], batches[1])
				cases = append(cases, ruleCase{
					op: "FusedMatMul", name: name, in: []operand{shape(transA, batches[0], 2, 3), shape(transB, batches[1], 3, 4)}, attrs: a,
				})
			}
		}
	}
	for _, a := range []attrs{
		{"transBatchA": 1}, {"transBatchA": 1, "transA": 1, "transBatchB": 1}, {"transBatchB": 1, "transB": 1, "alpha": 0.5},
	} {
		// The axes are rows or columns, batch, depth; where the batch is not transposed, it
		// comes first.
		x, y := param(2, 4, 3), param(2, 3, 5)
		switch {
		case a["transBatchA"] == 1 && a["transA"] == 1:
			x = param(3, 2, 4)
		case a["transBatchA"] == 1:
			x = param(4, 2, 3)
		}
		switch {
		case a["transBatchB"] == 1 && a["transB"] == 1:
			y = param(5, 2, 3)
		case a["transBatchB"] == 1:
			y = param(3, 2, 5)
		}
		cases = append(cases, ruleCase{op: "FusedMatMul", name: fmt.Sprint(a), in: []operand{x, y}, attrs: a})
	}
	for i := range cases {
		cases[i].domain = microsoft
	}
	return cases
}()
