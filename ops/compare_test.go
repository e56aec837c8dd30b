package ops

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestComparisons(t *testing.T) {
	bounded := argDims(graph.AtMost(7))
	bools := func(n graph.Dim) Arg { return arg(graph.Bool, n) }
	runCases(t, []opCase{
		{doc: "a bool is smaller than a real", op: "Less", in: []Arg{arg(f32, 3), arg(f32, 3)}, want: "bool[3]"},
		{doc: "and as large as another bool", op: "And", in: []Arg{bools(3), bools(1)}, want: "bool[3] over 0<0"},
		{doc: "logic of numbers", op: "Or", in: []Arg{bools(3), arg(f32, 3)}, want: "error: expected bool"},
		{doc: "Not of numbers", op: "Not", in: []Arg{arg(f32, 3)}, want: "error: expected bool"},
		{doc: "IsNaN of 8 bits", op: "IsNaN", in: []Arg{arg(graph.Float8E5M2, 3)}, want: "bool[3] over 0<0"},

		{doc: "a bound is never negative", op: "Equal", in: []Arg{bounded, argInts(-1)}, want: "bool[1] = 0"},
		{doc: "nor above itself", op: "Equal", in: []Arg{bounded, argInts(8)}, want: "bool[1] = 0"},
		{doc: "it may be what is below", op: "Equal", in: []Arg{bounded, argInts(7)}, want: "bool[1]"},
		{doc: "known ones", op: "Equal", in: []Arg{argInts(1, 2), argInts(1, 3)}, want: "bool[2] = 1 0"},
		{doc: "below", op: "Less", in: []Arg{bounded, argInts(8)}, want: "bool[1] = 1"},
		{doc: "not below", op: "Less", in: []Arg{bounded, argInts(0)}, want: "bool[1] = 0"},
		{doc: "perhaps below", op: "Less", in: []Arg{bounded, argInts(3)}, want: "bool[1]"},
		{doc: "at most", op: "LessOrEqual", in: []Arg{bounded, argInts(7)}, want: "bool[1] = 1"},
		{doc: "above", op: "Greater", in: []Arg{argInts(8), bounded}, want: "bool[1] = 1"},
		{doc: "at least", op: "GreaterOrEqual", in: []Arg{bounded, argInts(0)}, want: "bool[1] = 1"},
		{doc: "not a number equals nothing", op: "Equal", in: []Arg{argFloat(f32, math.NaN()), argFloat(f32, math.NaN())}, want: "bool[] = 0"},
		{doc: "and is not larger than anything", op: "Greater", in: []Arg{argFloat(f32, math.NaN()), argFloat(f32, 1)}, want: "bool[] = 0"},

		{doc: "false and anything", op: "And", in: []Arg{argBool(false), arg(graph.Bool)}, want: "bool[] = 0 over 0<0 0<1"},
		{doc: "true and anything", op: "And", in: []Arg{argBool(true), arg(graph.Bool)}, want: "bool[] over 0<0 0<1"},
		{doc: "true or anything", op: "Or", in: []Arg{argBool(true), arg(graph.Bool)}, want: "bool[] = 1 over 0<0 0<1"},
		{doc: "Xor", op: "Xor", in: []Arg{argBool(true), argBool(true)}, want: "bool[] = 0 over 0<0 0<1"},
		{doc: "Not", op: "Not", in: []Arg{argBool(false)}, want: "bool[] = 1 over 0<0"},
		{doc: "bits", op: "BitwiseXor", in: []Arg{argInts(6), argInts(3)}, want: "int64[1] = 5 over 0<0 0<1"},
		{doc: "all bits", op: "BitwiseNot", in: []Arg{argInts(6)}, want: "int64[1] = -7 over 0<0"},
		{doc: "a shift without direction", op: "BitShift", in: []Arg{argInts(6), argInts(1)}, want: "error: expected LEFT or RIGHT"},
		{doc: "a shift of the sign", op: "BitShift", in: []Arg{argInts(-6, -6, 6), argInts(1, 64, 64)}, attrs: []*graph.Attr{attrString("direction", "RIGHT")}, want: "int64[3] = -3 -1 0 over 0<0 0<1"},
		{doc: "a shift to the left", op: "BitShift", in: []Arg{argInts(3, 3), argInts(2, 99)}, attrs: []*graph.Attr{attrString("direction", "LEFT")}, want: "int64[2] = 12 0 over 0<0 0<1"},
	})
}

func TestWhere(t *testing.T) {
	cond := func(dims ...graph.Dim) Arg { return arg(graph.Bool, dims...) }
	known := arg(graph.Bool, 2)
	known.Value = NewInts(1, 0)
	runCases(t, []opCase{
		{doc: "over the branches of its size", op: "Where", in: []Arg{cond(2, 1), arg(f32, 2, 3), arg(f32, 3)}, want: "float32[2,3] over 0<1"},
		{doc: "never over the condition", op: "Where", in: []Arg{cond(3), cond(3), cond(3)}, want: "bool[3] over 0<1 0<2"},
		{doc: "a condition of numbers", op: "Where", in: []Arg{arg(i64, 3), arg(f32, 3), arg(f32, 3)}, want: "error: expected bool"},
		{doc: "branches of two types", op: "Where", in: []Arg{cond(3), arg(i64, 3), arg(f32, 3)}, want: "error: expected int64 as input 1"},
		{doc: "the branch that is taken", op: "Where", in: []Arg{known, argDims(5, graph.Unknown), argInts(7, 8)}, want: "int64[2] = 5 8 over 0<1 0<2"},
		{doc: "the other one need not be known at all", op: "Where", in: []Arg{known, argInts(5, 6), arg(i64, 2)}, want: "int64[2] = 5 ? over 0<1 0<2"},
		{doc: "either branch", op: "Where", in: []Arg{cond(2), argInts(5, 6), argInts(5, 9)}, want: "int64[2] = 5 <=9 over 0<1 0<2"},
		{doc: "either branch may be negative", op: "Where", in: []Arg{cond(1), argInts(5), argInts(-1)}, want: "int64[1] over 0<1 0<2"},
	})
}
