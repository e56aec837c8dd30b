package verify_test

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// text is a model in a few lines:
//
//	in x float32 batch 16       a graph input: type, lengths or symbols
//	weight w float32 16         an initializer
//	a, b = Split(x) axis=1      a node "make a"; attributes are integers
//	y = local::Twice(x)         a node of another domain
//	out y                       a graph output
//
// A name without a producer is captured. bodies are keyed by "OUTPUT.ATTRIBUTE" of their
// node, functions by their name in domain local, or by "DOMAIN::NAME".
type text struct {
	main      string
	bodies    map[string]string
	functions map[string]string
	props     map[string]string // metadata of the model
	opset     int64             // 0: 21
}

// build returns the file of a text, as onnx reads it.
func (x text) build(t testing.TB) *graph.Model {
	t.Helper()
	m := &graph.Model{
		IRVersion: 10, Producer: "test",
		Opsets: []graph.Opset{{Domain: "", Version: cmp.Or(x.opset, 21)}, {Domain: "local", Version: 1}},
	}
	if strings.Contains(x.main, "com.microsoft::") {
		m.Opsets = append(m.Opsets, graph.Opset{Domain: "com.microsoft", Version: 1})
	}
	m.Graph = x.graph(t, x.main)
	for _, name := range sorted(x.functions) {
		f := &graph.Function{Domain: "local", Name: name, Opsets: m.Opsets, Body: x.graph(t, x.functions[name])}
		if domain, name, given := strings.Cut(name, "::"); given {
			f.Domain, f.Name = domain, name
		}
		m.Functions = append(m.Functions, f)
	}
	for _, key := range sorted(x.props) {
		m.SetProp(key, x.props[key])
	}
	return parse(t, encode(t, m))
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		at := 0
		for at < len(keys) && keys[at] < k {
			at++
		}
		keys = append(keys[:at], append([]string{k}, keys[at:]...)...)
	}
	return keys
}

func encode(t testing.TB, m *graph.Model) []byte {
	t.Helper()
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, b []byte) *graph.Model {
	t.Helper()
	m, err := onnx.Parse("out.onnx", bytes.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// graph reads the lines of one graph.
func (x text) graph(t testing.TB, lines string) *graph.Graph {
	t.Helper()
	g := &graph.Graph{Name: "g"}
	names := map[string]graph.TensorID{}
	id := func(name string) graph.TensorID {
		if name == "" {
			return graph.None
		}
		if _, known := names[name]; !known {
			names[name] = g.NewTensor(name)
		}
		return names[name]
	}
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "in":
			in := id(words[1])
			g.Tensors[in].Input = true
			g.Tensors[in].Declared = declared(t, words[2:])
			g.Inputs = append(g.Inputs, in)
		case words[0] == "weight":
			g.Tensors[id(words[1])].Data = weight(t, words[1], declared(t, words[2:]).Type)
		case words[0] == "out":
			g.Tensors[id(words[1])].Output = true
			g.Outputs = append(g.Outputs, id(words[1]))
		default:
			x.node(t, g, line, id)
		}
	}
	g.Link()
	return g
}

func declared(t testing.TB, words []string) *graph.Declared {
	t.Helper()
	if len(words) == 0 {
		return nil // an input of a function
	}
	d := &graph.Declared{Type: graph.TensorOf(dtype(t, words[0]))}
	for _, w := range words[1:] {
		n, err := strconv.ParseInt(w, 10, 64)
		symbol := ""
		if err != nil {
			n, symbol = int64(graph.Unknown), w
		}
		d.Type.Shape = append(d.Type.Shape, graph.Dim(n))
		d.Symbols = append(d.Symbols, symbol)
	}
	return d
}

func dtype(t testing.TB, name string) graph.DType {
	t.Helper()
	for d := graph.DType(1); d.Valid(); d++ {
		if d.String() == name {
			return d
		}
	}
	t.Fatalf("no type %q", name)
	return graph.Undefined
}

func weight(t testing.TB, name string, typ graph.Type) *graph.Data {
	t.Helper()
	d := &graph.Data{Name: name, Type: typ.Elem}
	n := int64(1)
	for _, k := range typ.Shape {
		d.Dims = append(d.Dims, int64(k))
		n *= int64(k)
	}
	var err error
	if d.Bytes, err = typ.Elem.SizeBytes(n); err != nil {
		t.Fatal(err)
	}
	d.Raw = make([]byte, d.Bytes)
	return d
}

// node reads "a, b = domain::Op(x, y) axis=1 pads=1,1".
func (x text) node(t testing.TB, g *graph.Graph, line string, id func(string) graph.TensorID) {
	t.Helper()
	outs, call, ok := strings.Cut(line, "=")
	op, rest, ok2 := strings.Cut(call, "(")
	ins, attrs, ok3 := strings.Cut(rest, ")")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("not a node: %q", line)
	}
	n := &graph.Node{Op: strings.TrimSpace(op)}
	if domain, name, found := strings.Cut(n.Op, "::"); found {
		n.Domain, n.Op = domain, name
	}
	for _, name := range list(ins) {
		n.Inputs = append(n.Inputs, id(name))
	}
	for _, name := range list(outs) {
		n.Outputs = append(n.Outputs, id(name))
	}
	first := list(outs)[0]
	n.Name = "make " + first
	for _, a := range strings.Fields(attrs) {
		key, value, _ := strings.Cut(a, "=")
		var numbers []int64
		for _, word := range strings.Split(value, ",") {
			v, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				t.Fatalf("attribute %q: %v", a, err)
			}
			numbers = append(numbers, v)
		}
		if len(numbers) > 1 {
			n.Attrs = append(n.Attrs, &graph.Attr{Name: key, Type: graph.AttrInts, Ints: numbers})
		} else {
			n.Attrs = append(n.Attrs, &graph.Attr{Name: key, Type: graph.AttrInt, Int: numbers[0]})
		}
	}
	for _, key := range sorted(x.bodies) {
		if output, attr, _ := strings.Cut(key, "."); output == first {
			n.Attrs = append(n.Attrs, &graph.Attr{Name: attr, Type: graph.AttrGraph, Graph: x.graph(t, x.bodies[key])})
		}
	}
	g.Nodes = append(g.Nodes, n)
}

// list splits "a, b" at the commas; "" has no elements.
func list(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(s, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// models are small models, named after what they contain.
var models = map[string]text{
	"chain": {main: `
		in x float32 1 16
		in y float32 1 16
		weight w float32 1 16
		a = Relu(x)
		b = Add(a, y)
		v = Flatten(b)
		c = Mul(v, w)
		d = Add(a, c)
		out d
	`},
	"runtime": {main: `
		in x float32 4 16
		a = Softmax(x)
		b = Add(a, x)
		v = Identity(b)
		c = Relu(v)
		d = Hardmax(c)
		e = Flatten(d)
		y = Mul(e, e)
		z = Identity(y)
		out z
	`},
	"legs": {main: `
		in x float32 4 16
		a = Transpose(x)
		b = Sigmoid(x)
		c = Add(b, b)
		d = Relu(c)
		e = Add(a, a)
		s = Transpose(d)
		t = Relu(e)
		u = Transpose(t)
		out s
		out u
	`},
	"constants": {main: `
		in x float32 20
		weight w float32 5 4
		k = Constant() value_int=3
		f = Cast(k) to=1
		u = Flatten(w)
		v = Flatten(x)
		a = Add(v, f)
		z = Flatten(a) axis=0
		out z
		out u
	`},
	"symbols": {main: `
		in x float32 batch 16
		in y float32 other 16
		a = Relu(x)
		b = Relu(y)
		out a
		out b
	`},
	"dynamic": {main: `
		in k int64 1
		in x float32 16
		z = ConstantOfShape(k)
		i = NonZero(x)
		y = Relu(z)
		j = Relu(x)
		out y
		out i
		out j
	`},
	"branches": {
		main: `
			in p bool
			in x float32 16
			a = Relu(x)
			r = If(p)
			s = Add(r, a)
			out s
		`,
		bodies: map[string]string{
			"r.then_branch": `
				weight w float32 16
				t1 = Add(x, w)
				t2 = Relu(t1)
				out t2
			`,
			"r.else_branch": `
				in_else = If(p)
				e = Relu(in_else)
				out e
			`,
			"in_else.then_branch": `
				k = Constant() value_int=3
				f = Cast(k) to=1
				h = Add(x, f)
				out h
			`,
			"in_else.else_branch": "out a",
		},
	},
	"loop": {
		main: `
			in m int64
			in p bool
			in x float32 16
			y = Loop(m, p, x)
			z = Relu(y)
			out z
		`,
		bodies: map[string]string{"y.body": `
			in i int64
			in going bool
			in v float32 16
			again = Identity(going)
			q = Relu(v)
			n = Add(q, x)
			out again
			out n
		`},
	},
	"functions": {
		main: `
			in x float32 16
			a = local::Outer(x)
			b = Relu(a)
			out b
		`,
		functions: map[string]string{
			"Outer": `
				in u
				q = local::Inner(u)
				r = Add(q, u)
				out r
			`,
			"Inner": `
				in u
				k = Constant() value_int=3
				f = Cast(k) to=1
				s = Mul(u, f)
				t = Add(s, u)
				out t
			`,
		},
	},
	"training": {
		main: `
			in x float32 16
			in w float32 16
			in learning_rate float32
			h = Mul(x, w)
			loss = ReduceSum(h) keepdims=0
			w.grad = Mul(x, h)
			step = Mul(w.grad, learning_rate)
			w.new = Sub(w, step)
			out loss
			out w.new
		`,
		props: map[string]string{"onnxmem.mode": "training", "onnxmem.updates": "w=w.new", "onnxmem.trainable": `["w"]`, "onnxmem.gradients": `["w=w.grad"]`},
	},
	"no nodes": {main: `
		in x float32 16
		in y float32 8
		out x
	`},
	"nothing": {main: ""},
}

func init() {
	// Three training steps in a row.
	var b strings.Builder
	b.WriteString("in x float32 16\n")
	from := "x"
	for i := range 70 {
		fmt.Fprintf(&b, "t%d = Relu(%s)\n", i, from)
		from = fmt.Sprintf("t%d", i)
	}
	fmt.Fprintf(&b, "out %s\n", from)
	models["long"] = text{main: b.String()}
}
