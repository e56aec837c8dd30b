package ops

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestGather(t *testing.T) {
	x := arg(f32, 2, 3, 4)
	runCases(t, []opCase{
		{doc: "a scalar index drops the axis", op: "Gather", in: in(x, argInt(0)), attrs: attrs(attrInt("axis", 1)), want: "float32[2,4]"},
		{doc: "a matrix of indices", op: "Gather", in: in(arg(f32, u, 4), arg(i64, 5, upTo5)), want: "float32[5,<=5,4]"},
		{doc: "a length of a shape", op: "Gather", in: in(argDims(2, upTo5, u), argInt(-2)), want: "int64[] = <=5"},
		{doc: "lengths of a shape", op: "Gather", in: in(argDims(2, upTo5, u), argInts(2, 0)), want: "int64[2] = ? 2"},
		{doc: "an index outside is hidden", op: "Gather", in: in(argInts(1, 2), argInts(0, 7)), want: "int64[2] = 1 ?"},
		{doc: "an index that is not known", op: "Gather", in: in(argInts(1, 2), argHidden(2)), want: "int64[2]"},
		{doc: "along a later axis", op: "Gather", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argInts(1)), attrs: attrs(attrInt("axis", 1)), want: "int64[2,1] = 2 4"},
		{doc: "of a scalar", op: "Gather", in: in(arg(f32), argInt(0)), want: "error: at least rank 1"},
		{doc: "an axis that is not there", op: "Gather", in: in(x, argInt(0)), attrs: attrs(attrInt("axis", 3)), want: "error: axis is 3"},
		{doc: "real indices", op: "Gather", in: in(x, arg(f32, 1)), want: "error: int32 or int64"},

		{doc: "the indices' shape", op: "GatherElements", in: in(x, arg(i64, 2, u, 4)), want: "float32[2,?,4]"},
		{doc: "values", op: "GatherElements", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argValue([]int64{2, 1}, 1, -2)), attrs: attrs(attrInt("axis", 1)), want: "int64[2,1] = 2 3"},
		{doc: "longer than the data on the axis", op: "GatherElements", in: in(x, arg(i64, 7, 3, 4)), want: "float32[7,3,4]"},
		{doc: "longer than the data on another axis", op: "GatherElements", in: in(x, arg(i64, 1, 4, 4)), want: "error: at most 3 on axis 1 to match input 0 [2,3,4]"},
		{doc: "another rank", op: "GatherElements", in: in(x, arg(i64, 2, 3)), want: "error: rank 3 to match input 0"},

		{doc: "slices", op: "GatherND", in: in(x, arg(i64, 5, 2)), want: "float32[5,4]"},
		{doc: "batches", op: "GatherND", in: in(x, arg(i64, u, 5, 1)), attrs: attrs(attrInt("batch_dims", 1)), want: "float32[2,5,4]"},
		{doc: "tuples of unknown length", op: "GatherND", in: in(x, arg(i64, 5, u)), want: "float32[...]"},
		{doc: "values", op: "GatherND", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argValue([]int64{2, 1}, 1, 0)), want: "int64[2,2] = 3 4 1 2"},
		{doc: "values in batches", op: "GatherND", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argValue([]int64{2, 1}, 1, 0)), attrs: attrs(attrInt("batch_dims", 1)), want: "int64[2] = 2 3"},
		{doc: "tuples too long", op: "GatherND", in: in(x, arg(i64, 5, 4)), want: "error: 1 to 3 on its last axis"},
		{doc: "too many batch axes", op: "GatherND", in: in(x, arg(i64, 5, 1)), attrs: attrs(attrInt("batch_dims", 2)), want: "error: batch_dims is 2"},
		{doc: "other batches", op: "GatherND", in: in(x, arg(i64, 3, 1)), attrs: attrs(attrInt("batch_dims", 1)), want: "error: 2 on batch axis 0"},
	})
}

func TestScatter(t *testing.T) {
	x := arg(f32, upTo5, 3)
	v := argInts(1, 2, 3, 4)
	add := attrs(attrString("reduction", "add"))
	runCases(t, []opCase{
		{doc: "over the data, bounded or not", op: "ScatterElements", in: in(x, arg(i64, 2, 2), arg(f32, 2, 2)), want: "float32[<=5,3] over 0<0"},
		{doc: "the old name", op: "Scatter", version: 9, in: in(x, arg(i64, 2, 2), arg(f32, 2, 2)), want: "float32[<=5,3] over 0<0"},
		{doc: "values", op: "ScatterElements", in: in(v, argInts(1, -1), argDims(u, 9)), want: "int64[4] = 1 ? 3 9 over 0<0"},
		{doc: "values added", op: "ScatterElements", in: in(v, argInts(1, 1), argInts(5, 6)), attrs: add, want: "int64[4] = 1 13 3 4 over 0<0"},
		{doc: "places that are not known", op: "ScatterElements", in: in(v, argHidden(2), argInts(5, 6)), want: "int64[4] over 0<0"},
		{doc: "longer than the data on another axis", op: "ScatterElements", in: in(x, arg(i64, 2, 4), arg(f32, 2, 4)), want: "error: at most 3 on axis 1"},
		{doc: "updates of another shape", op: "ScatterElements", in: in(x, arg(i64, 2, 2), arg(f32, 2, 3)), want: "error: the shape of input 1"},
		{doc: "updates of another type", op: "ScatterElements", in: in(x, arg(i64, 2, 2), arg(i64, 2, 2)), want: "error: int64"},

		{op: "ScatterND", in: in(x, arg(i64, 7, 1), arg(f32, 7, 3)), want: "float32[<=5,3] over 0<0"},
		{doc: "one length of a shape", op: "ScatterND", in: in(argDims(2, 3, u), argValue([]int64{1, 1}, 2), argDims(upTo5)), want: "int64[3] = 2 3 <=5 over 0<0"},
		{doc: "slices", op: "ScatterND", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argValue([]int64{1, 1}, -1), argValue([]int64{1, 2}, 8, 9)), want: "int64[2,2] = 1 2 8 9 over 0<0"},
		{doc: "updates of another shape", op: "ScatterND", in: in(x, arg(i64, 7, 1), arg(f32, 7)), want: "error: the tuples of input 1, the slices of input 0"},

		{op: "TensorScatter", in: in(arg(f32, 2, 8, 4), arg(f32, 2, 3, 4), arg(i64, 2)), want: "float32[2,8,4] over 0<0"},
		{doc: "longer than the cache", op: "TensorScatter", in: in(arg(f32, 2, 8, 4), arg(f32, 2, 9, 4)), want: "error: at most 8 on axis 1"},
		{doc: "along the batch", op: "TensorScatter", in: in(arg(f32, 2, 8), arg(f32, 2, 3)), want: "error: axis is -2"},
	})
}

// Inputs that inference accepts and a kernel must not get.
func TestScatterChecks(t *testing.T) {
	x, places, updates := arg(f32, 5, 3), arg(i64, 2, 2), arg(f32, 2, 2)
	runGate(t, []opCase{
		{op: "ScatterElements", in: in(x, places, updates), attrs: attrs(attrString("reduction", "max")), want: "float32[5,3]"},
		{doc: "an unknown word", op: "ScatterElements", in: in(x, places, updates), attrs: attrs(attrString("reduction", "maximum")), want: `error: reduction is "maximum", expected one of`},
		{doc: "an unknown word", op: "ScatterND", in: in(x, places, arg(f32, 2)), attrs: attrs(attrString("reduction", "sum")), want: `error: reduction is "sum", expected one of`},
		{doc: "an unknown word", op: "TensorScatter", in: in(arg(f32, 2, 8, 4), arg(f32, 2, 3, 4)), attrs: attrs(attrString("mode", "round")), want: `error: mode is "round", expected one of`},
	})
}

func TestSelect(t *testing.T) {
	x := arg(f32, 2, 3)
	bools := func(v ...int64) Arg { a := argInts(v...); a.Elem = graph.Bool; return a }
	runCases(t, []opCase{
		{doc: "at most all", op: "NonZero", in: in(x), want: "int64[2,<=6]"},
		{doc: "at most as many as there can be", op: "NonZero", in: in(arg(f32, 2, upTo5)), want: "int64[2,<=10]"},
		{doc: "no bound", op: "NonZero", in: in(arg(f32, 2, u)), want: "int64[2,?]"},
		{doc: "of a scalar", op: "NonZero", in: in(arg(f32)), want: "int64[<=1,<=1]"},
		{doc: "of nothing", op: "NonZero", in: in(arg(f32, 0, 3)), want: "int64[2,0]"},
		{doc: "of known elements", op: "NonZero", in: in(argValue([]int64{2, 2}, 0, 5, 6, 0)), want: "int64[2,2] = 0 1 1 0"},
		{doc: "of some known elements", op: "NonZero", in: in(argDims(0, upTo5, 1, u)), want: "int64[1,<=3]"},

		{doc: "along an axis", op: "Compress", in: in(x, arg(graph.Bool, 2)), attrs: attrs(attrInt("axis", -1)), want: "float32[2,<=2]"},
		{doc: "of all elements", op: "Compress", in: in(x, arg(graph.Bool, u)), want: "float32[<=6]"},
		{doc: "a known condition", op: "Compress", in: in(x, bools(1, 0, 1, 1)), attrs: attrs(attrInt("axis", 1)), want: "float32[2,2]"},
		{doc: "a known condition on a bounded axis", op: "Compress", in: in(arg(f32, upTo5), bools(1, 0, 1, 1)), attrs: attrs(attrInt("axis", 0)), want: "float32[<=3]"},
		{doc: "values", op: "Compress", in: in(argDims(1, u, 3), bools(0, 1, 1)), want: "int64[2] = ? 3"},
		{doc: "a condition of numbers", op: "Compress", in: in(x, argInts(1)), want: "error: bool"},

		{doc: "at most all", op: "Unique", in: in(x), outs: 4, want: "float32[<=6], int64[<=6], int64[6], int64[<=6]"},
		{doc: "along an axis", op: "Unique", in: in(x), outs: 4, attrs: attrs(attrInt("axis", 1)), want: "float32[2,<=3], int64[<=3], int64[3], int64[<=3]"},
		{doc: "one is always distinct", op: "Unique", in: in(arg(f32, 1)), want: "float32[1]"},
		{doc: "of known elements", op: "Unique", in: in(argInts(4, 4, 7)), want: "int64[2]"},
		{doc: "of slices without elements", op: "Unique", in: in(argValue([]int64{0, math.MaxInt64})), attrs: attrs(attrInt("axis", 1)), want: "int64[0,?]"},
		{doc: "slices of known elements", op: "Unique", in: in(argValue([]int64{2, 2}, 4, 4, 7, 7)), attrs: attrs(attrInt("axis", 1)), want: "int64[2,1]"},

		{doc: "k as attribute", op: "TopK", version: 1, in: in(x), outs: 2, attrs: attrs(attrInt("k", 2)), want: "float32[2,2], int64[2,2]"},
		{doc: "a known k", op: "TopK", in: in(x, argInts(1)), outs: 2, attrs: attrs(attrInt("axis", 0)), want: "float32[1,3], int64[1,3]"},
		{doc: "a known k of an unknown axis", op: "TopK", in: in(arg(f32, u), argInts(4)), outs: 2, want: "float32[4], int64[4]"},
		{doc: "a known k of a bounded axis", op: "TopK", in: in(arg(f32, upTo5), argInts(4)), outs: 2, want: "float32[4], int64[4]"},
		{doc: "a bounded k", op: "TopK", in: in(x, argDims(graph.AtMost(2))), outs: 2, want: "float32[2,<=2], int64[2,<=2]"},
		{doc: "a bounded k above the axis", op: "TopK", in: in(x, argDims(upTo5)), outs: 2, want: "float32[2,<=3], int64[2,<=3]"},
		{doc: "an unknown k", op: "TopK", in: in(arg(f32, upTo5), argHidden(1)), outs: 2, want: "float32[<=5], int64[<=5]"},
		{doc: "values, the first of equals first", op: "TopK", in: in(argValue([]int64{2, 3}, 3, 9, 9, 1, 0, 2), argInts(2)), outs: 2, want: "int64[2,2] = 9 9 2 1, int64[2,2] = 1 2 2 0"},
		{doc: "the least", op: "TopK", in: in(argInts(3, 9, 1), argInts(1)), outs: 2, attrs: attrs(attrInt("largest", 0)), want: "int64[1] = 1, int64[1] = 2"},
		{doc: "k above the axis", op: "TopK", in: in(x, argInts(4)), outs: 2, want: "error: at least k = 4 on axis 1"},
		{doc: "two ks", op: "TopK", in: in(x, argInts(1, 2)), outs: 2, want: "error: expected one element"},
		{doc: "no k", op: "TopK", in: in(x), outs: 2, want: "error: k is missing"},

		{op: "OneHot", in: in(arg(i64, 2, u), argInt(7), arg(f32, 2)), want: "float32[2,?,7]"},
		{doc: "a real depth, before all", op: "OneHot", in: in(arg(i64, 2, 3), argFloat(f32, 7), arg(f32, 2)), attrs: attrs(attrInt("axis", -3)), want: "float32[7,2,3]"},
		{doc: "a bounded depth", op: "OneHot", in: in(arg(i64, 2), argDims(upTo5), arg(f32, 2)), want: "float32[2,<=5]"},
		{doc: "one value", op: "OneHot", in: in(arg(i64, 2), argInt(7), arg(f32, 1)), want: "error: the values for off and on"},
		{doc: "a negative depth", op: "OneHot", in: in(arg(i64, 2), argInt(math.MinInt64), arg(f32, 2)), want: "error: depth is"},

		{op: "ReverseSequence", in: in(arg(f32, 4, upTo5), arg(i64, 4)), attrs: attrs(attrInt("batch_axis", 0), attrInt("time_axis", 1)), want: "float32[4,<=5]"},
		{doc: "another batch", op: "ReverseSequence", in: in(arg(f32, 4, 5), arg(i64, 4)), want: "error: [5] to match"},
	})
}

func TestSelectChecks(t *testing.T) {
	runGate(t, []opCase{
		{doc: "the best of nothing", op: "ArgMax", in: in(arg(f32, 0, 3)), want: "error: expected elements on axis 0"},
		{doc: "the least of nothing", op: "ArgMin", in: in(arg(f32, 3, 0)), attrs: attrs(attrInt("axis", -1)), want: "error: expected elements on axis -1"},
		{doc: "the best of no lines", op: "ArgMax", in: in(arg(f32, 0, 0)), attrs: attrs(attrInt("axis", 1)), want: "int64[0,1]"},
		{doc: "more than there are", op: "TopK", outs: 2, in: in(arg(f32, 3), argInts(4)), want: "error: at least k = 4 on axis 0"},
	})
}
