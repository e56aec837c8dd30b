package autodiff

import (
	"fmt"
	"slices"
)

var reduceCases = func() []ruleCase {
	var cases []ruleCase
	positive := param(2, 3, 4).in(0.3, 2)
	for _, op := range []string{
		"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum",
	} {
		x := param(2, 3, 4)
		if op == "ReduceLogSum" {
			x = positive
		}
		since := int64(18) // the axes are an input since then
		if op == "ReduceSum" {
			since = 13
		}
		before := slices.DeleteFunc([]int64{7, 11, 12, 13, 17}, func(v int64) bool { return v >= since })
		after := slices.DeleteFunc([]int64{13, 18, 21}, func(v int64) bool { return v < since })
		for _, keep := range []int{0, 1} {
			say := func(what string) string { return fmt.Sprintf("%s, keepdims=%d", what, keep) }
			k := attrs{"keepdims": keep}
			cases = append(
				cases,
				ruleCase{op: op, name: say("axes attribute"), in: []operand{x}, attrs: attrs{"keepdims": keep, "axes": []int64{0, 2}}, opsets: before},
				ruleCase{op: op, name: say("no axes"), in: []operand{x}, attrs: k, opsets: slices.Concat(before, after)},
				ruleCase{op: op, name: say("axes input"), in: []operand{x, list(2, 0)}, attrs: k, opsets: after},
				ruleCase{op: op, name: say("negative axes"), in: []operand{x, list(-2)}, attrs: k, opsets: after},
				ruleCase{op: op, name: say("an axis twice"), in: []operand{x, list(1, -2)}, attrs: k, opsets: after},
				ruleCase{op: op, name: say("empty axes"), in: []operand{x, list()}, attrs: k, opsets: after},
				ruleCase{op: op, name: say("noop"), in: []operand{x, list()}, attrs: attrs{"keepdims": keep, "noop_with_empty_axes": 1}, opsets: after},
				ruleCase{op: op, name: say("noop, left out"), in: []operand{x}, attrs: attrs{"keepdims": keep, "noop_with_empty_axes": 1}, opsets: after},
			)
		}
		cases = append(cases, ruleCase{op: op, name: "negative axes attribute", in: []operand{x}, attrs: attrs{"axes": []int64{-1}}, opsets: slices.DeleteFunc(slices.Clone(before), func(v int64) bool { return v < 11 })})
	}
	return append(cases, flat("ArgMax", param(2, 3)), flat("ArgMin", param(2, 3)))
}()
