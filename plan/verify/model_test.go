package verify_test

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// text is a model in its printed form (graph.Parse), with bodies and functions apart: bodies
// are keyed by "OUTPUT.ATTRIBUTE" of their node, functions by their name in domain local, or
// by "DOMAIN::NAME". The node that makes a is "make a"; elements that are left out are 0.
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
	opsets := fmt.Sprintf("opset %d\nopset local 1\n", cmp.Or(x.opset, 21))
	if strings.Contains(x.main, "com.microsoft::") {
		opsets += "opset com.microsoft 1\n"
	}
	var b strings.Builder
	b.WriteString("ir 10\nproducer \"test\"\n" + opsets)
	for _, key := range sorted(x.props) {
		fmt.Fprintf(&b, "meta %q %q\n", key, x.props[key])
	}
	b.WriteString("graph g\n" + x.whole(x.main))
	for _, name := range sorted(x.functions) {
		if !strings.Contains(name, "::") {
			name = "local::" + name
		}
		fmt.Fprintf(&b, "function %s {\n%s%s\n}\n", name, opsets, x.whole(x.functions[strings.TrimPrefix(name, "local::")]))
	}
	m, err := graph.Parse("test", b.String())
	if err != nil {
		t.Fatal(err)
	}
	finish(m.Graph)
	for _, f := range m.Functions {
		finish(f.Body)
	}
	return parse(t, encode(t, m))
}

// whole puts the bodies into the lines of their nodes.
func (x text) whole(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		b.WriteString(line)
		outs, _, _ := strings.Cut(line, " = ")
		first, _, _ := strings.Cut(outs, ",")
		for _, key := range sorted(x.bodies) {
			if output, attr, _ := strings.Cut(key, "."); output == first {
				b.WriteString(" " + attr + "=graph g {\n" + x.whole(x.bodies[key]) + "}")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// finish names the nodes and fills the elements that the text leaves out.
func finish(g *graph.Graph) {
	for _, t := range g.Tensors {
		if t.Data != nil && t.Data.Elided() {
			t.Data.Raw = make([]byte, t.Data.Bytes)
		}
	}
	for _, n := range g.Nodes {
		if n.Name = "make "; len(n.Outputs) > 0 && n.Outputs[0] >= 0 {
			n.Name += g.Tensors[n.Outputs[0]].Name
		}
		for _, a := range n.Bodies() {
			finish(a.Graph)
		}
	}
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

// models are small models, named after what they contain.
var models = map[string]text{
	"chain": {main: `
		in x float32[1,16]
		in y float32[1,16]
		init w float32[1,16] = ...
		a = Relu(x)
		b = Add(a, y)
		v = Flatten(b)
		c = Mul(v, w)
		d = Add(a, c)
		out d
	`},
	"runtime": {main: `
		in x float32[4,16]
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
		in x float32[4,16]
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
		in x float32[20]
		init w float32[5,4] = ...
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
		in x float32[batch,16]
		in y float32[other,16]
		a = Relu(x)
		b = Relu(y)
		out a
		out b
	`},
	"dynamic": {main: `
		in k int64[1]
		in x float32[16]
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
			in p bool[]
			in x float32[16]
			a = Relu(x)
			r = If(p)
			s = Add(r, a)
			out s
		`,
		bodies: map[string]string{
			"r.then_branch": `
				init w float32[16] = ...
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
			in m int64[]
			in p bool[]
			in x float32[16]
			y = Loop(m, p, x)
			z = Relu(y)
			out z
		`,
		bodies: map[string]string{"y.body": `
			in i int64[]
			in going bool[]
			in v float32[16]
			again = Identity(going)
			q = Relu(v)
			n = Add(q, x)
			out again
			out n
		`},
	},
	"functions": {
		main: `
			in x float32[16]
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
			in x float32[16]
			in w float32[16]
			in learning_rate float32[]
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
		in x float32[16]
		in y float32[8]
		out x
	`},
	"nothing": {main: ""},
}

func init() {
	// Three training steps in a row.
	var b strings.Builder
	b.WriteString("in x float32[16]\n")
	from := "x"
	for i := range 70 {
		fmt.Fprintf(&b, "t%d = Relu(%s)\n", i, from)
		from = fmt.Sprintf("t%d", i)
	}
	fmt.Fprintf(&b, "out %s\n", from)
	models["long"] = text{main: b.String()}
}
