package ops

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// Short names for the tables below.
const u = graph.Unknown

var upTo5 = graph.AtMost(5)

// argHidden returns a vector of n int64 elements with unknown values.
func argHidden(n graph.Dim) Arg { return arg(i64, n) }

// argValue returns a known tensor of int64.
func argValue(shape []int64, v ...int64) Arg {
	a := argInts(v...)
	a.Value = a.Value.Reshaped(shape)
	a.Shape = nil
	for _, n := range shape {
		a.Shape = append(a.Shape, graph.Dim(n))
	}
	return a
}

func in(args ...Arg) []Arg { return args }

func TestReshape(t *testing.T) {
	x := arg(f32, 2, 3, 4)
	runCases(t, []opCase{
		{doc: "a view", op: "Reshape", in: in(x, argInts(6, 4)), want: "float32[6,4] view 0<0"},
		{doc: "the shape is an attribute", op: "Reshape", version: 1, in: in(x), attrs: attrs(attrInts("shape", 4, -1)), want: "float32[4,6] view 0<0"},
		{doc: "0 copies, -1 is solved for", op: "Reshape", in: in(x, argInts(0, -1)), want: "float32[2,12] view 0<0"},
		{doc: "to a scalar", op: "Reshape", in: in(arg(f32, 1, 1), argInts()), want: "float32[] view 0<0"},
		{doc: "the copied length cancels, bounded or not", op: "Reshape", in: in(arg(f32, upTo5, 3, 4), argInts(0, -1)), want: "float32[<=5,12] view 0<0"},
		{doc: "the copied length cancels, known or not", op: "Reshape", in: in(arg(f32, u, 3, 4), argInts(0, -1)), want: "float32[?,12]"},
		{doc: "-1 of a bounded input is bounded", op: "Reshape", in: in(arg(f32, upTo5, 4), argInts(-1)), want: "float32[<=20] view 0<0"},
		{doc: "-1 of a bounded input over stated lengths", op: "Reshape", in: in(arg(f32, upTo5, 4), argInts(-1, 2)), want: "float32[<=10,2] view 0<0"},
		{doc: "-1 of an unknown input", op: "Reshape", in: in(arg(f32, u, 4), argInts(-1, 2)), want: "float32[?,2]"},
		{doc: "one hidden element is solved for", op: "Reshape", in: in(x, argDims(u, 4)), want: "float32[6,4] view 0<0"},
		{doc: "a bounded element too, whatever its bound", op: "Reshape", in: in(x, argDims(graph.AtMost(100), 4)), want: "float32[6,4] view 0<0"},
		{doc: "a bounded element beside -1 bounds both", op: "Reshape", in: in(x, argDims(graph.AtMost(3), 4, u)), want: "float32[<=3,4,<=6]"},
		{doc: "0 at run time would copy a longer axis", op: "Reshape", in: in(x, argDims(graph.AtMost(1), 4, u)), want: "float32[<=2,4,<=6]"},
		{doc: "two hidden elements are bounded by the count", op: "Reshape", in: in(x, argDims(u, 4, u)), want: "float32[<=6,4,<=6]"},
		{doc: "nothing bounds two hidden elements of a bounded input", op: "Reshape", in: in(arg(f32, upTo5), argDims(u, u)), want: "float32[?,?]"},
		{doc: "only the length of the shape is known", op: "Reshape", in: in(arg(f32, u), argHidden(2)), want: "float32[?,?]"},
		{doc: "not even that", op: "Reshape", in: in(x, argHidden(u)), want: "float32[...]"},
		{doc: "an unranked input takes a stated shape", op: "Reshape", in: in(argUnranked(f32), argInts(6, 0)), want: "float32[6,?]"},
		{doc: "values keep their order", op: "Reshape", in: in(argDims(2, u, upTo5, 4), argInts(2, 2)), want: "int64[2,2] = 2 ? <=5 4 view 0<0"},
		{doc: "allowzero", op: "Reshape", in: in(arg(f32, 0, 3), argInts(3, 0)), attrs: attrs(attrInt("allowzero", 1)), want: "float32[3,0] view 0<0"},
		{doc: "nothing to nothing", op: "Reshape", in: in(arg(f32, 0, 12), argInts(-1, 4)), want: "float32[0,4] view 0<0"},

		{doc: "another count", op: "Reshape", in: in(arg(f32, 2, 4), argInts(3, 3)), want: "error: expected 8 elements, found 9"},
		{doc: "-1 that does not divide", op: "Reshape", in: in(x, argInts(5, -1)), want: "error: expected a divisor of 24 elements, found 5"},
		{doc: "two -1", op: "Reshape", in: in(x, argInts(-1, -1)), want: "error: expected it once"},
		{doc: "-2", op: "Reshape", in: in(x, argInts(-2, 12)), want: "error: expected a length, 0 or -1"},
		{doc: "0 for an axis that is not there", op: "Reshape", in: in(arg(f32, 6), argInts(6, 0)), want: "error: input 0 has shape [6]"},
		{doc: "allowzero with 0 and -1", op: "Reshape", in: in(x, argInts(0, -1)), attrs: attrs(attrInt("allowzero", 1)), want: "error: both 0 and -1"},
		{doc: "a product beyond 63 bits", op: "Reshape", in: in(x, argInts(math.MaxInt64, 8)), want: "error: overflows"},
		{doc: "no shape", op: "Reshape", in: in(x), want: "error: expected the shape"},
		{doc: "a matrix as shape", op: "Reshape", in: in(x, arg(i64, 2, 2)), want: "error: expected a list"},
		{doc: "a sequence", op: "Reshape", in: in(Arg{Present: true, Type: graph.Type{Kind: graph.KindSequence}}, argInts(1)), want: "error: expected a tensor"},
	})
}

func TestSqueezeUnsqueezeFlatten(t *testing.T) {
	x := arg(f32, 1, 3, 1)
	runCases(t, []opCase{
		{doc: "axes as attribute", op: "Squeeze", version: 11, in: in(x), attrs: attrs(attrInts("axes", -1)), want: "float32[1,3] view 0<0"},
		{doc: "axes as input", op: "Squeeze", in: in(x, argInts(0)), want: "float32[3,1] view 0<0"},
		{doc: "all of length 1", op: "Squeeze", in: in(x), want: "float32[3] view 0<0"},
		{doc: "a bounded length may turn out to be 1", op: "Squeeze", in: in(arg(f32, 1, upTo5)), want: "float32[...]"},
		{doc: "as many hidden axes as there are of length 1", op: "Squeeze", in: in(x, argHidden(2)), want: "float32[3] view 0<0"},
		{doc: "one of two is dropped", op: "Squeeze", in: in(x, argHidden(1)), want: "float32[<=3,<=3]"},
		{doc: "an unknown number of axes", op: "Squeeze", in: in(x, argHidden(u)), want: "float32[...]"},
		{doc: "a value keeps its elements", op: "Squeeze", in: in(argDims(upTo5), argInts(0)), want: "int64[] = <=5 view 0<0"},
		{doc: "another length", op: "Squeeze", in: in(x, argInts(1)), want: "error: expected length 1 on axis 1"},
		{doc: "an axis that is not there", op: "Squeeze", in: in(x, argInts(3)), want: "error: axes is 3"},

		{doc: "axes as attribute", op: "Unsqueeze", version: 11, in: in(arg(f32, 3, 4)), attrs: attrs(attrInts("axes", 3, 0)), want: "float32[1,3,4,1] view 0<0"},
		{doc: "negative axes count in the output", op: "Unsqueeze", in: in(arg(f32, u, 4), argInts(-1, 1)), want: "float32[?,1,4,1]"},
		{doc: "an axis that is not known", op: "Unsqueeze", in: in(arg(f32, 3, 4), argHidden(1)), want: "float32[<=3,<=4,<=4]"},
		{doc: "of a number", op: "Unsqueeze", in: in(argInt(7), argInts(0)), want: "int64[1] = 7 view 0<0"},
		{doc: "no axes", op: "Unsqueeze", in: in(arg(f32, 3)), want: "error: axes are missing"},
		{doc: "an axis twice", op: "Unsqueeze", in: in(arg(f32, 3), argInts(1, -2)), want: "error: twice"},

		{doc: "in the middle", op: "Flatten", in: in(arg(f32, 2, upTo5, 4)), attrs: attrs(attrInt("axis", 2)), want: "float32[<=10,4] view 0<0"},
		{doc: "before all", op: "Flatten", in: in(arg(f32, 2, 3)), attrs: attrs(attrInt("axis", 0)), want: "float32[1,6] view 0<0"},
		{doc: "from the back", op: "Flatten", in: in(arg(f32, 2, 3, 4)), attrs: attrs(attrInt("axis", -1)), want: "float32[6,4] view 0<0"},
		{doc: "too far", op: "Flatten", in: in(arg(f32, 2, 3)), attrs: attrs(attrInt("axis", 3)), want: "error: axis is 3"},
	})
}

func TestTranspose(t *testing.T) {
	runCases(t, []opCase{
		{doc: "reversed", op: "Transpose", in: in(arg(f32, 2, 3, u)), want: "float32[?,3,2]"},
		{doc: "only an axis of length 1 moves", op: "Transpose", in: in(arg(f32, 2, 1, 3)), attrs: attrs(attrInts("perm", 0, 2, 1)), want: "float32[2,3,1] view 0<0"},
		{doc: "a bounded axis passes one of length 1", op: "Transpose", in: in(arg(f32, upTo5, 1)), want: "float32[1,<=5] view 0<0"},
		{doc: "a bounded axis passes another", op: "Transpose", in: in(arg(f32, upTo5, 2)), want: "float32[2,<=5]"},
		{doc: "values", op: "Transpose", in: in(argValue([]int64{2, 3}, 1, 2, 3, 4, 5, 6)), want: "int64[3,2] = 1 4 2 5 3 6"},
		{doc: "perm of another rank", op: "Transpose", in: in(arg(f32, 2, 3)), attrs: attrs(attrInts("perm", 0)), want: "error: perm has 1 axes, expected 2"},
		{doc: "perm that is none", op: "Transpose", in: in(arg(f32, 2, 3)), attrs: attrs(attrInts("perm", 0, 0)), want: "error: twice"},
		{doc: "perm of another type", op: "Transpose", in: in(arg(f32, 2, 3)), attrs: attrs(attrInt("perm", 1)), want: "error: attribute perm"},
	})
}

func TestBlocks(t *testing.T) {
	runCases(t, []opCase{
		{op: "DepthToSpace", in: in(arg(f32, 1, 8, 2, upTo5)), attrs: attrs(attrInt("blocksize", 2)), want: "float32[1,2,4,<=10]"},
		{op: "SpaceToDepth", in: in(arg(f32, 1, 2, 4, 6)), attrs: attrs(attrInt("blocksize", 2)), want: "float32[1,8,2,3]"},
		{doc: "blocks of one pixel", op: "SpaceToDepth", in: in(arg(f32, 1, 2, 4, 6)), attrs: attrs(attrInt("blocksize", 1)), want: "float32[1,2,4,6] view 0<0"},
		{doc: "too few channels", op: "DepthToSpace", in: in(arg(f32, 1, 6, 2, 2)), attrs: attrs(attrInt("blocksize", 2)), want: "error: multiple of blocksize"},
		{doc: "an order that ONNX does not have", op: "DepthToSpace", in: in(arg(f32, 1, 8, 2, 2)), attrs: attrs(attrInt("blocksize", 2), attrString("mode", "RDC")), want: "error: mode"},
		{doc: "an odd height", op: "SpaceToDepth", in: in(arg(f32, 1, 6, 3, 2)), attrs: attrs(attrInt("blocksize", 2)), want: "error: on axis 2"},
		{doc: "no blocks", op: "SpaceToDepth", in: in(arg(f32, 1, 6, 3, 2)), want: "error: blocksize is 0"},
	})
}

func TestSlice(t *testing.T) {
	x := arg(f32, 10, 4)
	slice := func(x Arg, start, end, step int64) []Arg {
		return in(x, argInts(start), argInts(end), argInts(0), argInts(step))
	}
	const top, bottom = math.MaxInt64, math.MinInt64
	v := argInts(0, 1, 2, 3, 4)
	bounded, unknown := arg(f32, upTo5), arg(f32, u)
	runCases(t, []opCase{
		{doc: "attributes", op: "Slice", version: 1, in: in(x), attrs: attrs(attrInts("starts", 1, -3), attrInts("ends", 5, top)), want: "float32[4,3]"},
		{doc: "all of it", op: "Slice", in: slice(x, 0, top, 1), want: "float32[10,4] view 0<0"},
		{doc: "clamped to all of it", op: "Slice", in: slice(x, -100, 10, 1), want: "float32[10,4] view 0<0"},
		{doc: "every second of one", op: "Slice", in: slice(arg(f32, 1), 0, 1, 2), want: "float32[1] view 0<0"},
		{doc: "reversed, as long as before", op: "Slice", in: slice(x, -1, bottom, -1), want: "float32[10,4]"},
		{doc: "nothing", op: "Slice", in: slice(x, 5, 5, 1), want: "float32[0,4]"},
		{doc: "steps", op: "Slice", in: slice(x, 1, 10, 4), want: "float32[3,4]"},
		{doc: "a huge step", op: "Slice", in: slice(x, 0, 10, top), want: "float32[1,4]"},
		{doc: "a huge step back", op: "Slice", in: slice(x, 9, bottom, bottom), want: "float32[1,4]"},
		{doc: "a start before the axis is clamped into it", op: "Slice", in: slice(v, -10, bottom, -1), want: "int64[1] = 0"},
		{doc: "values", op: "Slice", in: slice(v, 3, 0, -2), want: "int64[2] = 3 1"},
		{doc: "values hidden or bounded", op: "Slice", in: slice(argDims(2, u, upTo5, 4), 1, 3, 1), want: "int64[2] = ? <=5"},

		{doc: "a bounded axis, all of it", op: "Slice", in: slice(bounded, 0, 5, 1), want: "float32[<=5] view 0<0"},
		{doc: "a bounded axis without its first", op: "Slice", in: slice(bounded, 1, top, 1), want: "float32[<=4]"},
		{doc: "the last of a bounded axis", op: "Slice", in: slice(bounded, -3, top, 1), want: "float32[<=3]"},
		{doc: "both ends from different sides", op: "Slice", in: slice(bounded, -2, 4, 1), want: "float32[<=2]"},
		{doc: "both ends from different sides, backwards", op: "Slice", in: slice(bounded, 3, -5, -1), want: "float32[<=4]"},
		{doc: "the first of an unknown axis", op: "Slice", in: slice(unknown, 0, 7, 2), want: "float32[<=4]"},
		{doc: "the last of an unknown axis", op: "Slice", in: slice(unknown, -7, top, 1), want: "float32[<=7]"},
		{doc: "all of an unknown axis", op: "Slice", in: slice(unknown, 0, math.MaxInt32, 1), want: "float32[?]"},
		{doc: "an unknown start is bounded by the end", op: "Slice", in: in(x, argHidden(1), argInts(6), argInts(0)), want: "float32[<=6,4]"},
		{doc: "an unknown end is bounded by the start", op: "Slice", in: in(x, argInts(-6), argHidden(1), argInts(0)), want: "float32[<=6,4]"},
		{doc: "a bounded end", op: "Slice", in: in(x, argInts(1), argDims(upTo5), argInts(0)), want: "float32[<=4,4]"},
		{doc: "a bounded end beyond an unknown axis", op: "Slice", in: in(unknown, argInts(0), argDims(upTo5), argInts(0)), want: "float32[<=5]"},
		{doc: "an unknown step", op: "Slice", in: in(x, argInts(0), argInts(9), argInts(0), argHidden(1)), want: "float32[<=10,4]"},
		{doc: "unknown axes", op: "Slice", in: in(x, argInts(0), argInts(9), argHidden(1)), want: "float32[<=10,<=4]"},
		{doc: "nothing known but the input", op: "Slice", in: in(x, argHidden(u), argHidden(u)), want: "float32[<=10,<=4]"},

		{doc: "step 0", op: "Slice", in: slice(x, 0, 1, 0), want: "error: step 0"},
		{doc: "an axis that is not there", op: "Slice", in: in(x, argInts(0), argInts(1), argInts(2)), want: "error: axes is 2"},
		{doc: "too many axes", op: "Slice", in: in(x, argInts(0, 0, 0), argInts(1, 1, 1)), want: "error: 3 axes are cut"},
		{doc: "lists of different lengths", op: "Slice", in: in(x, argInts(0, 0), argInts(1)), want: "error: ends has 1 elements, expected 2"},
		{doc: "no ends", op: "Slice", in: in(x, argInts(0)), want: "error: ends are missing"},
	})
}

// TestSliceBounds compares the bounds of slices of bounded and unknown axes with all
// lengths that the axis can have.
func TestSliceBounds(t *testing.T) {
	ends := []int64{math.MinInt64, -9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 9, math.MaxInt64}
	for _, start := range ends {
		for _, end := range ends {
			for _, step := range []int64{math.MinInt64, -3, -2, -1, 1, 2, 3, math.MaxInt64} {
				k := cut{Scalar{I: start}, Scalar{I: end}, Scalar{I: step}}
				most := int64(0)
				for d := range int64(6) {
					n := sliceLen(d, start, end, step)
					most = max(most, n)
					want := int64(0)
					for i, last := bounds(d, start, end, step); (step > 0 && i < last || step < 0 && i > last) && want < 100; want++ {
						next := i + step
						if (next > i) != (step > 0) {
							want++
							break
						}
						i = next
					}
					if n != want {
						t.Fatalf("[%d:%d:%d] of %d: got %d, want %d", start, end, step, d, n, want)
					}
					if got, ok := k.length(graph.Unknown).Max(); ok && got < n {
						t.Errorf("[%d:%d:%d] of an unknown length: bound %d, but of %d it leaves %d", start, end, step, got, d, n)
					}
				}
				if got, ok := k.length(upTo5).Max(); !ok || got < most {
					t.Errorf("[%d:%d:%d] of at most 5: bound %d, but it can leave %d", start, end, step, got, most)
				}
			}
		}
	}
}

func TestSplit(t *testing.T) {
	x := arg(f32, 7, 2)
	runCases(t, []opCase{
		{doc: "an attribute", op: "Split", version: 2, in: in(x), outs: 2, attrs: attrs(attrInts("split", 3, 4)), want: "float32[3,2], float32[4,2]"},
		{doc: "an input, one part to solve for", op: "Split", in: in(x, argDims(3, u)), outs: 2, want: "float32[3,2], float32[4,2]"},
		{doc: "two open parts are bounded", op: "Split", in: in(x, argDims(upTo5, u)), outs: 2, want: "float32[<=5,2], float32[<=7,2]"},
		{doc: "known parts of an unknown axis", op: "Split", in: in(arg(f32, u), argInts(3, 4)), outs: 2, want: "float32[3], float32[4]"},
		{doc: "equal parts", op: "Split", version: 13, in: in(x), outs: 2, attrs: attrs(attrInt("axis", -1)), want: "float32[7,1], float32[7,1]"},
		{doc: "the last part is shorter", op: "Split", in: in(x), outs: 3, attrs: attrs(attrInt("num_outputs", 3)), want: "float32[3,2], float32[3,2], float32[1,2]"},
		{doc: "parts of a bounded axis", op: "Split", in: in(arg(f32, upTo5)), outs: 2, attrs: attrs(attrInt("num_outputs", 2)), want: "float32[<=3], float32[<=3]"},
		{doc: "into one", op: "Split", in: in(x, argInts(7)), want: "float32[7,2] view 0<0"},
		{doc: "values", op: "Split", in: in(argDims(1, u, 3), argInts(1, 2)), outs: 2, want: "int64[1] = 1, int64[2] = ? 3"},
		{doc: "unequal parts", op: "Split", version: 13, in: in(x), outs: 2, want: "error: 2 equal parts"},
		{doc: "more parts than elements", op: "Split", in: in(arg(f32, 5)), outs: 4, want: "error: 4 parts of 2"},
		{doc: "another sum", op: "Split", in: in(x, argInts(3, 3)), outs: 2, want: "error: split adds up to 6, expected 7"},
		{doc: "another number of outputs", op: "Split", in: in(x, argInts(3, 4)), outs: 3, want: "error: split has 2 parts, expected 3"},
		{doc: "a negative part", op: "Split", in: in(x, argInts(8, -1)), outs: 2, want: "error: split[1] is -1"},
	})
}

func TestConcat(t *testing.T) {
	axis := attrs(attrInt("axis", 0))
	runCases(t, []opCase{
		{doc: "lengths add up", op: "Concat", in: in(arg(f32, 2, u), arg(f32, upTo5, 3)), attrs: axis, want: "float32[<=7,3]"},
		{doc: "axis 1 by default in opset 1", op: "Concat", version: 1, in: in(arg(f32, 2, 3), arg(f32, 2, 4)), want: "float32[2,7]"},
		{doc: "of one", op: "Concat", in: in(arg(f32, upTo5)), attrs: axis, want: "float32[<=5] view 0<0"},
		{doc: "one of unknown rank", op: "Concat", in: in(argUnranked(f32), arg(f32, 2, 3)), attrs: axis, want: "float32[?,3]"},
		{doc: "what is not known is hidden", op: "Concat", in: in(argDims(2, upTo5), argHidden(1), argInts(7)), attrs: axis, want: "int64[4] = 2 <=5 ? 7"},
		{doc: "values on another axis", op: "Concat", in: in(argValue([]int64{2, 1}, 1, 2), argValue([]int64{2, 2}, 3, 4, 5, 6)), attrs: attrs(attrInt("axis", -1)), want: "int64[2,3] = 1 3 4 2 5 6"},
		{doc: "no axis", op: "Concat", in: in(arg(f32, 2, 3)), want: "error: attribute axis is missing"},
		{doc: "axis out of range", op: "Concat", in: in(arg(f32, 2, 4), arg(f32, 2, 4)), attrs: attrs(attrInt("axis", 7)), want: "error: axis is 7, expected one of [-2, 2)"},
		{doc: "another rank", op: "Concat", in: in(arg(f32, 2, 3), arg(f32, 2)), attrs: axis, want: "error: expected rank 2"},
		{doc: "another length", op: "Concat", in: in(arg(f32, 2, 3), arg(f32, 2, 4)), attrs: axis, want: "error: expected 3 on axis 1"},
		{doc: "another type", op: "Concat", in: in(arg(f32, 2), arg(i64, 2)), attrs: axis, want: "error: int64"},
		{doc: "beyond 63 bits", op: "Concat", in: in(arg(f32, 1<<62), arg(f32, 1<<62)), attrs: axis, want: "error: overflows"},
	})
}

func TestExpandTilePad(t *testing.T) {
	x := arg(f32, 3, 1)
	runCases(t, []opCase{
		{doc: "both ways", op: "Expand", in: in(x, argInts(2, 1, 4)), want: "float32[2,3,4]"},
		{doc: "as it was", op: "Expand", in: in(x, argInts(1, 1)), want: "float32[3,1] view 0<0"},
		{doc: "with axes of length 1 before", op: "Expand", in: in(x, argInts(1, 3, 1)), want: "float32[1,3,1] view 0<0"},
		{doc: "a bounded one may be copied", op: "Expand", in: in(arg(f32, upTo5), argDims(upTo5)), want: "float32[<=5]"},
		{doc: "open elements", op: "Expand", in: in(x, argDims(u, upTo5)), want: "float32[3,<=5]"},
		{doc: "values", op: "Expand", in: in(argDims(u, 2), argInts(2, 2)), want: "int64[2,2] = ? 2 ? 2"},
		{doc: "to nothing", op: "Expand", in: in(x, argInts(0, 3, 2)), want: "float32[0,3,2]"},
		{doc: "a mismatch", op: "Expand", in: in(arg(f32, 3), argInts(4)), want: "error: broadcasts to [4]"},
		{doc: "a negative length", op: "Expand", in: in(x, argInts(-1, 2)), want: "error: shape has -1"},

		{doc: "opset 1", op: "Tile", version: 1, in: in(x, argFloat(f32, 2), argFloat(f32, 1)), want: "float32[3,2]"},
		{doc: "bounded", op: "Tile", in: in(arg(f32, 3, upTo5), argDims(upTo5, 2)), want: "float32[<=15,<=10]"},
		{doc: "once", op: "Tile", in: in(x, argInts(1, 1)), want: "float32[3,1] view 0<0"},
		{doc: "values", op: "Tile", in: in(argInts(1, 2), argInts(2)), want: "int64[4] = 1 2 1 2"},
		{doc: "another number", op: "Tile", in: in(x, argInts(2)), want: "error: repeats has 1 elements, expected 2"},
		{doc: "less than never", op: "Tile", in: in(x, argInts(2, -2)), want: "error: repeated -2 times"},
		{doc: "beyond 63 bits", op: "Tile", in: in(x, argInts(math.MaxInt64, 1)), want: "error: overflows"},

		{doc: "opset 1", op: "Pad", version: 1, in: in(x), attrs: attrs(attrInts("paddings", 1, 0, 2, 0)), want: "float32[6,1]"},
		{doc: "opset 2", op: "Pad", version: 2, in: in(arg(f32, upTo5)), attrs: attrs(attrInts("pads", 1, -3)), want: "float32[<=3]"},
		{doc: "nothing", op: "Pad", in: in(arg(f32, upTo5, u), argInts(0, 0, 0, 0)), want: "float32[<=5,?]"},
		{doc: "nothing, a view", op: "Pad", in: in(x, argInts(0, 0, 0, 0)), want: "float32[3,1] view 0<0"},
		{doc: "moved, as long as before", op: "Pad", in: in(x, argInts(1, 0, -1, 0)), want: "float32[3,1]"},
		{doc: "one axis", op: "Pad", in: in(x, argInts(1, 1), Arg{}, argInts(-1)), want: "float32[3,3]"},
		{doc: "one axis, unknown pads", op: "Pad", in: in(x, argHidden(2), Arg{}, argInts(1)), want: "float32[3,?]"},
		{doc: "unknown axes", op: "Pad", in: in(x, argInts(1, 1), Arg{}, argHidden(1)), want: "float32[?,?]"},
		{doc: "bounded pads", op: "Pad", in: in(arg(f32, 3), argDims(upTo5, 2)), want: "float32[<=10]"},
		{doc: "cut below nothing", op: "Pad", in: in(arg(f32, 3), argInts(-2, -2)), want: "error: has length -1"},
		{doc: "beyond 63 bits", op: "Pad", in: in(arg(f32, 3), argInts(math.MaxInt64, 1)), want: "error: overflows"},
		{doc: "another number", op: "Pad", in: in(x, argInts(1, 1)), want: "error: pads has 2 elements, expected 4"},
	})
}

func TestPadChecks(t *testing.T) {
	x := arg(f32, 3, 0)
	runGate(t, []opCase{
		{op: "Pad", in: in(x, argInts(0, 1, 0, 0)), want: "float32[3,1]"},
		{doc: "the edge of nothing", op: "Pad", in: in(x, argInts(0, 1, 0, 0)), attrs: attrs(attrString("mode", "edge")), want: "error: expected elements on axis 1, to pad it with mode edge"},
		{doc: "a mode that is not there", op: "Pad", in: in(arg(f32, 3), argInts(0, 1)), attrs: attrs(attrString("mode", "mirror")), want: `error: mode is "mirror"`},
		{doc: "two constants", op: "Pad", in: in(arg(f32, 3), argInts(0, 1), arg(f32, 2)), want: "error: input 2 has shape [2], expected one element, the constant"},
		{doc: "an attribute of opset 1 beside the input", op: "Pad", in: in(arg(f32, 3), argInts(0, 1)), attrs: attrs(attrInts("paddings", 0, 0)), want: "float32[4]"},
	})
}
