package ops

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func attrTensor(name string, d *graph.Data) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrTensor, Tensor: d}
}

func attrs(a ...*graph.Attr) []*graph.Attr { return a }

func TestConstant(t *testing.T) {
	pair := &graph.Data{Type: graph.Int32, Dims: []int64{2}, Ints: []int64{3, -4}}
	runCases(t, []opCase{
		{doc: "a tensor", op: "Constant", attrs: attrs(attrTensor("value", pair)), want: "int32[2] = 3 -4"},
		{doc: "no tensor", op: "Constant", attrs: attrs(attrInt("value", 1)), want: "error: value holds no tensor"},
		{doc: "nothing", op: "Constant", want: "error: no value"},
		{doc: "two values", op: "Constant", attrs: attrs(attrInt("value_int", 1), attrFloat("value_float", 1)), want: "error: attributes value_int and value_float are both set"},
		{doc: "an integer", op: "Constant", attrs: attrs(attrInt("value_int", 7)), want: "int64[] = 7"},
		{doc: "integers", op: "Constant", attrs: attrs(attrInts("value_ints", 7, 8)), want: "int64[2] = 7 8"},
		{doc: "a real", op: "Constant", attrs: attrs(attrFloat("value_float", 7.5)), want: "float32[] = 7.5"},
		{doc: "reals", op: "Constant", attrs: attrs(&graph.Attr{Name: "value_floats", Floats: []float32{1, 2}}), want: "float32[2] = 1 2"},
		{doc: "a string", op: "Constant", attrs: attrs(attrString("value_string", "x")), want: "string[]"},
		{doc: "strings", op: "Constant", attrs: attrs(&graph.Attr{Name: "value_strings", Strings: []string{"x", "y"}}), want: "string[2]"},
		{
			doc: "a sparse tensor is dense as a result", op: "Constant", want: "float32[3,4]",
			attrs: attrs(&graph.Attr{Name: "sparse_value", Sparse: &graph.Sparse{Values: &graph.Data{Type: f32, Dims: []int64{1}}, Dims: []int64{3, 4}}}),
		},
		{doc: "a negative length", op: "Constant", attrs: attrs(attrTensor("value", &graph.Data{Type: f32, Dims: []int64{-1}})), want: "error: length -1"},
		{doc: "lengths that overflow", op: "Constant", attrs: attrs(attrTensor("value", &graph.Data{Type: f32, Dims: []int64{1 << 32, 1 << 32}, Raw: []byte{}})), want: "float32[4294967296,4294967296]"},
	})
}

func TestConstantOfShape(t *testing.T) {
	one := attrTensor("value", &graph.Data{Type: i64, Dims: []int64{1}, Ints: []int64{1}})
	two := attrTensor("value", &graph.Data{Type: i64, Dims: []int64{2}, Ints: []int64{1, 1}})
	runCases(t, []opCase{
		{doc: "zeros", op: "ConstantOfShape", in: []Arg{argInts(2, 2)}, want: "float32[2,2] = 0 0 0 0"},
		{doc: "ones", op: "ConstantOfShape", in: []Arg{argInts(3)}, attrs: attrs(one), want: "int64[3] = 1 1 1"},
		{doc: "a scalar", op: "ConstantOfShape", in: []Arg{argInts()}, attrs: attrs(one), want: "int64[] = 1"},
		{doc: "data are not folded", op: "ConstantOfShape", in: []Arg{argInts(100, 100)}, want: "float32[100,100]"},
		{doc: "a bounded length", op: "ConstantOfShape", in: []Arg{argDims(3, graph.AtMost(4), graph.Unknown)}, want: "float32[3,<=4,?]"},
		{doc: "the rank alone", op: "ConstantOfShape", in: []Arg{arg(i64, 2)}, want: "float32[?,?]"},
		{doc: "an absurd rank", op: "ConstantOfShape", in: []Arg{arg(i64, 1<<40)}, want: "float32[...]"},
		{doc: "a negative length", op: "ConstantOfShape", in: []Arg{argInts(3, -1)}, want: "error: length -1 at axis 1"},
		{doc: "two values", op: "ConstantOfShape", in: []Arg{argInts(3)}, attrs: attrs(two), want: "error: tensor of one element"},
		{doc: "lengths in a matrix", op: "ConstantOfShape", in: []Arg{arg(i64, 1, 2)}, want: "error: expected a vector of lengths"},
	})
}

func TestRange(t *testing.T) {
	bounded := func(n int64) Arg {
		a := argInt(n)
		a.Value.Elems[0].State = Bounded
		return a
	}
	runCases(t, []opCase{
		{doc: "up", op: "Range", in: []Arg{argInt(1), argInt(8), argInt(3)}, want: "int64[3] = 1 4 7"},
		{doc: "down", op: "Range", in: []Arg{argInt(10), argInt(4), argInt(-2)}, want: "int64[3] = 10 8 6"},
		{doc: "nothing", op: "Range", in: []Arg{argInt(4), argInt(4), argInt(-2)}, want: "int64[0] = "},
		{doc: "reals", op: "Range", in: []Arg{argFloat(f32, 0), argFloat(f32, 0.9), argFloat(f32, 0.25)}, want: "float32[4] = 0 0.25 0.5 0.75"},
		{doc: "a step of 0", op: "Range", in: []Arg{argInt(4), argInt(4), argInt(0)}, want: "error: the step, is 0"},
		{doc: "end to end of 64 bits", op: "Range", in: []Arg{argInt(math.MinInt64), argInt(math.MaxInt64), argInt(1)}, want: "error: no length that fits 62 bits"},
		{doc: "end to end in two steps", op: "Range", in: []Arg{argInt(math.MaxInt64), argInt(math.MinInt64), argInt(math.MinInt64)}, want: "int64[2] = 9223372036854775807 -1"},
		{doc: "without end", op: "Range", in: []Arg{argFloat(f32, 0), argFloat(f32, math.Inf(1)), argFloat(f32, 1)}, want: "error: no length"},
		{doc: "not a number", op: "Range", in: []Arg{argFloat(f32, 0), argFloat(f32, math.NaN()), argFloat(f32, 1)}, want: "error: no length"},
		{doc: "long ones are not folded", op: "Range", in: []Arg{argInt(0), argInt(100_000), argInt(1)}, want: "int64[100000]"},
		{doc: "up to a bound", op: "Range", in: []Arg{argInt(1), bounded(8), argInt(3)}, want: "int64[<=3]"},
		{doc: "down from a bound", op: "Range", in: []Arg{bounded(8), argInt(2), argInt(-3)}, want: "int64[<=2]"},
		{doc: "in steps of a bound", op: "Range", in: []Arg{argInt(0), argInt(8), bounded(3)}, want: "int64[<=8]"},
		{doc: "the end is data", op: "Range", in: []Arg{argInt(1), arg(i64), argInt(3)}, want: "int64[?]"},
		{doc: "a vector", op: "Range", in: []Arg{argInts(1, 2), argInt(1), argInt(3)}, want: "error: one element"},
	})
}

func TestShapeAndSize(t *testing.T) {
	x := arg(f32, 2, graph.AtMost(3), graph.Unknown)
	run := func(start, end int64) []*graph.Attr { return attrs(attrInt("start", start), attrInt("end", end)) }
	runCases(t, []opCase{
		{doc: "lengths as elements", op: "Shape", in: []Arg{x}, want: "int64[3] = 2 <=3 ?"},
		{doc: "some axes", op: "Shape", in: []Arg{x}, attrs: run(1, 2), want: "int64[1] = <=3"},
		{doc: "counted from the back", op: "Shape", in: []Arg{x}, attrs: run(-3, -1), want: "int64[2] = 2 <=3"},
		{doc: "clamped", op: "Shape", in: []Arg{x}, attrs: run(math.MinInt64, math.MaxInt64), want: "int64[3] = 2 <=3 ?"},
		{doc: "the wrong way round", op: "Shape", in: []Arg{x}, attrs: run(2, 1), want: "int64[0] = "},
		{doc: "an unknown rank", op: "Shape", in: []Arg{argUnranked(f32)}, want: "int64[?]"},
		{doc: "number of elements", op: "Size", in: []Arg{arg(f32, 2, 3)}, want: "int64[] = 6"},
		{doc: "at most so many", op: "Size", in: []Arg{arg(f32, 2, graph.AtMost(3))}, want: "int64[] = <=6"},
		{doc: "none at all", op: "Size", in: []Arg{arg(f32, 0, graph.Unknown)}, want: "int64[] = 0"},
		{doc: "an unknown number", op: "Size", in: []Arg{x}, want: "int64[] = ?"},
	})
}

func TestWindowsAndRandoms(t *testing.T) {
	x := arg(f32, 2, 3)
	mel := func(bins, length Arg) []Arg {
		return []Arg{bins, length, argInt(8192), argFloat(f32, 0), argFloat(f32, 4096)}
	}
	runCases(t, []opCase{
		{doc: "window", op: "HannWindow", in: []Arg{argInt(10)}, attrs: attrs(attrInt("output_datatype", 11)), want: "float64[10]"},
		{doc: "window of unknown length", op: "HannWindow", in: []Arg{arg(i64)}, want: "float32[?]"},
		{doc: "window of negative length", op: "HannWindow", in: []Arg{argInt(-1)}, want: "error: is -1, expected at least 0"},
		{doc: "window of real length", op: "HannWindow", in: []Arg{argFloat(f32, 3)}, want: "error: expected integers"},
		{doc: "mel", op: "MelWeightMatrix", in: mel(argInt(8), argInt(16)), want: "float32[9,8]"},
		{doc: "eye", op: "EyeLike", in: []Arg{x}, attrs: attrs(attrInt("dtype", 7)), want: "int64[2,3]"},
		{doc: "eye of a vector", op: "EyeLike", in: []Arg{arg(f32, 3)}, want: "error: expected a matrix"},
		{doc: "drawn", op: "RandomNormal", attrs: attrs(attrInts("shape", 2, 3)), want: "float32[2,3]"},
		{doc: "drawn without a shape", op: "RandomNormal", want: "error: shape is missing"},
		{doc: "drawn with a negative length", op: "RandomUniform", attrs: attrs(attrInts("shape", -2)), want: "error: length -2"},
		{doc: "drawn like another", op: "RandomUniformLike", in: []Arg{x}, attrs: attrs(attrInt("dtype", 11)), want: "float64[2,3]"},
		{doc: "a coin for each", op: "Bernoulli", in: []Arg{x}, want: "float32[2,3] over 0<0"},
		{doc: "samples", op: "Multinomial", in: []Arg{arg(f32, 4, 9)}, attrs: attrs(attrInt("sample_size", 5)), want: "int32[4,5]"},
		{doc: "no samples", op: "Multinomial", in: []Arg{arg(f32, 4, 9)}, attrs: attrs(attrInt("sample_size", -5)), want: "error: sample_size is -5"},
	})
}
