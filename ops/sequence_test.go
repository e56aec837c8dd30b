package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestSequences(t *testing.T) {
	in := tensors{
		"a": floats(2, 3), "b": floats(4, 3), "c": floats(7, 3), "s": {Kind: graph.KindSequence, Of: new(floats(2, 3))}, "i": graph.TensorOf(graph.Int64),
		"k": graph.TensorOf(graph.Int32, 2), "o": {Kind: graph.KindOptional, Of: new(floats(5))},
	}
	data := constants{"zero": ints(nil, 0), "one": ints(nil, 1), "nine": ints(nil, 9), "m1": ints(nil, -1), "three": ints(nil, 3), "parts": ints([]int64{2}, 5, 2), "less": ints([]int64{2}, 5, 1)}
	axis := func(name string, attrs ...*graph.Attr) nodeAttrs {
		return nodeAttrs{name: append(attrs, attrInt("axis", 0))}
	}
	run := func(nodes, out string, attrs nodeAttrs) graphSpec {
		return graphSpec{in: "a b c s i k o", out: out, nodes: nodes, types: in, data: data, attrs: attrs}
	}
	runInferCases(t, []inferCase{
		{"items keep their shapes", run("l=SequenceConstruct(a,b); x=SequenceAt(l,one)", "l x", nil), "sequence(float32[<=4,3]), float32[4,3]"},
		{"from the end", run("l=SequenceConstruct(a,b); x=SequenceAt(l,m1)", "x", nil), "float32[4,3]"},
		{"any item", run("l=SequenceConstruct(a,b); x=SequenceAt(l,i)", "x", nil), "float32[<=4,3]"},
		{"an item that is not there", run("l=SequenceConstruct(a,b); x=SequenceAt(l,nine)", "x", nil), "error: position is 9, expected one of [-2, 1] in a sequence of 2 items"},
		{"insert and erase", run("e=SequenceEmpty(); l=SequenceInsert(e,a); m=SequenceInsert(l,b,zero); n=SequenceErase(m,one); x=SequenceAt(n,zero)", "x", nil), "float32[4,3]"},
		{"an item of another type", run("l=SequenceConstruct(a,i)", "l", nil), `error: input 1 "i" is int64[], expected float32 elements`},
		{"the length is a number", run("l=SequenceConstruct(a,b); n=SequenceLength(l); r=Range(zero,n,one)", "r", nil), "int64[2]"},
		{"of a graph input it is not", run("n=SequenceLength(s); r=Range(zero,n,one)", "r", nil), "int64[?]"},
		{"concat", run("l=SequenceConstruct(a,b); x=ConcatFromSequence(l)", "x", axis("x")), "float32[6,3]"},
		{"concat along a new axis", run("l=SequenceConstruct(a,a); x=ConcatFromSequence(l)", "x", axis("x", attrInt("new_axis", 1))), "float32[2,2,3]"},
		{"concat of items unlike", run("l=SequenceConstruct(a,b); x=ConcatFromSequence(l)", "x", axis("x", attrInt("new_axis", 1))), "error: item 1 of the sequence has shape [4,3]"},
		{"concat of any number", run("x=ConcatFromSequence(s)", "x", axis("x")), "float32[?,3]"},
		{"concat without axis", run("x=ConcatFromSequence(s)", "x", nil), `error: attribute "axis" is missing`},
		{"split into parts of one", run("l=SplitToSequence(a); x=SequenceAt(l,one)", "x", nil), "float32[1,3]"},
		{"without the axis", run("l=SplitToSequence(a); x=SequenceAt(l,one)", "x", nodeAttrs{"l": {attrInt("keepdims", 0)}}), "float32[3]"},
		{
			"split with a rest", run("l=SplitToSequence(c,three); x=SequenceAt(l,zero); y=SequenceAt(l,m1); n=SequenceLength(l); r=Range(zero,n,one)", "l x y r", nil),
			"sequence(float32[<=3,3]), float32[3,3], float32[1,3], int64[3]",
		},
		{"split by a list", run("l=SplitToSequence(c,parts); x=SequenceAt(l,zero)", "x", nil), "float32[5,3]"},
		{"split by a list that does not add up", run("l=SplitToSequence(c,less)", "l", nil), "error: split is [5 1], expected lengths that add up to 7, the length of axis 0"},
		{"split by zero", run("l=SplitToSequence(c,zero)", "l", nil), "error: split is [0], expected positive lengths"},
		{"split by what the data say", run("l=SplitToSequence(c,k); x=SequenceAt(l,i)", "x", nil), "float32[<=7,3]"},
		{"a sequence is no tensor", run("l=SequenceConstruct(s)", "l", nil), `error: input 0 "s" has type sequence(float32[2,3]), expected a tensor`},
		{"optional", run("p=Optional(a); x=OptionalGetElement(p); y=OptionalGetElement(o)", "p x y", nil), "optional(float32[2,3]), float32[2,3], float32[5]"},
		{
			"an optional that is empty", run("p=Optional(); x=OptionalGetElement(p)", "x", nodeAttrs{"p": {{Name: "type", Type: graph.AttrTypeProto, TypeOf: &graph.Declared{Type: floats(5), Symbols: []string{""}}}}}),
			`error: input 0 "p" is an empty optional`,
		},
		{"an optional of nothing", run("p=Optional()", "p", nil), `error: neither an input nor the attribute "type"`},
	})
}

func TestOptionalHasElement(t *testing.T) {
	full := Arg{Present: true, Type: graph.Type{Kind: graph.KindOptional}, Value: &Value{Items: []Arg{arg(graph.Float32, 3)}}}
	empty := full
	empty.Value = &Value{Items: []Arg{}}
	open := full
	open.Value = nil
	runCases(t, []opCase{
		{doc: "one that was made of a tensor", op: "OptionalHasElement", in: []Arg{full}, want: "bool[] = 1"},
		{doc: "one that was made of nothing", op: "OptionalHasElement", in: []Arg{empty}, want: "bool[] = 0"},
		{doc: "one that comes from outside", op: "OptionalHasElement", in: []Arg{open}, want: "bool[]"},
		{doc: "a tensor", op: "OptionalHasElement", in: []Arg{arg(graph.Float32, 3)}, want: "bool[] = 1"},
		{doc: "nothing", op: "OptionalHasElement", want: "bool[] = 0"},
		{doc: "nothing, before it was allowed", op: "OptionalHasElement", version: 15, want: "error: input 0 is missing"},
	})
}
