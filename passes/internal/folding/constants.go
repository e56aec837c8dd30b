package folding

import (
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
)

// fixed is a tensor whose elements depend on constants alone.
type fixed struct {
	g     *graph.Graph
	t     *graph.Tensor
	id    graph.TensorID
	data  *graph.Data // nil: maker computes it
	maker *computed
	made  *graph.Node // the Constant node that holds data; nil: an initializer

	readers []*computed
	kept    bool // a node that is not computed reads it, or it is an output

	// prepared: a node reads it that a runtime may run otherwise if it is an
	// initializer (ops.Prepares).
	prepared bool
}

// computed is a node that reads only constants.
type computed struct {
	n       *graph.Node
	version int64
	in, out []*fixed // nil: left out
	shape   []int64  // of input 0 if it is no constant, but its shape is
	view    bool     // its outputs are views
	part    *Component
}

// Component is a set of nodes that are computed together or not at all.
type Component struct {
	m       *graph.Model
	nodes   []*computed // in topological order
	results []*fixed    // what remains of them: tensors that other nodes read
	values  [][]byte    // of the results, the small ones
	next    *Component  // into which it was merged; nil: it stands for itself
}

// linking is the least size of a constant that ties the nodes that read it together:
// it goes away only if all of them do. Smaller ones, such as axes, are often shared.
const linking = 4096

// Foldable finds the components of the model, or of a clone of it, whose types have
// been inferred, in the order of the file: all that fit into the budget together. Their
// results have been computed once, so that nothing can fail later.
func (f *Folder) Foldable(m *graph.Model) ([]*Component, error) {
	a := &folding{m: m}
	if err := a.graph(m.Graph, nil, f.fixedShapes()); err != nil {
		return nil, err
	}
	if f.budget == nil {
		// That of the file, which verify reads, too.
		files := constant.NewFiles(f.Given)
		b, err := files.Budget()
		if err = errors.Join(err, files.Close()); err != nil {
			return nil, err
		}
		b.Limit(f.Limit)
		f.budget = &b
	}
	left := *f.budget
	list := slices.DeleteFunc(a.components(), func(p *Component) bool { return !p.take(&left) })
	if f.Values != nil && len(f.Values) == len(list) {
		kept := list[:0]
		for i, c := range list {
			if c.values = f.Values[i]; c.values != nil {
				kept = append(kept, c)
			}
		}
		return kept, nil
	}
	kept := []*Component{}
	for _, c := range list {
		if err := c.compute(); err != nil {
			c.values = nil // it stays as it is
		} else {
			kept = append(kept, c)
		}
		f.Values = append(f.Values, c.values)
	}
	return kept, nil
}

// folding collects the constants of a model.
type folding struct {
	m     *graph.Model
	fixed []*fixed
	nodes []*computed
}

// graph collects the constants of one graph and of the bodies in it. outer holds those
// of the outer graph, by tensor. shapes may be nil.
func (a *folding) graph(g *graph.Graph, outer []*fixed, shapes *shapes) error {
	at := make([]*fixed, len(g.Tensors))
	for _, c := range g.Captures {
		at[c.Inner] = outer[c.Outer]
	}
	add := func(id graph.TensorID, f fixed) *fixed {
		f.g, f.id, f.t = g, id, g.Tensors[id]
		a.fixed = append(a.fixed, &f)
		at[id] = &f
		return &f
	}
	for id, t := range g.Tensors {
		// Before IR version 4 all initializers had to be inputs as well.
		if t.Data != nil && !t.Capture && t.Data.Sparse == nil && constant.Holds(t.Data.Type) && (!t.Overridable || a.m.IRVersion < 4) {
			add(graph.TensorID(id), fixed{data: t.Data})
		}
	}
	order, err := g.Topological()
	if err != nil {
		return err
	}
	for _, id := range order {
		n := g.Nodes[id]
		if ops.IsConstant(n) && len(n.Outputs) == 1 && n.Outputs[0] >= 0 {
			if d := constant.Of(n); d != nil && d.Sparse == nil && constant.Holds(d.Type) {
				add(n.Outputs[0], fixed{data: d, made: n})
			}
			continue
		}
		if c := a.computed(g, n, at, shapes); c != nil && (outer == nil || a.m.IRVersion >= 4) { // before, a body can have no initializers
			for k, t := range n.Outputs {
				if t >= 0 {
					c.out[k] = add(t, fixed{maker: c})
				}
			}
			a.nodes = append(a.nodes, c)
			continue
		}
		for _, t := range n.Inputs {
			if t >= 0 && at[t] != nil {
				at[t].kept = true
				at[t].prepared = at[t].prepared || ops.Prepares(n) && g.Tensors[t].Type.Elem.Floating()
			}
		}
		for k, inner := range bodiesOf(n) {
			if err := a.graph(inner, at, shapes.body(id, k)); err != nil {
				return err
			}
		}
	}
	for _, t := range g.Outputs {
		if at[t] != nil {
			at[t].kept = true
		}
	}
	return nil
}

// computed returns a node as one that reads only constants; nil if it is none, or if
// its results cannot be initializers.
func (a *folding) computed(g *graph.Graph, n *graph.Node, at []*fixed, shapes *shapes) *computed {
	if !n.Semantics.Known || n.Semantics.Call != nil || n.Semantics.Random || !constant.Known(n) || len(n.Inputs) == 0 ||
		!slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 }) {
		return nil
	}
	c := &computed{n: n, version: a.m.Opset(n.Domain), in: make([]*fixed, len(n.Inputs)), out: make([]*fixed, len(n.Outputs))}
	for i, t := range n.Inputs {
		if t < 0 {
			continue
		}
		if c.in[i] = at[t]; at[t] != nil {
			continue
		}
		if i > 0 || !constant.ReadsShape(n) {
			return nil
		}
		if c.shape = shapes.of(g, t); c.shape == nil {
			return nil
		}
	}
	for _, id := range n.Outputs {
		if id < 0 {
			continue
		}
		t := g.Tensors[id]
		if t.Output || t.Dynamic != "" || t.Bounded || t.Type.Kind != graph.KindTensor || !t.Type.Ranked || !constant.Holds(t.Type.Elem) ||
			slices.ContainsFunc(t.Type.Shape, func(d graph.Dim) bool { return !d.Exact() }) {
			return nil
		}
	}
	for _, f := range c.in {
		if f != nil {
			f.readers = append(f.readers, c)
		}
	}
	c.view = len(n.Semantics.Views) >= len(n.Outputs)
	return c
}

// components groups the nodes, and drops groups that save nothing: those without a
// result, and those of views alone.
func (a *folding) components() []*Component {
	for _, c := range a.nodes {
		c.part = &Component{m: a.m}
	}
	for _, f := range a.fixed {
		if f.maker == nil && f.t.Bytes < linking {
			continue
		}
		for i, c := range f.readers {
			if f.maker != nil {
				c.join(f.maker)
			} else if i > 0 {
				c.join(f.readers[0])
			}
		}
	}
	var list []*Component
	for _, c := range a.nodes {
		p := c.component()
		if len(p.nodes) == 0 {
			list = append(list, p)
		}
		p.nodes = append(p.nodes, c)
		for _, f := range c.out {
			if f != nil && f.kept {
				p.results = append(p.results, f)
			}
		}
	}
	return slices.DeleteFunc(list, func(p *Component) bool {
		return len(p.results) == 0 || !slices.ContainsFunc(p.nodes, func(c *computed) bool { return !c.view }) || p.explodes()
	})
}

// explodes reports whether the nodes make much more than the constants that they start
// from: a few bytes can ask for terabytes, also step by step.
func (p *Component) explodes() bool {
	made, read := int64(0), int64(0)
	for f := range p.constants() {
		read = units.Add(read, f.t.Bytes)
	}
	for _, c := range p.nodes {
		for _, f := range c.out {
			if f != nil {
				made = units.Add(made, f.t.Bytes)
			}
		}
	}
	return made > 64<<20 && made/8 > read
}

// constants are the constants that the nodes read, each once.
func (p *Component) constants() iter.Seq[*fixed] {
	return func(yield func(*fixed) bool) {
		seen := map[*fixed]bool{}
		for _, c := range p.nodes {
			for _, f := range c.in {
				if f == nil || f.maker != nil || seen[f] {
					continue
				}
				if seen[f] = true; !yield(f) {
					return
				}
			}
		}
	}
}

// take takes from the budget what it costs to compute the results, one after the other,
// as verify does, and as the file is written. It takes nothing if that exceeds the budget.
func (p *Component) take(budget *constant.Budget) bool {
	left := *budget
	kept := map[*fixed]bool{} // computed with an earlier result
	for _, f := range p.results {
		if f.t.Bytes > constant.Kept {
			clear(kept) // it is written by itself
		}
		if f.take(&left, kept, map[*fixed]bool{}) != nil {
			return false
		}
	}
	*budget = left
	return true
}

// take takes from the budget what it costs to compute a tensor. kept and done are
// computed already, done only for the present result.
func (f *fixed) take(budget *constant.Budget, kept, done map[*fixed]bool) error {
	c := f.maker
	if c == nil || kept[f] || done[f] {
		return nil
	}
	read, made := int64(0), int64(0)
	for _, x := range c.in {
		if x != nil {
			if err := x.take(budget, kept, done); err != nil {
				return err
			}
			read = units.Add(read, x.t.Bytes)
		}
	}
	for _, y := range c.out {
		if y != nil {
			made = units.Add(made, y.t.Bytes)
			done[y] = true
			if y.t.Bytes <= constant.Kept {
				kept[y] = true
			}
		}
	}
	return budget.Take(read, made)
}

// component is the component of a node.
func (c *computed) component() *Component {
	p := c.part
	for p.next != nil {
		p = p.next
	}
	c.part = p
	return p
}

// join merges the components of two nodes.
func (c *computed) join(with *computed) {
	if p, q := c.component(), with.component(); p != q {
		p.next = q
	}
}

// grows is the number of bytes by which the component enlarges the resident pool when
// it is computed: its results join it, and constants that only it reads leave it.
func (p *Component) grows(round func(int64) int64) (bytes int64) {
	for _, f := range p.results {
		bytes += round(f.t.Bytes)
	}
	for f := range p.constants() {
		if p.alone(f) {
			bytes -= round(f.t.Bytes)
		}
	}
	return bytes
}

// alone reports whether only the nodes of the component read a constant.
func (p *Component) alone(f *fixed) bool {
	return !f.kept && !slices.ContainsFunc(f.readers, func(c *computed) bool { return c.component() != p })
}

// relevant reports whether the component may pay although it enlarges the resident pool. Its
// tensors in the arena must be as large as that. The largest tensor of the graph, which the
// peak is no smaller than, must not dwarf them.
func (p *Component) relevant(round func(int64) int64) bool {
	arena, largest := int64(0), int64(0)
	for _, c := range p.nodes {
		for _, f := range c.out {
			if f != nil && !c.view {
				arena += round(f.t.Bytes)
			}
		}
	}
	for _, t := range p.m.Graph.Tensors {
		if t.Maker >= 0 && t.Dynamic == "" {
			largest = max(largest, t.Bytes)
		}
	}
	return arena >= p.grows(round) && arena >= largest/100
}

// compute computes the results, and keeps the values of small ones.
func (p *Component) compute() (err error) {
	defer mapped.Recover(&err, mapped.Watch())
	files := constant.NewFiles(p.m)
	defer func() {
		if e := files.Close(); err == nil {
			err = e
		}
	}()
	p.values = make([][]byte, len(p.results))
	done := map[*fixed]*constant.Tensor{}
	for i, f := range p.results {
		if f.t.Bytes > constant.Kept {
			if err := f.emit(files, done, io.Discard); err != nil {
				return err
			}
			continue
		}
		t, err := f.value(files, done)
		if err != nil {
			return err
		}
		if len(t.Raw) <= constant.Kept {
			p.values[i] = slices.Clone(t.Raw)
			if p.values[i] == nil {
				p.values[i] = []byte{}
			}
		}
	}
	return nil
}

// value computes a tensor and, before it, those that it needs.
func (f *fixed) value(files *constant.Files, done map[*fixed]*constant.Tensor) (*constant.Tensor, error) {
	if t := done[f]; t != nil {
		return t, nil
	}
	if f.maker == nil {
		t, err := files.Read(f.data)
		if err == nil {
			done[f] = t
		}
		return t, err
	}
	c := f.maker
	in, out, err := f.operands(files, done)
	if err != nil {
		return nil, err
	}
	if err := constant.Eval(c.n, c.version, in, out); err != nil {
		return nil, err
	}
	for k, y := range c.out {
		if y != nil {
			done[y] = out[k]
		}
	}
	return done[f], nil
}

// operands computes what the maker of a tensor reads, and returns that and the types of its
// results.
func (f *fixed) operands(files *constant.Files, done map[*fixed]*constant.Tensor) (in, out []*constant.Tensor, err error) {
	c := f.maker
	in, out = make([]*constant.Tensor, len(c.in)), make([]*constant.Tensor, len(c.out))
	if c.shape != nil {
		in[0] = &constant.Tensor{Shape: c.shape}
	}
	for i, x := range c.in {
		if x == nil {
			continue
		}
		if in[i], err = x.value(files, done); err != nil {
			return nil, nil, err
		}
	}
	for k, y := range c.out {
		if y != nil {
			out[k] = &constant.Tensor{Type: y.t.Type.Elem, Shape: lengths(y.t.Type)}
		}
	}
	return in, out, nil
}

// write writes the elements of a result that is too large to be kept.
func (f *fixed) write(m *graph.Model, w io.Writer) (err error) {
	files := constant.NewFiles(m)
	defer func() {
		if e := files.Close(); err == nil {
			err = e
		}
	}()
	return f.emit(files, map[*fixed]*constant.Tensor{}, w)
}

// emit writes the elements of a result, not all at once where that can be avoided.
func (f *fixed) emit(files *constant.Files, done map[*fixed]*constant.Tensor, w io.Writer) error {
	in, out, err := f.operands(files, done)
	if err != nil {
		return err
	}
	for k, y := range f.maker.out {
		if y != f || len(f.maker.out) > 1 {
			continue
		}
		if streamed, err := constant.Stream(f.maker.n, in, out[k], w); streamed || err != nil {
			return err
		}
	}
	t, err := f.value(files, done)
	if err == nil {
		_, err = w.Write(t.Raw)
	}
	return err
}

// apply makes initializers of the results of the component, whose nodes are to be
// swept. The elements are those of from, the same component of the model that was
// read. A result that a runtime might prepare becomes an Identity of an initializer: a
// view, which takes no memory, and which the runtime does not take for a constant.
func (p *Component) apply(from *Component, done *Result) {
	for i, f := range p.results {
		source := from.results[i]
		t, of := f.t, ""
		if f.prepared {
			of = t.Name
			id := f.g.NewTensor(done.fresh(t.Name + ".folded"))
			n := &graph.Node{Name: f.maker.n.Name, Op: "Identity", Inputs: []graph.TensorID{id}, Outputs: []graph.TensorID{f.id}}
			done.views[f.maker.n] = append(done.views[f.maker.n], n)
			t = f.g.Tensors[id]
			t.Type, t.Bytes = f.t.Type, f.t.Bytes
		}
		d := &graph.Data{Name: t.Name, Type: t.Type.Elem, Dims: lengths(t.Type), Bytes: t.Bytes, Raw: p.values[i]}
		if d.Raw == nil {
			d.Generate = func(w io.Writer) error { return source.write(from.m, w) }
		}
		t.Data, t.Declared = d, nil
		done.Tensors = append(done.Tensors, FoldedTensor{G: f.g, T: t, Of: of})
	}
}

// sweep removes the nodes of components that were applied, and the constants that only
// they read. It returns the number of nodes that are gone.
func sweep(g *graph.Graph, applied []*Component, views map[*graph.Node][]*graph.Node) int {
	w := &sweeper{nodes: map[*graph.Node]bool{}, tensors: map[*graph.Tensor]bool{}, views: views}
	in := map[*Component]bool{}
	for _, p := range applied {
		in[p] = true
	}
	for _, p := range applied {
		for _, c := range p.nodes {
			w.nodes[c.n] = true
			for _, f := range c.out {
				if f != nil && f.t.Data == nil && !(f.kept && f.prepared) {
					w.tensors[f.t] = true
				}
			}
			for _, f := range c.in {
				if f == nil || f.maker != nil || f.kept || slices.ContainsFunc(f.readers, func(c *computed) bool { return !in[c.component()] }) {
					continue
				}
				w.tensors[f.t] = true
				if f.made != nil {
					w.nodes[f.made] = true
				}
			}
		}
	}
	w.graph(g)
	return len(w.nodes)
}

// sweeper removes nodes and tensors from a graph and its bodies.
type sweeper struct {
	nodes   map[*graph.Node]bool
	tensors map[*graph.Tensor]bool
	views   map[*graph.Node][]*graph.Node // in the place of removed nodes
}

func (w *sweeper) graph(g *graph.Graph) {
	var nodes []*graph.Node
	for _, n := range g.Nodes {
		if w.nodes[n] {
			nodes = append(nodes, w.views[n]...)
		} else {
			nodes = append(nodes, n)
		}
	}
	g.Nodes = nodes
	read := make([]bool, len(g.Tensors))
	for _, n := range g.Nodes {
		bodies := n.Bodies()
		for _, a := range bodies {
			for _, b := range a.All() {
				w.graph(b)
			}
		}
		if len(bodies) > 0 {
			n.SetCaptures()
		}
		n.Reads(func(t graph.TensorID) { read[t] = true })
	}
	for _, t := range g.Outputs {
		read[t] = true
	}
	// A body no longer captures what only removed nodes read.
	g.Captures = slices.DeleteFunc(g.Captures, func(c graph.Capture) bool { return !read[c.Inner] })
	g.DropTensors(func(id graph.TensorID) bool {
		t := g.Tensors[id]
		return w.tensors[t] || t.Capture && !read[id]
	})
	g.Link()
}
