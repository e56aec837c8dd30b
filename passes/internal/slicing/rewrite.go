package slicing

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/ops"
)

// Prop is the metadata key of a node that belongs to a slice. Its value is the index of
// the region, that of the slice, a role and the name of a tensor T of the model before,
// separated by blanks.
const Prop = "onnxmem.slice"

// The metadata keys of what a node of a training step is for: its phase, and the node or the
// parameter to which it belongs. Copies, and what slices add for them, are for the same.
var purpose = []string{"onnxmem.phase", "onnxmem.of"}

// setPurpose says that a node is for what another is for.
func setPurpose(n, of *graph.Node) {
	for _, key := range purpose {
		if text, has := of.Prop(key); has {
			n.SetProp(key, text)
		}
	}
}

// keepProps gives a copy of a node those metadata that hold for the copy, too: all from others,
// and the mark of its group, which may be whole in a slice.
func keepProps(n, of *graph.Node) {
	for _, e := range of.Props {
		if !strings.HasPrefix(e.Key, "onnxmem.") || e.Key == marks.Key {
			n.Props = append(n.Props, e)
		}
	}
}

// The roles of nodes in slices.
const (
	roleNode  = "node"  // a copy of the node whose first output is T
	roleRows  = "rows"  // takes rows of T
	roleBase  = "base"  // makes room for T
	roleShape = "shape" // makes the lengths of T, of those of the first rows
	rolePut   = "put"   // writes rows of T
	roleSum   = "sum"   // adds to T what the slice made of it
	roleMean  = "mean"  // divides the sum T by its number of elements
)

// Rewritten is a model in which regions run in slices.
type Rewritten struct {
	*graph.Model
	Weights []Weight // initializers with rows of one of the model before
	Rows    []Part   // tensors of slices with rows of one of the model before, makers before readers
}

// Rewrite returns a copy of the model in which the regions run in slices, one region
// after the other. The windows must be disjoint. Types are not inferred yet. The regions
// are numbered from first on, in the order of their windows.
//
// A copy of node N in slice i is called N/s<i> and makes T/s<i>. The rows that it takes
// of a tensor T are T/rows<i>, and T with the rows of slices 0 to i in it is T/put<i>.
// Outputs keep their tensors, so nothing outside of the regions changes.
func (p *Program) Rewrite(list []*Choice, first int) (*Rewritten, error) {
	m := *p.Model
	m.Graph = p.g.Clone()
	w := &writer{p: p, g: m.Graph, tensors: map[string]bool{}, labels: map[string]bool{}, ints: map[string]graph.TensorID{}, cut: map[graph.TensorID]bool{}, lows: map[graph.DType]graph.TensorID{}, zeros: map[string]graph.TensorID{}}
	note(m.Graph, w.tensors, w.labels)
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *Choice) int { return a.Start - b.Start })
	next := 0
	for i, c := range list {
		w.nodes = append(w.nodes, m.Graph.Nodes[next:c.Start]...)
		w.whole(c, before)
		if err := w.region(first+i, c); err != nil {
			return nil, err
		}
		w.whole(c, behind)
		next = c.End + 1
	}
	m.Graph.Nodes = append(w.nodes, m.Graph.Nodes[next:]...)
	made, read := make([]bool, len(m.Graph.Tensors)), make([]bool, len(m.Graph.Tensors))
	for _, n := range m.Graph.Nodes {
		n.Reads(func(t graph.TensorID) { read[t] = true })
		for _, t := range n.Outputs {
			if t >= 0 {
				made[t] = true
			}
		}
	}
	m.Graph.DropTensors(func(t graph.TensorID) bool {
		was := m.Graph.Tensors[t].Maker >= 0 // a node made it before
		added := int(t) >= len(p.g.Tensors) && m.Graph.Tensors[t].Data == nil
		return (was || added) && !made[t] || w.cut[t] && !read[t]
	})
	m.Graph.Link()
	if w.puts {
		if err := m.AddPutRows(); err != nil {
			return nil, err
		}
	}
	return &Rewritten{&m, w.list, w.rows}, nil
}

// note collects the names of the tensors and nodes of a graph and of its bodies.
func note(g *graph.Graph, tensors, labels map[string]bool) {
	for _, t := range g.Tensors {
		tensors[t.Name] = true
	}
	for _, n := range g.Nodes {
		labels[n.Name] = true
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				note(b, tensors, labels)
			}
		}
	}
}

// writer adds the nodes of slices to a graph.
type writer struct {
	p               *Program
	g               *graph.Graph
	tensors, labels map[string]bool // names that are taken
	ints            map[string]graph.TensorID
	nodes           []*graph.Node
	puts            bool
	lows            map[graph.DType]graph.TensorID // the lowest number of a type
	zeros           map[string]graph.TensorID      // initializers of one zero
	cut             map[graph.TensorID]bool        // initializers of which there are rows now
	list            []Weight
	rows            []Part
}

// whole adds the nodes of a window that run whole, before or behind the slices.
func (w *writer) whole(c *Choice, when class) {
	for v := c.Start; v <= c.End; v++ {
		if c.at(v) == when {
			w.nodes = append(w.nodes, w.g.Nodes[v])
		}
	}
}

// unique returns a name like that which is not among the names, and adds it.
func unique(name string, names map[string]bool) string {
	out := name
	for k := 2; names[out]; k++ {
		out = fmt.Sprintf("%s.%d", name, k)
	}
	names[out] = true
	return out
}

func (w *writer) tensor(name string) graph.TensorID { return w.g.NewTensor(unique(name, w.tensors)) }

func (w *writer) label(name string) string { return unique(name, w.labels) }

// vector returns an initializer with these elements.
func (w *writer) vector(v ...int64) graph.TensorID {
	words := make([]string, len(v))
	raw := []byte{}
	for i, x := range v {
		words[i] = fmt.Sprint(x)
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	key := strings.Join(words, "x")
	if t, known := w.ints[key]; known {
		return t
	}
	t := w.tensor("onnxmem.int64." + key)
	w.g.Tensors[t].Data = &graph.Data{Name: w.g.Tensors[t].Name, Type: graph.Int64, Dims: []int64{int64(len(v))}, Raw: raw, Bytes: int64(len(raw))}
	w.ints[key] = t
	return t
}

// number returns an initializer of rank 0.
func (w *writer) number(d graph.DType, v float64) (graph.TensorID, error) {
	var raw []byte
	switch d {
	case graph.Float32:
		raw = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))
	case graph.Float64:
		raw = binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	default:
		return graph.None, fmt.Errorf("a mean of %v: expected float32 or float64", d)
	}
	t := w.tensor(fmt.Sprintf("onnxmem.%v.%v", d, v))
	w.g.Tensors[t].Data = &graph.Data{Name: w.g.Tensors[t].Name, Type: d, Raw: raw, Dims: []int64{}, Bytes: int64(len(raw))}
	return t, nil
}

// region writes the slices of a region.
type regionWriter struct {
	*writer
	c     *Choice
	index int
	slice int
	old   *graph.Node                       // of the model before: it is copied, or made what is put
	now   map[graph.TensorID]graph.TensorID // of an output or sum: what has been put together so far
	rows  map[graph.TensorID]graph.TensorID // of a tensor that the region makes: its rows in this slice
	taken map[taken]graph.TensorID
	from  map[graph.TensorID]graph.TensorID // of an input over which an output is written: that output
	early map[taken]graph.TensorID          // rows of such inputs that this slice took before the slice before it wrote its own
	after []written                         // what that slice made of outputs that are written late

	weights map[taken]graph.TensorID // rows of initializers
	running map[int]*running         // of the attentions in pieces, by the Softmax
}

// taken is a range of rows of a tensor of this graph.
type taken struct {
	t graph.TensorID
	Range
}

func (w *writer) region(index int, c *Choice) error {
	r := &regionWriter{writer: w, c: c, index: index, now: map[graph.TensorID]graph.TensorID{}, from: map[graph.TensorID]graph.TensorID{}, weights: map[taken]graph.TensorID{}, running: map[int]*running{}}
	for o, x := range c.streams {
		r.now[o], r.from[x] = x, o
	}
	for i := range c.Slices {
		s := c.Slice(i, c.Slices)
		if s == nil {
			return fmt.Errorf("internal error: region of %d nodes has no slice %d of %d", len(c.Nodes), i, c.Slices)
		}
		r.slice, r.rows, r.taken = i, map[graph.TensorID]graph.TensorID{}, map[taken]graph.TensorID{}
		r.takeEarly(s)
		for x, v := range c.Nodes {
			if err := r.copy(v, s, s.Node[x]); err != nil {
				return err
			}
		}
		for _, t := range c.Outputs {
			if want, rows := s.Made(t); rows {
				made := written{t, want, s.Share[t], r.rows[t], i}
				if x, streamed := c.streams[t]; streamed && c.late[x] {
					r.after = append(r.after, made)
				} else {
					r.write(made)
				}
			}
		}
		c.p.free(s)
	}
	r.writeLate()
	return nil
}

// written is what a slice made of an output.
type written struct {
	output      graph.TensorID
	have, share Range
	rows        graph.TensorID // of the rows that it has
	slice       int
}

// write puts rows of an output in their places.
func (r *regionWriter) write(m written) {
	now := r.slice
	r.slice, r.rows[m.output], r.old = m.slice, m.rows, r.p.g.Nodes[r.p.g.Tensors[m.output].Maker]
	r.put(m.output, m.have, m.share)
	r.slice = now
}

// writeLate writes what the slice before made of outputs that are written late.
func (r *regionWriter) writeLate() {
	for _, m := range r.after {
		r.write(m)
	}
	r.after = nil
}

// takeEarly takes the rows of inputs over which outputs are written late, before the slice before
// this one writes.
func (r *regionWriter) takeEarly(s *Slice) {
	r.early = map[taken]graph.TensorID{}
	for x, v := range r.c.Nodes {
		r.old = r.p.g.Nodes[v]
		for j, t := range r.old.Inputs {
			if want := s.Node[x].In[j]; t >= 0 && r.c.late[t] && want.Lo < want.Hi {
				r.early[taken{t, want}] = r.input(t, want, s)
			}
		}
	}
	r.writeLate()
}

// add adds a node of the present slice, with its role for tensor t.
func (r *regionWriter) add(n *graph.Node, role string, t graph.TensorID) {
	n.SetProp(Prop, fmt.Sprintf("%d %d %s %s", r.index, r.slice, role, r.p.g.Tensors[t].Name))
	setPurpose(n, r.old)
	r.nodes = append(r.nodes, n)
}

// name returns the name of what this slice makes of tensor t.
func (r *regionWriter) name(t graph.TensorID, what string) string {
	return fmt.Sprintf("%s/%s%d", r.g.Tensors[t].Name, what, r.slice)
}

// take returns rows of a tensor that holds the rows from have.Lo on.
func (r *regionWriter) take(of, from graph.TensorID, have, want Range) graph.TensorID {
	key := taken{from, want}
	if t, known := r.taken[key]; known {
		return t
	}
	t := r.tensor(r.name(of, "rows"))
	n := graph.SliceRows(r.p.Model.Opset(""), from, want.Lo-have.Lo, want.Hi-have.Lo, int64(want.Axis), r.vector)
	n.Name, n.Outputs = r.label(r.g.Tensors[t].Name), []graph.TensorID{t}
	r.add(n, roleRows, of)
	r.taken[key] = t
	r.writer.rows = append(r.writer.rows, Part{Tensor: r.g.Tensors[t].Name, Of: r.g.Tensors[of].Name, Range: want})
	return t
}

// input returns what the copy reads in the place of input t, of which it wants those
// rows.
func (r *regionWriter) input(t graph.TensorID, want Range, s *Slice) graph.TensorID {
	if r.c.Makes(t) {
		have, _ := s.Made(t)
		if want.Lo == have.Lo && want.Hi == have.Hi {
			return r.rows[t]
		}
		return r.take(t, r.rows[t], have, want)
	}
	if want.Axis == ops.Whole {
		return t
	}
	if rows, known := r.early[taken{t, want}]; known {
		return rows
	}
	from := t
	if o, streamed := r.from[t]; streamed {
		from = r.now[o]
	}
	if want.Lo == 0 && want.Hi == int64(r.p.g.Tensors[t].Type.Shape[want.Axis]) {
		return from
	}
	if r.c.cutInFile(t) {
		return r.weight(t, want)
	}
	return r.take(t, from, Range{}, want)
}

// copy adds the copy of a node in a slice.
func (r *regionWriter) copy(v int, s *Slice, ns NodeSlice) error {
	old := r.p.g.Nodes[v]
	r.old = old
	n := *old
	n.Span, n.Props, n.Semantics = graph.Span{}, nil, graph.Semantics{}
	keepProps(&n, old)
	if n.Name != "" {
		n.Name = r.label(fmt.Sprintf("%s/s%d", n.Name, r.slice))
	}
	n.Inputs, n.Outputs = nil, slices.Clone(old.Outputs)
	in := r.c.rowsOf(v)
	for j, t := range old.Inputs {
		switch {
		case t < 0:
			n.Inputs = append(n.Inputs, t)
		case ns.In[j].Axis != ops.Whole && ns.In[j].Lo == ns.In[j].Hi && in[j].Empty:
			// left out
		default:
			n.Inputs = append(n.Inputs, r.input(t, ns.In[j], s))
		}
	}
	sum := r.c.sum[v]
	change := (func(lo, hi int64) ops.Change)(nil)
	if sum != nil {
		change = sum.Change
	} else {
		change = r.c.cut(v).Change
	}
	if change != nil {
		r.change(&n, change(ns.Lo, ns.Hi))
	}
	for k, t := range old.Outputs {
		if t >= 0 {
			n.Outputs[k] = r.tensor(r.name(t, "s"))
			r.rows[t] = n.Outputs[k]
			if made, rows := s.Made(t); rows && sum == nil {
				r.writer.rows = append(r.writer.rows, Part{r.g.Tensors[n.Outputs[k]].Name, r.g.Tensors[t].Name, made, r.c.cut(v).Modulo != nil})
			}
		}
	}
	for _, a := range r.c.pieced {
		switch v {
		case a.softmax:
			return r.weigh(&n, a)
		case a.product:
			r.weighed(&n, a)
			return nil
		}
	}
	if sum == nil {
		r.add(&n, roleNode, firstOf(old.Outputs))
		return nil
	}
	return r.sum(&n, old.Outputs[0], sum)
}

// firstOf returns the first tensor of a list that is there.
func firstOf(list []graph.TensorID) graph.TensorID {
	for _, t := range list {
		if t >= 0 {
			return t
		}
	}
	return graph.None
}

// change makes a copy of a node what a dimension map asks for.
func (r *regionWriter) change(n *graph.Node, c ops.Change) {
	if c.Op != "" {
		n.Op = c.Op
	}
	gone := map[string]bool{}
	for _, name := range c.Drop {
		gone[name] = true
	}
	for _, a := range c.Attrs {
		gone[a.Name] = true
	}
	var attrs []*graph.Attr
	for _, a := range n.Attrs {
		if !gone[a.Name] {
			attrs = append(attrs, a)
		}
	}
	n.Attrs = append(attrs, c.Attrs...)
	for j := range maxKey(c.Inputs) + 1 {
		if j >= len(n.Inputs) {
			n.Inputs = append(n.Inputs, graph.None)
		}
		if v, changed := c.Inputs[j]; changed {
			n.Inputs[j] = r.vector(v...)
		}
	}
}

func maxKey(m map[int][]int64) int {
	most := -1
	for k := range m {
		most = max(most, k)
	}
	return most
}

// sum adds a copy whose result is added to those of the slices before it.
func (r *regionWriter) sum(n *graph.Node, t graph.TensorID, sum *ops.Sum) error {
	so, last := n.Outputs[0], r.slice == r.c.Slices-1
	acc, started := r.now[t]
	product := adds(n, sum)
	end := t
	if sum.Mean || !last {
		end = graph.None
	}
	switch {
	case !started:
		r.add(n, roleNode, t)
		r.now[t] = so
		return nil
	case product:
		n.Inputs = append(n.Inputs, acc)
		if end != graph.None {
			n.Outputs[0] = end
		}
		r.add(n, roleNode, t)
		so = n.Outputs[0]
	default:
		r.add(n, roleNode, t)
		part := so
		if so = end; so == graph.None {
			so = r.tensor(r.name(t, "sum"))
		}
		r.add(&graph.Node{Name: r.label(r.name(t, "sum")), Op: sum.By, Inputs: []graph.TensorID{acc, part}, Outputs: []graph.TensorID{so}}, roleSum, t)
	}
	r.now[t] = so
	if last && sum.Mean {
		length, err := r.number(r.p.g.Tensors[t].Type.Elem, float64(sum.Count))
		if err != nil {
			return err
		}
		r.add(&graph.Node{Name: r.label(r.name(t, "mean")), Op: "Div", Inputs: []graph.TensorID{so, length}, Outputs: []graph.TensorID{t}}, roleMean, t)
	}
	return nil
}

// adds reports whether a copy of a sum can add to what the slices before it made, as its third
// input.
func adds(n *graph.Node, sum *ops.Sum) bool {
	return sum.Third && len(n.Inputs) == 2 && n.Attr("beta") == nil
}

// put writes the share of this slice into an output, of whose rows it has made more,
// perhaps.
func (r *regionWriter) put(t graph.TensorID, have, share Range) {
	part := r.rows[t]
	if share != have {
		part = r.take(t, part, have, share)
	}
	base, started := r.now[t]
	if !started {
		base = r.room(t, part, share)
	}
	out := t
	if r.slice < r.c.Slices-1 {
		out = r.tensor(r.name(t, "put"))
	}
	r.add(&graph.Node{
		Name: r.label(r.name(t, "put")), Op: graph.PutRows, Domain: graph.SwapDomain, Outputs: []graph.TensorID{out},
		Inputs: []graph.TensorID{base, part, r.vector(share.Lo), r.vector(int64(have.Axis))},
		Attrs:  graph.PutRowsAttrs(r.p.Model.Opset(""), int64(have.Axis), share.Lo, share.Hi),
	}, rolePut, t)
	r.now[t], r.puts = out, true
}

// lengths returns the lengths of an output, of which part has rows of an axis. Where some differ
// elsewhere, nodes compute them.
func (r *regionWriter) lengths(t, part graph.TensorID, share Range) graph.TensorID {
	shape := r.p.g.Tensors[t].Type.Shape
	list := make([]int64, len(shape))
	if !r.p.isOpen(t) {
		for i, d := range shape {
			list[i] = int64(d)
		}
		return r.vector(list...)
	}
	list[share.Axis] = int64(shape[share.Axis]) - (share.Hi - share.Lo) // rows that the part lacks
	have, all := r.tensor(r.name(t, "part")), r.tensor(r.name(t, "shape"))
	for _, n := range []*graph.Node{
		{Op: "Shape", Inputs: []graph.TensorID{part}, Outputs: []graph.TensorID{have}},
		{Op: "Add", Inputs: []graph.TensorID{have, r.vector(list...)}, Outputs: []graph.TensorID{all}},
	} {
		n.Name = r.label(r.g.Tensors[n.Outputs[0]].Name)
		r.add(n, roleShape, t)
	}
	return all
}

// room adds a node that makes room for an output, of which part has the first rows.
func (r *regionWriter) room(t, part graph.TensorID, share Range) graph.TensorID {
	x := r.p.g.Tensors[t]
	base, bytes := r.tensor(r.name(t, "base")), x.Type.Elem.Bits()/8
	zero := &graph.Data{Type: x.Type.Elem, Dims: []int64{1}, Raw: make([]byte, bytes), Bytes: bytes}
	n := &graph.Node{Name: r.label(r.g.Tensors[base].Name), Outputs: []graph.TensorID{base}}
	if graph.HasConstantOfShape(r.p.Model.Opset("")) {
		n.Op, n.Inputs = "ConstantOfShape", []graph.TensorID{r.lengths(t, part, share)}
		n.Attrs = []*graph.Attr{{Name: "value", Type: graph.AttrTensor, Tensor: zero}}
	} else {
		zero.Dims = slices.Repeat([]int64{1}, len(x.Type.Shape))
		n.Op, n.Inputs = "Tile", []graph.TensorID{r.zero(zero), r.lengths(t, part, share)}
	}
	r.add(n, roleBase, t)
	return base
}

// zero returns an initializer with these elements.
func (w *writer) zero(d *graph.Data) graph.TensorID {
	key := fmt.Sprint(d.Type, d.Dims)
	if t, known := w.zeros[key]; known {
		return t
	}
	t := w.tensor(fmt.Sprintf("onnxmem.%v.zero.%d", d.Type, len(d.Dims)))
	d.Name = w.g.Tensors[t].Name
	w.g.Tensors[t].Data = d
	w.zeros[key] = t
	return t
}
