package vm_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// graphText is a graph in its printed form, with bodies apart: they are found by the first
// output of their node and the attribute.
type graphText struct {
	main   string
	bodies map[string]string
}

func (x *graphText) graph(lines string) *graph.Graph {
	m, err := graph.Parse("test", x.whole(lines))
	if err != nil {
		panic(err)
	}
	return m.Graph
}

// whole puts the bodies into the lines of their nodes.
func (x *graphText) whole(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		b.WriteString(line)
		outs, _, _ := strings.Cut(line, " = ")
		first, _, _ := strings.Cut(outs, ",")
		for _, key := range slices.Sorted(maps.Keys(x.bodies)) {
			if of, name, _ := strings.Cut(key, "."); of == first {
				b.WriteString(" " + name + "=graph g {\n" + x.whole(x.bodies[key]) + "}")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// bodyCase is a graph with bodies that is planned and run.
type bodyCase struct {
	doc    string
	main   string
	bodies map[string]string
	values map[string]vm.Value
	want   string // a part of the error; "": it runs
	gives  []float64
	of     int // index of the output that gives describes
}

func runBodies(t *testing.T, cases []bodyCase) {
	t.Helper()
	for _, k := range cases {
		x := graphText{k.main, k.bodies}
		got, err := runGraph(x.graph(k.main), []graph.Opset{{Version: 21}}, k.values, k.of)
		switch {
		case k.want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", k.doc, err)
		case k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)):
			t.Errorf("%s: got error %v, want one with %q", k.doc, err, k.want)
		case k.want == "":
			if list, ok := got.Reals(); k.gives != nil && (!ok || !slices.Equal(list, k.gives)) {
				t.Errorf("%s: got %v, want %v", k.doc, list, k.gives)
			}
		}
	}
}

// without returns all values but one.
func without(values map[string]vm.Value, name string) map[string]vm.Value {
	rest := maps.Clone(values)
	delete(rest, name)
	return rest
}

// late adds a value whose shape is known only at run time: NAME is reshaped from
// NAME.flat and NAME.shape.
func late(values map[string]vm.Value, name string, v vm.Value) map[string]vm.Value {
	dims := make([]int64, len(v.Shape))
	n := 1
	for i, d := range v.Shape {
		dims[i] = int64(d)
		n *= d
	}
	flat := v
	flat.Shape = []int{n}
	all := map[string]vm.Value{name + ".flat": flat, name + ".shape": vm.Int64s(dims, len(dims))}
	maps.Copy(all, values)
	return all
}

// The inputs and outputs of a body are checked at run time: types, shapes that change
// from one iteration to the next, conditions without an element.
func TestBodiesAtTheEdge(t *testing.T) {
	three, no := vm.Int64s([]int64{3}), octets(graph.Bool, []int{1}, 0)
	lateX := `
		in x.flat float32[2]
		in x.shape int64[1]
		x = Reshape(x.flat, x.shape)
	`
	x := shaped([]int{2}, 1, 2)
	keeps := map[string]string{"y.body": `
		in i
		in c
		in v
		w = Neg(v)
		d = Identity(c)
		out d
		out v
		out w
	`}
	lateC := `
		in c.all bool[1]
		in c.kept bool[1]
		c = Compress(c.all, c.kept)
	`
	noC := map[string]vm.Value{"x": x, "m": three, "c.all": no, "c.kept": no}
	branches := map[string]string{"y.then_branch": "a = Neg(x)\nout a", "y.else_branch": "b = Abs(x)\nout b"}
	runBodies(t, []bodyCase{
		{
			doc: "a value that the body hands on is not free", main: `
				in m int64[]
				in n int64[]
				init zero int64[] = 0
				one = Sign(m)
				x = Range(zero, n, one)
				y, rows = Loop(m, _, x)
				out y
				out rows
			`, bodies: keeps, values: map[string]vm.Value{"m": three, "n": three}, gives: []float64{0, -1, -2, 0, -1, -2, 0, -1, -2}, of: 1,
		},
		{
			doc: "what an inner loop captures differs from run to run", gives: []float64{1, 4, 4, 16}, of: 1, main: `
				in m int64[]
				in k int64[]
				in x float32[1,2]
				in w0 float32[2,2]
				y, rows = Loop(m, _, w0)
				out y
				out rows
			`, bodies: map[string]string{
				"y.body": `
					in i
					in c
					in w
					v = Loop(k, _, x)
					d = Identity(c)
					twice = Add(w, w)
					out d
					out twice
					out v
				`,
				"v.body": `
					in j
					in e
					in u
					p = MatMul(u, w)
					f = Identity(e)
					out f
					out p
				`,
			}, values: map[string]vm.Value{"m": vm.Int64s([]int64{2}), "k": vm.Int64s([]int64{2}), "x": shaped([]int{1, 2}, 1, 2), "w0": shaped([]int{2, 2}, 1, 1, 0, 1)},
		},
		{
			doc: "a condition of no element", want: `tensor "c" turns out to be bool[0], expected one bool`, main: lateC + `
				in x float32[2]
				y = If(c)
				out y
			`, bodies: branches, values: without(noC, "m"),
		},
		{
			doc: "a condition of one axis", gives: []float64{-1, -2}, main: `
				in c bool[1]
				in x float32[2]
				y = If(c)
				out y
			`, bodies: branches, values: map[string]vm.Value{"x": x, "c": octets(graph.Bool, []int{1}, 2)},
		},
		{
			doc: "a loop's condition of no element", want: `tensor "c" turns out to be bool[0], expected one bool`, main: lateC + `
				in x float32[2]
				in m int64[]
				y, rows = Loop(m, c, x)
				out y
			`, bodies: keeps, values: noC,
		},
		{
			doc: "a number of iterations without an element", want: `tensor "m" turns out to be int64[0], expected one int64`, main: `
				in m.all int64[1]
				in m.kept bool[1]
				m = Compress(m.all, m.kept)
				in x float32[2]
				y, rows = Loop(m, _, x)
				out y
			`, bodies: keeps, values: map[string]vm.Value{"x": x, "m.all": vm.Int64s([]int64{3}, 1), "m.kept": no},
		},
		{
			doc: "the next condition is of two elements", want: `tensor "d" turns out to be bool[2], expected one bool`, main: `
				in x float32[2]
				in m int64[]
				y = Loop(m, _, x)
				out y
			`, bodies: map[string]string{"y.body": `
				in i
				in c
				in v
				d = Equal(v, v)
				w = Neg(v)
				out d
				out w
			`}, values: map[string]vm.Value{"x": x, "m": three},
		},
		{
			doc: "the next condition is a number", want: `tensor "d" turns out to be int64[], expected one bool`, main: `
				in x float32[2]
				in m int64[]
				y = Loop(m, _, x)
				out y
			`, bodies: map[string]string{"y.body": `
				in i
				in c
				in v
				d = Identity(i)
				w = Neg(v)
				out d
				out w
			`}, values: map[string]vm.Value{"x": x, "m": three},
		},
		{
			doc: "a value that grows", gives: []float64{1, 2, 1, 2, 1, 2, 1, 2}, main: `
				in x float32[2]
				in m int64[]
				y = Loop(m, _, x)
				out y
			`, bodies: map[string]string{"y.body": `
				in i
				in c
				in v
				d = Identity(c)
				w = Concat(v, v) axis=0
				out d
				out w
			`}, values: map[string]vm.Value{"x": x, "m": vm.Int64s([]int64{2})},
		},
		{
			doc: "rows that grow", want: `in iteration 1, expected float32[2] as before`, main: `
				in x float32[2]
				in m int64[]
				y, rows = Loop(m, _, x)
				out y
				out rows
			`, bodies: map[string]string{"y.body": `
				in i
				in c
				in v
				d = Identity(c)
				w = Concat(v, v) axis=0
				r = Neg(v)
				out d
				out w
				out r
			`}, values: map[string]vm.Value{"x": x, "m": three},
		},
		{
			doc: "an input that is an initializer, too", want: `body has 2 inputs, expected 3`, main: `
				in x float32[2]
				in m int64[]
				y = Loop(m, _, x)
				out y
			`, bodies: map[string]string{"y.body": `
				in i
				in c
				init v float32[2] = 0 input
				d = Identity(c)
				w = Neg(v)
				out d
				out w
			`}, values: map[string]vm.Value{"x": x, "m": three},
		},
		{
			doc: "no iteration", gives: []float64{1, 2}, main: lateX + `
				in m int64[]
				y, rows = Loop(m, _, x)
				out y
				out rows
			`, bodies: keeps, values: late(map[string]vm.Value{"m": vm.Int64s([]int64{-1})}, "x", x),
		},
		{
			doc: "a scan of the last axis", gives: []float64{-1, -3, -2, -4}, main: `
				in x.flat float32[4]
				in x.shape int64[2]
				x = Reshape(x.flat, x.shape)
				y = Scan(x) num_scan_inputs=1 scan_input_axes=[-1]
				out y
			`, bodies: map[string]string{"y.body": "in v\nw = Neg(v)\nout w"}, values: late(nil, "x", shaped([]int{2, 2}, 1, 2, 3, 4)),
		},
		{
			doc: "an axis that the input does not have", want: `scan_input_axes is 1, expected one of [-1, 1)`, main: `
				in x.flat float32[4]
				in x.shape int64[?]
				x = Reshape(x.flat, x.shape)
				y = Scan(x) num_scan_inputs=1 scan_input_axes=[1]
				out y
			`, bodies: map[string]string{"y.body": "in v\nw = Neg(v)\nout w"}, values: late(nil, "x", shaped([]int{4}, 1, 2, 3, 4)),
		},
		{
			doc: "two inputs of other lengths", want: `scanned inputs have lengths 1 and 2, expected one`, main: `
				in x.all float32[2]
				in x.kept bool[2]
				x = Compress(x.all, x.kept)
				in z float32[2]
				y = Scan(x, z) num_scan_inputs=2
				out y
			`, bodies: map[string]string{"y.body": "in v\nin u\nw = Add(v, u)\nout w"}, values: map[string]vm.Value{"z": x, "x.all": x, "x.kept": octets(graph.Bool, []int{2}, 1, 0)},
		},
		{
			doc: "nothing to scan, laid along the last axis", gives: []float64{}, main: `
				in x float32[0,3]
				y = Scan(x) num_scan_inputs=1 scan_output_axes=[-1]
				out y
			`, bodies: map[string]string{"y.body": "in v\nw = Neg(v)\nout w"}, values: map[string]vm.Value{"x": zeros(graph.Float32, 0, 3)},
		},
		{
			doc: "a state that grows", want: "turns out to have shape [2] in iteration 1, expected a slice of [2 1] as before", main: `
				in x float32[2]
				in s.all float32[2]
				in s.kept bool[2]
				s = Compress(s.all, s.kept)
				t, y = Scan(s, x) num_scan_inputs=1
				out t
				out y
			`, bodies: map[string]string{"t.body": `
				in s
				in v
				n = Concat(s, s) axis=0
				w = Identity(s)
				out n
				out w
			`}, values: map[string]vm.Value{"x": x, "s.all": x, "s.kept": octets(graph.Bool, []int{2}, 1, 0)},
		},
	})
}
