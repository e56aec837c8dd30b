package ops

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

const (
	f32 = graph.Float32
	i64 = graph.Int64
)

func TestElementwiseTypes(t *testing.T) {
	x := arg(f32, 2, 3)
	runCases(t, []opCase{
		{doc: "one input is written over", op: "Exp", in: []Arg{x}, want: "float32[2,3] over 0<0"},
		{doc: "a bounded shape too", op: "Exp", in: []Arg{arg(f32, graph.AtMost(7), 3)}, want: "float32[<=7,3] over 0<0"},
		{doc: "an unknown length stays unknown", op: "Exp", in: []Arg{arg(f32, graph.Unknown)}, want: "float32[?]"},
		{doc: "an unknown rank stays unknown", op: "Add", in: []Arg{x, argUnranked(f32)}, want: "float32[...]"},
		{doc: "either of two equal inputs", op: "Add", in: []Arg{x, x}, want: "float32[2,3] over 0<0 0<1"},
		{doc: "the broadcast one is too small", op: "Add", in: []Arg{arg(f32, 3), x}, want: "float32[2,3] over 0<1"},
		{doc: "two bounds need not be equal", op: "Add", in: []Arg{arg(f32, graph.AtMost(7)), arg(f32, graph.AtMost(7))}, want: "float32[<=7]"},
		{doc: "a scalar leaves the bounded shape as it is", op: "Mul", in: []Arg{arg(f32, graph.AtMost(7)), arg(f32)}, want: "float32[<=7] over 0<0"},
		{doc: "but not one of more axes", op: "Mul", in: []Arg{arg(f32, graph.AtMost(7)), arg(f32, 1, 1)}, want: "float32[1,<=7]"},
		{doc: "shapes that do not broadcast", op: "Add", in: []Arg{x, arg(f32, 4)}, want: "error: input 1 has shape [4], expected one that broadcasts with [2,3]"},
		{doc: "two element types", op: "Add", in: []Arg{x, arg(i64, 3)}, want: "error: elements of type int64, expected float32 as input 0"},
		{doc: "an input is missing", op: "Add", in: []Arg{x}, want: "error: input 1 is missing"},
		{doc: "an input too many", op: "Exp", in: []Arg{x, x}, want: "error: one too many"},
		{doc: "a sequence", op: "Exp", in: []Arg{{Present: true, Type: graph.Type{Kind: graph.KindSequence}}}, want: "error: expected a tensor"},

		{doc: "the base decides", op: "Pow", in: []Arg{x, arg(i64)}, want: "float32[2,3] over 0<0"},
		{doc: "Sum of one", op: "Sum", in: []Arg{x}, want: "float32[2,3] view 0<0"},
		{doc: "Sum of three", op: "Sum", in: []Arg{x, arg(f32, 1, 3), x}, want: "float32[2,3] over 0<0 0<2"},
		{doc: "Max before opset 8", op: "Max", version: 6, in: []Arg{x, arg(f32, 3)}, want: "error: opsets before 8"},

		{doc: "before opset 7 nothing is broadcast unasked", op: "Add", version: 6, in: []Arg{x, arg(f32, 3)}, want: "error: broadcast=1"},
		{doc: "the last axes", op: "Add", version: 6, in: []Arg{x, arg(f32, 3)}, attrs: []*graph.Attr{attrInt("broadcast", 1)}, want: "float32[2,3] over 0<0"},
		{doc: "axes from axis on", op: "Add", version: 6, in: []Arg{arg(f32, 2, 3, 4), arg(f32, 2, 3)}, attrs: []*graph.Attr{attrInt("broadcast", 1), attrInt("axis", 0)}, want: "float32[2,3,4] over 0<0"},
		{doc: "axis counted from the back", op: "Add", version: 6, in: []Arg{arg(f32, 2, 3, 4), arg(f32, 3)}, attrs: []*graph.Attr{attrInt("broadcast", 1), attrInt("axis", -2)}, want: "float32[2,3,4] over 0<0"},
		{doc: "axes that are not there", op: "Add", version: 6, in: []Arg{x, arg(f32, 3)}, attrs: []*graph.Attr{attrInt("broadcast", 1), attrInt("axis", 2)}, want: "error: from axis 2 on"},
		{doc: "other lengths", op: "Add", version: 6, in: []Arg{x, arg(f32, 2)}, attrs: []*graph.Attr{attrInt("broadcast", 1)}, want: "error: expected [3] as axes 1 to 1"},
		{doc: "one element of more axes", op: "Add", version: 6, in: []Arg{arg(f32, 3), arg(f32, 1, 1)}, attrs: []*graph.Attr{attrInt("broadcast", 1)}, want: "float32[3] over 0<0"},
	})
}

func TestElementwiseFolding(t *testing.T) {
	bounded := argDims(graph.AtMost(7))
	runCases(t, []opCase{
		{doc: "sum", op: "Add", in: []Arg{argInts(1, 2), argInt(3)}, want: "int64[2] = 4 5 over 0<0"},
		{doc: "a bound plus a number", op: "Add", in: []Arg{bounded, argInts(3)}, want: "int64[1] = <=10 over 0<0 0<1"},
		{doc: "nothing hidden comes back", op: "Add", in: []Arg{argDims(2, graph.Unknown), argInts(3)}, want: "int64[2] = 5 ? over 0<0"},
		{doc: "an input without a value hides all", op: "Add", in: []Arg{argInts(1), arg(i64, 1)}, want: "int64[1] over 0<0 0<1"},
		{doc: "a bound less a number may be negative", op: "Sub", in: []Arg{bounded, argInts(3)}, want: "int64[1] over 0<0 0<1"},
		{doc: "a number less a bound below it", op: "Sub", in: []Arg{argInts(9), bounded}, want: "int64[1] = <=9 over 0<0 0<1"},
		{doc: "product of bounds", op: "Mul", in: []Arg{bounded, bounded}, want: "int64[1] = <=49 over 0<0 0<1"},
		{doc: "0 times anything", op: "Mul", in: []Arg{argInts(0), argDims(graph.Unknown)}, want: "int64[1] = 0 over 0<0 0<1"},
		{doc: "a product that overflows", op: "Mul", in: []Arg{argInts(math.MaxInt64), argInts(2)}, want: "int64[1] over 0<0 0<1"},
		{doc: "division rounds towards 0", op: "Div", in: []Arg{argInts(-7, 7), argInt(2)}, want: "int64[2] = -3 3 over 0<0"},
		{doc: "division by 0", op: "Div", in: []Arg{argInts(7, 6), argInts(0, 2)}, want: "int64[2] = ? 3 over 0<0 0<1"},
		{doc: "a bound divided", op: "Div", in: []Arg{bounded, argInts(2)}, want: "int64[1] = <=3 over 0<0 0<1"},
		{doc: "divided by a bound", op: "Div", in: []Arg{argInts(2), bounded}, want: "int64[1] over 0<0 0<1"},
		{doc: "the remainder has the divisor's sign", op: "Mod", in: []Arg{argInts(-7, 7, -6), argInts(3, -3, 3)}, want: "int64[3] = 2 -2 0 over 0<0 0<1"},
		{doc: "fmod has the dividend's", op: "Mod", in: []Arg{argInts(-7, 7), argInts(3, -3)}, attrs: []*graph.Attr{attrInt("fmod", 1)}, want: "int64[2] = -1 1 over 0<0 0<1"},
		{doc: "a remainder is bounded by the divisor", op: "Mod", in: []Arg{arg(i64, 1), argInts(4)}, want: "int64[1] = <=3 over 0<0 0<1"},
		{doc: "and by the dividend", op: "Mod", in: []Arg{bounded, argInts(40)}, want: "int64[1] = <=7 over 0<0 0<1"},
		{doc: "powers of integers", op: "Pow", in: []Arg{argInts(3, -1, 2), argInts(4, 3, 70)}, want: "int64[3] = 81 -1 ? over 0<0 0<1"},
		{doc: "a power of a bound", op: "Pow", in: []Arg{bounded, argInt(2)}, want: "int64[1] = <=49 over 0<0"},
		{doc: "a real power of an integer", op: "Pow", in: []Arg{argInts(9), argFloat(f32, 0.5)}, want: "int64[1] = 3 over 0<0"},

		{doc: "minimum of a bound and a number", op: "Min", in: []Arg{bounded, argInts(5)}, want: "int64[1] = <=5 over 0<0 0<1"},
		{doc: "minimum of a bound and what is below all it can be", op: "Min", in: []Arg{bounded, argInts(-5)}, want: "int64[1] = -5 over 0<0 0<1"},
		{doc: "maximum of a bound and a number", op: "Max", in: []Arg{bounded, argInts(5)}, want: "int64[1] = <=7 over 0<0 0<1"},
		{doc: "maximum of a bound and what is above all it can be", op: "Max", in: []Arg{bounded, argInts(9)}, want: "int64[1] = 9 over 0<0 0<1"},
		{doc: "maximum of one", op: "Max", in: []Arg{argInts(-9)}, want: "int64[1] = -9 view 0<0"},

		{doc: "reals round to float32", op: "Add", in: []Arg{argFloat(f32, 1<<24), argFloat(f32, 1)}, want: "float32[] = 1.6777216e+07 over 0<0 0<1"},
		{doc: "halves to even", op: "Add", in: []Arg{argFloat(graph.Float16, 2048), argFloat(graph.Float16, 1)}, want: "float16[] = 2048 over 0<0 0<1"},
		{doc: "halves end at 65504", op: "Mul", in: []Arg{argFloat(graph.Float16, 256), argFloat(graph.Float16, 256)}, want: "float16[] = +Inf over 0<0 0<1"},
		{doc: "Floor", op: "Floor", in: []Arg{argFloat(f32, -0.5)}, want: "float32[] = -1 over 0<0"},
		{doc: "Round to even", op: "Round", in: []Arg{argFloat(f32, 2.5)}, want: "float32[] = 2 over 0<0"},
		{doc: "Sqrt", op: "Sqrt", in: []Arg{argFloat(f32, 2)}, want: "float32[] = 1.4142135381698608 over 0<0"},
		{doc: "Log is left to the runtime", op: "Log", in: []Arg{argFloat(f32, 8)}, want: "float32[] over 0<0"},
		{doc: "Relu of integers", op: "Relu", in: []Arg{argInts(-2, 2)}, want: "int64[2] = 0 2 over 0<0"},
		{doc: "Clip", op: "Clip", in: []Arg{argInts(-2, 2, 9), argInt(0), argInt(5)}, want: "int64[3] = 0 2 5 over 0<0"},
		{doc: "Clip by attributes", op: "Clip", version: 6, in: []Arg{argFloat(f32, 9)}, attrs: []*graph.Attr{attrFloat("max", 6)}, want: "float32[] = 6 over 0<0"},
		{doc: "Clip bounds what is hidden", op: "Clip", in: []Arg{arg(i64, 1), argInt(0), argInt(5)}, want: "int64[1] = <=5 over 0<0"},
		{doc: "Clip of a bound without limits", op: "Clip", in: []Arg{bounded}, want: "int64[1] = <=7 over 0<0"},
	})
}

// TestNarrowIntegers compares the arithmetic of each integer type with Go's.
func TestNarrowIntegers(t *testing.T) {
	of := func(elem graph.DType, v int64) Arg {
		return Arg{true, graph.TensorOf(elem), &Value{Shape: []int64{}, Elems: []Scalar{{I: v}}}}
	}
	for _, a := range []int64{-128, -127, -3, 0, 1, 100, 127} {
		for _, b := range []int64{-128, -1, 0, 2, 127} {
			sums := map[graph.DType]int64{
				graph.Int8: int64(int8(a) + int8(b)), graph.Uint8: int64(uint8(a) + uint8(b)),
				graph.Int16: int64(int16(a) + int16(b)), graph.Uint32: int64(uint32(a) + uint32(b)),
			}
			for elem, want := range sums {
				c, err := callOp("Add", newest, []Arg{of(elem, wrapInt(elem, a).I), of(elem, wrapInt(elem, b).I)}, 1)
				if err != nil {
					t.Fatal(err)
				}
				if got := c.Out[0].Value.Elems[0]; got != (Scalar{I: want}) {
					t.Errorf("%d + %d as %v: got %+v, want %d", a, b, elem, got, want)
				}
			}
		}
	}
}

// TestRoundMantissa compares the rounding to bfloat16 with one on bits.
func TestRoundMantissa(t *testing.T) {
	for bits := uint32(0); bits < 1<<32-1<<20; bits += 65_537 * 3 {
		x := math.Float32frombits(bits)
		if x != x {
			continue
		}
		low := bits & 0xffff
		want := bits &^ 0xffff
		if low > 0x8000 || low == 0x8000 && want&0x10000 != 0 {
			want += 0x10000
		}
		got := roundMantissa(float64(x), 8, -126, 0x1.FEp127)
		if got != float64(math.Float32frombits(want)) {
			t.Fatalf("%x: got %g, want %g", bits, got, math.Float32frombits(want))
		}
	}
}

func TestActivations(t *testing.T) {
	x := arg(f32, 2, 4, 5)
	runCases(t, []opCase{
		{doc: "a slope per channel", op: "PRelu", in: []Arg{x, arg(f32, 4, 1)}, want: "float32[2,4,5] over 0<0"},
		{doc: "a slope per element", op: "PRelu", in: []Arg{x, x}, want: "float32[2,4,5] over 0<0 0<1"},
		{doc: "a slope that would broadcast the input", op: "PRelu", in: []Arg{arg(f32, 1), x}, want: "error: broadcasts to input 0 [1]"},
		{doc: "one per channel before opset 7", op: "PRelu", version: 6, in: []Arg{x, arg(f32, 4)}, want: "float32[2,4,5] over 0<0"},
		{doc: "not one per channel", op: "PRelu", version: 6, in: []Arg{x, arg(f32, 5)}, want: "error: one for each channel"},
		{doc: "gate and value", op: "SwiGLU", in: []Arg{x, x}, want: "float32[2,4,5] over 0<0 0<1"},
		{doc: "gate and another value", op: "SwiGLU", in: []Arg{x, arg(f32, 5)}, want: "error: expected [2,4,5] as input 0"},
		{doc: "limits are scalars", op: "Clip", in: []Arg{x, arg(f32, 5)}, want: "error: one element"},
		{doc: "a limit may be left out", op: "Clip", in: []Arg{x, {}, arg(f32)}, want: "float32[2,4,5] over 0<0"},
		{doc: "bias", op: "com.microsoft.BiasGelu", version: 1, in: []Arg{x, arg(f32, 5)}, want: "float32[2,4,5] over 0<0"},
		{doc: "bias left out", op: "com.microsoft.FastGelu", version: 1, in: []Arg{x}, want: "float32[2,4,5] over 0<0"},
		{doc: "bias of another length", op: "com.microsoft.FastGelu", version: 1, in: []Arg{x, arg(f32, 4)}, want: "error: last axis"},
	})
}

func TestDropout(t *testing.T) {
	x := arg(f32, 3)
	runCases(t, []opCase{
		{doc: "of inference", op: "Dropout", in: []Arg{x}, outs: 2, want: "float32[3], bool[3] view 0<0"},
		{doc: "the mode is false", op: "Dropout", in: []Arg{x, {}, argBool(false)}, want: "float32[3] view 0<0"},
		{doc: "of training", op: "Dropout", in: []Arg{x, arg(f32), argBool(true)}, want: "float32[3] over 0<0"},
		{doc: "the mode is not known", op: "Dropout", in: []Arg{x, {}, arg(graph.Bool)}, want: "float32[3] over 0<0"},
		{doc: "opset 11 has no mode", op: "Dropout", version: 11, in: []Arg{x}, outs: 2, want: "float32[3], bool[3] view 0<0"},
		{doc: "opset 7 has a mask of reals", op: "Dropout", version: 7, in: []Arg{x}, outs: 2, want: "float32[3], float32[3] view 0<0"},
		{doc: "opset 6 trains", op: "Dropout", version: 6, in: []Arg{x}, want: "float32[3] over 0<0"},
		{doc: "opset 6 tests", op: "Dropout", version: 6, in: []Arg{x}, attrs: []*graph.Attr{attrInt("is_test", 1)}, want: "float32[3] view 0<0"},
		{doc: "values pass", op: "Dropout", in: []Arg{argFloat(f32, 2)}, want: "float32[] = 2 view 0<0"},
	})
}
