package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestReduce(t *testing.T) {
	x := arg(f32, 2, 1, upTo5)
	drop := attrInt("keepdims", 0)
	runCases(t, []opCase{
		{doc: "axes as attribute", op: "ReduceSum", version: 11, in: in(x), attrs: attrs(attrInts("axes", -3)), want: "float32[1,1,<=5]"},
		{doc: "axes as input", op: "ReduceSum", in: in(x, argInts(0, 2)), attrs: attrs(drop), want: "float32[1]"},
		{doc: "all", op: "ReduceMax", in: in(x), want: "float32[1,1,1]"},
		{doc: "all of what has no rank", op: "ReduceMax", in: in(argUnranked(f32)), attrs: attrs(drop), want: "float32[]"},
		{doc: "none", op: "ReduceMean", in: in(x, argInts()), attrs: attrs(attrInt("noop_with_empty_axes", 1)), want: "float32[2,1,<=5] view 0<0"},
		{doc: "an axis of length 1", op: "ReduceProd", in: in(x, argInts(1)), attrs: attrs(drop), want: "float32[2,<=5] view 0<0"},
		{doc: "an axis of length 1, but squared", op: "ReduceSumSquare", in: in(x, argInts(1)), want: "float32[2,1,<=5]"},
		{doc: "an axis that may be of length 1", op: "ReduceSum", in: in(x, argInts(2)), want: "float32[2,1,1]"},
		{doc: "unknown axes, kept", op: "ReduceMin", in: in(x, argHidden(1)), want: "float32[<=2,1,<=5]"},
		{doc: "unknown axes, dropped", op: "ReduceMin", in: in(x, argHidden(1)), attrs: attrs(drop), want: "float32[<=2,<=5]"},
		{doc: "as many unknown axes as there are", op: "ReduceMin", in: in(x, argHidden(3)), attrs: attrs(drop), want: "float32[]"},
		{doc: "unknown axes, not even how many", op: "ReduceMin", in: in(x, argHidden(u)), attrs: attrs(drop), want: "float32[...]"},
		{doc: "an axis twice, as runtimes allow", op: "ReduceSum", in: in(arg(f32, 3, 4), argInts(1, -1)), want: "float32[3,1]"},
		{doc: "the axis of a scalar, as runtimes allow", op: "ReduceSum", in: in(arg(f32), argInts(0)), want: "float32[] view 0<0"},
		{doc: "elements of a shape", op: "ReduceProd", in: in(argDims(2, 3, 4)), attrs: attrs(drop), want: "int64[] = 24"},
		{doc: "a bounded element", op: "ReduceProd", in: in(argDims(2, upTo5)), attrs: attrs(drop), want: "int64[] = <=10"},
		{doc: "a hidden element", op: "ReduceSum", in: in(argDims(2, u)), want: "int64[1] = ?"},
		{doc: "the largest of bounded ones", op: "ReduceMax", in: in(argDims(2, upTo5)), attrs: attrs(drop), want: "int64[] = <=5"},
		{doc: "one axis of two", op: "ReduceSum", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argInts(0)), want: "int64[1,2] = 4 6"},
		{doc: "the sum of nothing", op: "ReduceSum", in: in(argValue([]int64{0})), attrs: attrs(drop), want: "int64[] = 0"},
		{doc: "the largest of nothing", op: "ReduceMax", in: in(argValue([]int64{0})), attrs: attrs(drop), want: "int64[] = ?"},
		{doc: "an axis that is not there", op: "ReduceSum", in: in(x, argInts(3)), want: "error: axes is 3"},
		{doc: "more axes than there are", op: "ReduceSum", in: in(x, argInts(0, 1, 2, 0)), want: "error: axes names 4 axes"},
	})
}

func TestArgAndCumulate(t *testing.T) {
	x := arg(f32, 2, upTo5)
	v := argInts(3, 9, 9, 1)
	runCases(t, []opCase{
		{op: "ArgMax", in: in(x), want: "int64[1,<=5]"},
		{doc: "dropped", op: "ArgMin", in: in(x), attrs: attrs(attrInt("axis", -1), attrInt("keepdims", 0)), want: "int64[2]"},
		{doc: "the first", op: "ArgMax", in: in(v), want: "int64[1] = 1"},
		{doc: "the last", op: "ArgMax", in: in(v), attrs: attrs(attrInt("select_last_index", 1), attrInt("keepdims", 0)), want: "int64[] = 2"},
		{doc: "the least of each row", op: "ArgMin", in: in(argValue([]int64{2, 2}, 1, 2, 4, 3)), attrs: attrs(attrInt("axis", 1), attrInt("keepdims", 0)), want: "int64[2] = 0 1"},
		{doc: "an axis that is not there", op: "ArgMax", in: in(x), attrs: attrs(attrInt("axis", 2)), want: "error: axis is 2"},

		{doc: "bounded, in place", op: "CumSum", in: in(x, argInt(0)), want: "float32[2,<=5] over 0<0"},
		{doc: "of lengths", op: "CumSum", in: in(argDims(2, upTo5, 3), argInt(0)), want: "int64[3] = 2 <=7 <=10 over 0<0"},
		{doc: "exclusive", op: "CumSum", in: in(v, argInt(-1)), attrs: attrs(attrInt("exclusive", 1)), want: "int64[4] = 0 3 12 21 over 0<0"},
		{doc: "reverse", op: "CumProd", in: in(argInts(2, 3, 4), argInt(0)), attrs: attrs(attrInt("reverse", 1)), want: "int64[3] = 24 12 4 over 0<0"},
		{doc: "both", op: "CumProd", in: in(argInts(2, 3, 4), argInt(0)), attrs: attrs(attrInt("reverse", 1), attrInt("exclusive", 1)), want: "int64[3] = 12 4 1 over 0<0"},
		{doc: "each column", op: "CumSum", in: in(argValue([]int64{2, 2}, 1, 2, 3, 4), argInt(0)), want: "int64[2,2] = 1 2 4 6 over 0<0"},
		{doc: "two axes", op: "CumSum", in: in(x, argInts(0, 1)), want: "error: expected one element"},
		{doc: "an axis that is not there", op: "CumSum", in: in(x, argInt(2)), want: "error: axis is 2"},
	})
}

func TestSoftmaxAndTrilu(t *testing.T) {
	x := arg(f32, 2, upTo5)
	runCases(t, []opCase{
		{op: "Softmax", in: in(x), want: "float32[2,<=5] over 0<0"},
		{doc: "the default axis of old opsets", op: "LogSoftmax", version: 11, in: in(arg(f32, 5)), want: "float32[5] over 0<0"},
		{op: "Hardmax", in: in(x), attrs: attrs(attrInt("axis", 0)), want: "float32[2,<=5] over 0<0"},
		{op: "LpNormalization", in: in(x), want: "float32[2,<=5] over 0<0"},
		{doc: "unknown lengths", op: "Softmax", in: in(arg(f32, u)), want: "float32[?]"},
		{doc: "an axis that is not there", op: "Softmax", in: in(x), attrs: attrs(attrInt("axis", 2)), want: "error: axis is 2"},
		{doc: "a norm that is not there", op: "LpNormalization", in: in(x), attrs: attrs(attrInt("p", 3)), want: "error: p is 3"},
		{op: "Trilu", in: in(x, argInt(1)), want: "float32[2,<=5] over 0<0"},
		{doc: "of a vector", op: "Trilu", in: in(arg(f32, 3)), want: "error: at least rank 2"},
	})
}

func TestReduceFLOPs(t *testing.T) {
	c, err := callOp("ReduceSum", newest, in(arg(f32, 2, 3), argInts(0)), 1)
	if err != nil || c.Node.Semantics.FLOPs != 6 {
		t.Errorf("got %d, %v, want 6", c.Node.Semantics.FLOPs, err)
	}
	for op, args := range map[string][]Arg{
		"MatMul": in(arg(f32, 7, 2, 3), arg(f32, 3, 5)),
		"Gemm":   in(arg(f32, 14, 3), arg(f32, 3, 5)),
	} {
		if c, err := callOp(op, newest, args, 1); err != nil || c.Node.Semantics.FLOPs != 2*7*2*3*5 {
			t.Errorf("%s: got %d, %v, want %d", op, c.Node.Semantics.FLOPs, err, 2*7*2*3*5)
		}
	}
	c, err = callOp("Einsum", newest, in(arg(f32, 7, 2, 3), arg(f32, 3, 5)), 1, attrString("equation", "bij,jk->bik"))
	if err != nil || c.Node.Semantics.FLOPs != 2*7*2*3*5 {
		t.Errorf("Einsum: got %d, %v, want %d", c.Node.Semantics.FLOPs, err, 2*7*2*3*5)
	}
	c, err = callOp("MatMul", newest, in(arg(f32, graph.AtMost(7), 3), arg(f32, 3, 5)), 1)
	if err != nil || c.Node.Semantics.FLOPs != 0 {
		t.Errorf("bounded: got %d, %v, want 0", c.Node.Semantics.FLOPs, err)
	}
}
