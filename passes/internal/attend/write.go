package attend

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// writer adds the nodes that stand for groups.
type writer struct {
	f     *finder
	names map[string]bool
	dead  map[*graph.Node]bool // whose results nobody reads in the given graph
	made  map[string]graph.TensorID
}

func newWriter(f *finder) *writer {
	w := &writer{f: f, names: map[string]bool{}, dead: map[*graph.Node]bool{}, made: map[string]graph.TensorID{}}
	w.take(f.g)
	for _, n := range w.unused() {
		w.dead[n] = true
	}
	return w
}

// take notes the names that are in use, in bodies too.
func (w *writer) take(g *graph.Graph) {
	for _, t := range g.Tensors {
		w.names[t.Name] = true
	}
	for _, n := range g.Nodes {
		w.names[n.Name] = true
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				w.take(b)
			}
		}
	}
}

func (w *writer) name(t graph.TensorID) string { return w.f.g.Tensors[t].Name }

func (w *writer) unique(name string) string {
	try := name
	for i := 2; w.names[try]; i++ {
		try = fmt.Sprintf("%s_%d", name, i)
	}
	w.names[try] = true
	return try
}

// tensor adds a tensor of a type.
func (w *writer) tensor(name string, elem graph.DType, shape []int64) graph.TensorID {
	t := w.f.g.NewTensor(w.unique(name))
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		dims[i] = graph.Dim(n)
	}
	w.f.g.Tensors[t].Type = graph.TensorOf(elem, dims...)
	w.f.maker, w.f.readers = append(w.f.maker, nil), append(w.f.readers, nil)
	return t
}

// node adds a node with one result, which is made once for equal inputs and attributes.
func (w *writer) node(op, name string, elem graph.DType, shape []int64, attrs []*graph.Attr, in ...graph.TensorID) graph.TensorID {
	key := fmt.Sprint(op, in)
	for _, a := range attrs {
		key += fmt.Sprint(a.Name, a.Int, a.Ints)
	}
	if t, is := w.made[key]; is {
		return t
	}
	t := w.tensor(name, elem, shape)
	n := &graph.Node{Name: w.unique(w.name(t)), Op: op, Inputs: in, Outputs: []graph.TensorID{t}, Attrs: attrs}
	w.f.g.Nodes = append(w.f.g.Nodes, n)
	w.f.maker[t] = n
	w.made[key] = t
	return t
}

// constant adds an initializer.
func (w *writer) constant(name string, elem graph.DType, shape []int64, raw []byte) graph.TensorID {
	key := fmt.Sprint("constant ", elem, shape, raw)
	if t, is := w.made[key]; is {
		return t
	}
	t := w.tensor(name, elem, shape)
	w.f.g.Tensors[t].Data = &graph.Data{Name: w.name(t), Type: elem, Dims: shape, Raw: raw, Bytes: int64(len(raw))}
	w.made[key] = t
	return t
}

// ints is a list of int64.
func (w *writer) ints(v []int64) graph.TensorID {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return w.constant("attention.shape", graph.Int64, []int64{int64(len(v))}, raw)
}

// seen is a mask that is true for keys that are seen.
func (w *writer) seen(keep graph.TensorID, negated bool) graph.TensorID {
	if negated {
		return w.node("Not", w.name(keep)+".seen", graph.Bool, w.f.shape(keep), nil, keep)
	}
	return keep
}

// sum adds two masks.
func (w *writer) sum(t, u graph.TensorID) graph.TensorID {
	if a, b := w.f.elem(t), w.f.elem(u); a != b {
		attrs := []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(a)}}
		u = w.node("Cast", w.name(u)+".mask", a, w.f.shape(u), attrs, u)
	}
	return w.node("Add", w.name(u)+".mask", w.f.elem(t), joint(w.f.shape(t), w.f.shape(u)), nil, t, u)
}

// like is a tensor of one element in the type of another.
func (w *writer) like(t, other graph.TensorID) graph.TensorID {
	elem := w.f.elem(other)
	if w.f.elem(t) == elem {
		return t
	}
	attrs := []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(elem)}}
	return w.node("Cast", w.name(t)+".scale", elem, w.f.shape(t), attrs, t)
}

// lowest is the least number of a type, and zero.
var lowest = map[graph.DType][2][]byte{
	graph.Float32:  {{0xff, 0xff, 0x7f, 0xff}, {0, 0, 0, 0}},
	graph.BFloat16: {{0x7f, 0xff}, {0, 0}},
	graph.Float16:  {{0x00, 0xfc}, {0, 0}}, // -Inf: only what replaces scores by that is taken
}

// chosen is the mask t, or 0, where a key is seen, and elsewhere the least number.
func (w *writer) chosen(a *attention, m mask, t graph.TensorID) graph.TensorID {
	elem := w.f.elem(a.q)
	shape := w.f.shape(m.keep)
	if t != none {
		elem = w.f.elem(t)
		shape = joint(shape, w.f.shape(t))
	}
	low := w.constant("attention.hidden", elem, nil, lowest[elem][0])
	if math.IsInf(m.fill, -1) {
		low = w.constant("attention.hidden", elem, nil, infinite[elem])
	}
	if t == none {
		t = w.constant("attention.seen", elem, nil, lowest[elem][1])
	}
	if m.negated {
		t, low = low, t
	}
	return w.node("Where", w.name(m.keep)+".mask", elem, shape, nil, m.keep, t, low)
}

// infinite is -Inf by type.
var infinite = map[graph.DType][]byte{graph.Float32: {0, 0, 0x80, 0xff}, graph.BFloat16: {0x80, 0xff}, graph.Float16: {0, 0xfc}}

// joint is the shape to which two broadcast.
func joint(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	s := slices.Clone(a)
	for i := range b {
		at := len(s) - len(b) + i
		s[at] = max(s[at], b[i])
	}
	return s
}

// write adds the node that stands for a group.
func (w *writer) write(a *attention) {
	f := w.f
	q, byQueries := f.unscaled(a.q)
	k, byKeys := f.unscaled(a.k)
	qs, ks, vs := f.shape(q), f.shape(k), f.shape(a.v)
	whole := func(have []int64, length, size int64) []int64 { // [batch, heads, length, size]
		heads := a.lead[1]
		if len(have) == 4 {
			heads = have[1]
		}
		return []int64{a.lead[0], heads, length, size}
	}
	q = w.shaped(q, whole(qs, qs[len(qs)-2], qs[len(qs)-1]))
	for _, x := range a.factors {
		q = w.node(x.op, w.name(q)+".scaled", f.elem(q), f.shape(q), nil, q, w.like(x.by, q))
	}
	k = w.turned(k, whole(ks, ks[len(ks)-1], ks[len(ks)-2]))
	v := w.shaped(a.v, whole(vs, vs[len(vs)-2], vs[len(vs)-1]))
	if sharedK, s := f.unrepeated(k); sharedK != k {
		if sharedV, r := f.unrepeated(v); sharedV != v && r[1] == s[1] {
			k, v = w.shaped(sharedK, s), w.shaped(sharedV, r)
		}
	}
	in := []graph.TensorID{q, k, v}
	if m := w.mask(a); m != none {
		in = append(in, m)
	}
	attrs := []*graph.Attr{{Name: "scale", Type: graph.AttrFloat, Float: float32(a.scale * byQueries * byKeys)}}
	if a.wide {
		attrs = append(attrs, &graph.Attr{Name: "softmax_precision", Type: graph.AttrInt, Int: int64(graph.Float32)})
	}
	y := a.last.Outputs[0]
	at := slices.Index(f.g.Nodes, a.last)
	n := &graph.Node{Name: a.last.Name, Op: "Attention", Inputs: in, Outputs: []graph.TensorID{y}, Attrs: attrs}
	f.g.Nodes[at] = n
	f.maker[y] = n
	if s := f.shape(y); len(s) != 4 {
		n.Outputs = []graph.TensorID{w.tensor(w.name(y)+".attention", f.elem(y), []int64{a.lead[0], a.lead[1], s[len(s)-2], s[len(s)-1]})}
		back := &graph.Node{Name: w.unique(w.name(y) + ".attention.reshape"), Op: "Reshape", Inputs: []graph.TensorID{n.Outputs[0], w.ints(s)}, Outputs: []graph.TensorID{y}}
		f.g.Nodes = append(f.g.Nodes, back)
		f.maker[n.Outputs[0]], f.maker[y] = n, back
	}
}

// finish removes nodes whose results nobody reads any more, and orders the others.
func (w *writer) finish() error {
	g := w.f.g
	gone, removed := map[*graph.Node]bool{}, map[graph.TensorID]bool{}
	for _, n := range w.unused() {
		if gone[n] = !w.dead[n]; gone[n] {
			for _, t := range n.Outputs {
				if t >= 0 {
					removed[t] = true
				}
			}
		}
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return gone[n] })
	g.DropTensors(func(t graph.TensorID) bool { return removed[t] })
	g.Span = graph.Span{}
	g.Link()
	order, err := g.Topological()
	if err != nil {
		return err
	}
	g.Reorder(order)
	return nil
}

// unused returns the nodes none of whose results is read or is an output, again and again until there
// are no more.
func (w *writer) unused() (list []*graph.Node) {
	g := w.f.g
	read := make([]int, len(g.Tensors))
	maker := make([]*graph.Node, len(g.Tensors))
	for _, t := range g.Outputs {
		read[t]++
	}
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				maker[t] = n
			}
		}
		n.Reads(func(t graph.TensorID) { read[t]++ })
	}
	open := slices.Clone(g.Nodes)
	gone := map[*graph.Node]bool{}
	for len(open) > 0 {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if gone[n] || slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 && read[t] > 0 }) {
			continue
		}
		gone[n] = true
		list = append(list, n)
		n.Reads(func(t graph.TensorID) {
			if read[t]--; read[t] == 0 && maker[t] != nil {
				open = append(open, maker[t])
			}
		})
	}
	return list
}
