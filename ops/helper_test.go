package ops

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// newest is an opset version above that of every change to an operator.
const newest = 1000

// callOp runs one operator by itself: Infer, then Fold and sharing, as in a model. The
// name may start with a domain ("com.microsoft.Gelu"). The result is in the call's Out
// and in its node's Semantics.
func callOp(name string, version int64, in []Arg, outs int, attrs ...*graph.Attr) (*Call, error) {
	domain := ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		domain, name = name[:i], name[i+1:]
	}
	op := Lookup(domain, name)
	if op == nil {
		return nil, fmt.Errorf("no operator %s.%s", domain, name)
	}
	n := &graph.Node{Op: name, Domain: domain, Attrs: attrs}
	c := &Call{Node: n, Version: version, In: in, Out: make([]Arg, outs)}
	for i := range c.Out {
		c.Out[i].Present = true
	}
	if err := op.Infer(c); err != nil {
		return nil, err
	}
	if op.Fold != nil && c.foldable() {
		op.Fold(c)
	}
	(*inferrer)(nil).sharing(c, op)
	if op.FLOPs != nil {
		n.Semantics.FLOPs = op.FLOPs(c)
	}
	return c, nil
}

// opCase is one row of a table of calls.
type opCase struct {
	doc     string
	op      string
	version int64 // 0: newest
	in      []Arg
	outs    int // 0: one
	attrs   []*graph.Attr
	want    string // the outputs as showCall prints them; "error: TEXT" if the call must fail with a message that contains TEXT
}

// runCases runs a table of calls.
func runCases(t *testing.T, cases []opCase) {
	t.Helper()
	for _, k := range cases {
		version, outs := k.version, max(k.outs, 1)
		if version == 0 {
			version = newest
		}
		got := ""
		c, err := callOp(k.op, version, k.in, outs, k.attrs...)
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = showCall(c)
		}
		if text, isError := strings.CutPrefix(k.want, "error: "); isError && err != nil && strings.Contains(err.Error(), text) {
			continue
		}
		if got != k.want {
			t.Errorf("%s: %s-%d\n got  %s\n want %s", k.doc, k.op, version, got, k.want)
		}
	}
}

// runGate runs a table of calls through Check, with outputs inferred from the inputs. A
// row without an expectation must pass, whatever its outputs are.
func runGate(t *testing.T, cases []opCase) {
	t.Helper()
	for _, k := range cases {
		c := &Call{Version: cmp.Or(k.version, newest), In: k.in, Out: make([]Arg, max(k.outs, 1))}
		c.Node = &graph.Node{Op: k.op, Attrs: k.attrs}
		if i := strings.LastIndexByte(k.op, '.'); i >= 0 {
			c.Node.Domain, c.Node.Op = k.op[:i], k.op[i+1:]
		}
		for i := range c.Out {
			c.Out[i].Present = true
		}
		got := ""
		if _, err := Check(c); err != nil {
			got = "error: " + err.Error()
		} else {
			got = showCall(c)
		}
		if text, isError := strings.CutPrefix(k.want, "error: "); isError && strings.HasPrefix(got, "error: ") && strings.Contains(got, text) {
			continue
		}
		if got != k.want && (k.want != "" || strings.HasPrefix(got, "error: ")) {
			t.Errorf("%s: %s-%d\n got  %s\n want %s", k.doc, k.op, c.Version, got, k.want)
		}
	}
}

// showCall prints the types and values of the outputs, then what they may share:
// "float32[2,3]", "int64[2] = 2 <=3", "float32[6] view 0<0", "float32[6] over 0<0 0<1".
func showCall(c *Call) string {
	var parts []string
	for _, o := range c.Out {
		s := o.Type.String()
		if o.Value != nil {
			s += " = " + showValue(o.Elem, o.Value)
		}
		parts = append(parts, s)
	}
	s := strings.Join(parts, ", ")
	pairs := func(what string, list []graph.Alias) {
		if len(list) > 0 {
			s += " " + what
		}
		for _, a := range list {
			s += fmt.Sprintf(" %d<%d", a.Out, a.In)
		}
	}
	pairs("view", c.Node.Semantics.Views)
	pairs("over", c.Node.Semantics.Inplace)
	return s
}

// showValue prints the elements: 3, <=3 for a bounded one, ? for a hidden one.
func showValue(elem graph.DType, v *Value) string {
	var parts []string
	for _, e := range v.Elems {
		parts = append(parts, e.text(elem))
	}
	return strings.Join(parts, " ")
}

// Arguments of calls.

// arg returns an input of known rank.
func arg(elem graph.DType, shape ...graph.Dim) Arg {
	return Arg{Present: true, Type: graph.TensorOf(elem, shape...)}
}

// argUnranked returns an input of unknown rank.
func argUnranked(elem graph.DType) Arg {
	return Arg{Present: true, Type: graph.Type{Kind: graph.KindTensor, Elem: elem}}
}

// argInts returns a known vector of int64.
func argInts(v ...int64) Arg {
	a := arg(graph.Int64, graph.Dim(len(v)))
	a.Value = NewInts(v...)
	return a
}

// argInt returns a known scalar of int64.
func argInt(v int64) Arg {
	a := arg(graph.Int64)
	a.Value = &Value{Shape: []int64{}, Elems: []Scalar{{I: v}}}
	return a
}

// argFloat returns a known scalar of a floating-point type.
func argFloat(elem graph.DType, v float64) Arg {
	a := arg(elem)
	a.Value = &Value{Shape: []int64{}, Elems: []Scalar{{F: v}}}
	return a
}

// argDims returns a vector of int64 as Shape makes it: exact lengths are known elements,
// bounded ones bounded, unknown ones hidden.
func argDims(dims ...graph.Dim) Arg {
	a := arg(graph.Int64, graph.Dim(len(dims)))
	a.Value = &Value{Shape: []int64{int64(len(dims))}}
	for _, d := range dims {
		a.Value.Elems = append(a.Value.Elems, FromDim(d))
	}
	return a
}

// argBool returns a known scalar of bool.
func argBool(b bool) Arg {
	a := arg(graph.Bool)
	a.Value = &Value{Shape: []int64{}, Elems: []Scalar{{}}}
	if b {
		a.Value.Elems[0].I = 1
	}
	return a
}

// Attributes of calls.

func attrInt(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

func attrInts(name string, v ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
}

func attrFloat(name string, v float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloat, Float: v}
}

func attrString(name, v string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrString, String: v}
}

// TestHostileAttributes calls every operator with attributes of wrong types and absurd
// values. The operator may refuse them, but must return.
func TestHostileAttributes(t *testing.T) {
	names := []string{
		"axis", "axes", "k", "to", "dtype", "shape", "perm", "pads", "strides", "dilations", "kernel_shape",
		"output_shape", "output_padding", "split", "num_outputs", "block_size", "blocksize", "group", "value", "value_ints",
		"start", "end", "starts", "ends", "scales", "sample_size", "num_heads", "hidden_size", "batch_axis", "time_axis", "equation",
		"auto_pad", "mode", "direction", "largest", "keepdims", "repeats", "kv_num_heads", "q_num_heads", "output_height",
	}
	shapes := [][]graph.Dim{{}, {0}, {3}, {2, graph.Unknown}, {2, 3, graph.AtMost(4)}, {1, 4, 8, 8}, {math.MaxInt64, math.MaxInt64, 2, 2, 2}}
	for k := range table {
		for _, shape := range shapes {
			for _, v := range []int64{math.MinInt64, -1, 0, 1, 2, math.MaxInt64} {
				for inputs := range 6 {
					var in []Arg
					for i := range inputs {
						a := arg(graph.Float32, shape...)
						if i > 0 && v > 0 {
							a = argInts(v, -v, v-1, v)
						}
						in = append(in, a)
					}
					var attrs []*graph.Attr
					for i, name := range names {
						a := attrInts(name, v, v, v, v)
						if (i+inputs)%2 == 0 {
							a = attrInt(name, v)
						}
						attrs = append(attrs, a)
					}
					op := k.name
					if k.domain != "" {
						op = k.domain + "." + op
					}
					for _, version := range []int64{1, newest} {
						for _, a := range [][]*graph.Attr{nil, attrs} {
							_, _ = callOp(op, version, in, (inputs+int(v&1))%3, a...)
						}
					}
				}
			}
		}
	}
}
