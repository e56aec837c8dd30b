package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func to(elem graph.DType) []*graph.Attr { return []*graph.Attr{attrInt("to", int64(elem))} }

func TestCast(t *testing.T) {
	x := arg(f32, 3)
	bounded := argDims(graph.AtMost(300))
	runCases(t, []opCase{
		{doc: "to the same type", op: "Cast", in: []Arg{x}, attrs: to(f32), want: "float32[3] view 0<0"},
		{doc: "to one of the same size", op: "Cast", in: []Arg{x}, attrs: to(graph.Int32), want: "int32[3] over 0<0"},
		{doc: "to a larger one", op: "Cast", in: []Arg{x}, attrs: to(i64), want: "int64[3]"},
		{doc: "to nothing", op: "Cast", in: []Arg{x}, want: "error: to is missing"},
		{doc: "to no type", op: "Cast", in: []Arg{x}, attrs: to(99), want: "error: to is 99"},
		{doc: "to a far number", op: "Cast", in: []Arg{x}, attrs: []*graph.Attr{attrInt("to", 1<<32+1)}, want: "error: to is 4294967297"},
		{doc: "opset 1 names types", op: "Cast", version: 1, in: []Arg{x}, attrs: []*graph.Attr{attrString("to", "DOUBLE")}, want: "float64[3]"},
		{doc: "opset 1 names no such type", op: "Cast", version: 1, in: []Arg{x}, attrs: []*graph.Attr{attrString("to", "UNDEFINED")}, want: "error: such as FLOAT"},
		{doc: "like itself", op: "CastLike", in: []Arg{x, arg(f32)}, want: "float32[3] view 0<0"},
		{doc: "like another", op: "CastLike", in: []Arg{x, arg(graph.Uint32, 9)}, want: "uint32[3] over 0<0"},
		{doc: "the same bits", op: "BitCast", in: []Arg{x}, attrs: to(graph.Int32), want: "int32[3] view 0<0"},
		{doc: "not as many bits", op: "BitCast", in: []Arg{x}, attrs: to(i64), want: "error: (32 bits)"},
		{doc: "Identity", op: "Identity", in: []Arg{arg(f32, graph.AtMost(3))}, want: "float32[<=3] view 0<0"},
		{doc: "Identity of strings", op: "Identity", in: []Arg{arg(graph.String, 3)}, want: "string[3]"},
		{doc: "Identity of a sequence", op: "Identity", in: []Arg{{Present: true, Type: graph.Type{Kind: graph.KindSequence, Of: &x.Type}}}, want: "sequence(float32[3])"},

		{doc: "reals lose their fraction", op: "Cast", in: []Arg{argFloat(f32, -2.9)}, attrs: to(i64), want: "int64[] = -2"},
		{doc: "reals out of range", op: "Cast", in: []Arg{argFloat(f32, 1e20)}, attrs: to(i64), want: "int64[] = ?"},
		{doc: "integers keep their low bits", op: "Cast", in: []Arg{argInts(300, -1, 200)}, attrs: to(graph.Int8), want: "int8[3] = 44 -1 -56"},
		{doc: "integers become unsigned", op: "Cast", in: []Arg{argInts(-1)}, attrs: to(graph.Uint16), want: "uint16[1] = 65535"},
		{doc: "integers round", op: "Cast", in: []Arg{argInts(1<<24 + 1)}, attrs: to(f32), want: "float32[1] = 1.6777216e+07"},
		{doc: "to bool", op: "Cast", in: []Arg{argInts(0, -3)}, attrs: to(graph.Bool), want: "bool[2] = 0 1"},
		{doc: "a bound as a real", op: "Cast", in: []Arg{bounded}, attrs: to(f32), want: "float32[1] = <=300"},
		{doc: "a bound that may wrap", op: "Cast", in: []Arg{bounded}, attrs: to(graph.Uint8), want: "uint8[1] = ?"},
		{doc: "a bound that fits", op: "Cast", in: []Arg{bounded}, attrs: to(graph.Int16), want: "int16[1] = <=300"},
		{doc: "a bound as bool", op: "Cast", in: []Arg{bounded}, attrs: to(graph.Bool), want: "bool[1] = ?"},
	})
}

// TestBoundThroughReals: a bound survives the nodes that exporters write for ceil(n /
// 2).
func TestBoundThroughReals(t *testing.T) {
	a := argDims(graph.AtMost(7), 7)
	for _, step := range []opCase{
		{op: "Cast", attrs: to(f32)},
		{op: "Div", in: []Arg{argFloat(f32, 2)}},
		{op: "Ceil"},
		{op: "Cast", attrs: to(i64)},
	} {
		c, err := callOp(step.op, newest, append([]Arg{a}, step.in...), 1, step.attrs...)
		if err != nil {
			t.Fatal(err)
		}
		a = c.Out[0]
	}
	if got := showValue(a.Elem, a.Value); got != "<=4 4" {
		t.Errorf("got %s, want <=4 4", got)
	}
}
