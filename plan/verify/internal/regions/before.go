package regions

import (
	"bytes"
	"slices"
	"sync"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
	"github.com/onnxmem/onnxmem/plan/verify/internal/same"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// before is the graph of the source as it was before regions of it were sliced: folded
// constants are initializers, and lengths have the values of the plan's dims.
type before struct {
	m       *graph.Model // a copy of the source
	g       *graph.Graph
	values  []*ops.Value // known elements of its tensors
	names   map[string]graph.TensorID
	nodes   []*rowmap.Node                  // once they are needed; nil: no account of the node
	read    []bool                          // by node: whether nodes has it
	inner   bool                            // constants in bodies were folded: bodies differ
	stated  map[graph.TensorID][]int64      // the elements of lists that parts of nodes state
	weights map[graph.TensorID][]weightPart // of an initializer: its parts
	lacks   bool                            // products were replaced: their nodes are not in this graph
	slices  map[graph.TensorID]rowRange     // of tensors of slices in which regions run: the rows that they have
	made    map[string]graph.TensorID       // these, by name
	ofSlice map[*graph.Node]*graph.Node     // of their nodes: the source's
}

// beforeSlices returns the graph before the slices; nil if the source does not determine it.
// That is so if the source is not available or cannot be inferred, if the plan's graph is a
// step of training that was made of it, or a decoder whose caches got a capacity, or was put into
// 16 bits, or if functions of it were inlined.
func (v *prover) beforeSlices() *before {
	source := v.Source
	if source == nil {
		return nil
	}
	if mode, _ := source.Prop("onnxmem.mode"); v.Plan.Mode == "training" && mode != "training" {
		return nil
	}
	if was, err := plan.KVOf(source); v.Plan.KV != nil && (err != nil || was == nil) {
		return nil
	}
	if v.Plan.Precision != nil || v.Plan.Attention != nil {
		return nil
	}
	for _, f := range source.Functions {
		if function(v.Model, f) == nil {
			return nil
		}
	}
	m := *source
	m.Graph = source.Graph.Clone()
	b := &before{m: &m, g: m.Graph, names: make(map[string]graph.TensorID, len(m.Graph.Tensors))}
	for id, t := range b.g.Tensors {
		if _, twice := b.names[t.Name]; !twice && !t.Capture {
			b.names[t.Name] = graph.TensorID(id)
		}
	}
	if f := v.Plan.Folded; f != nil {
		b.lacks = len(f.Products) > 0
		b.fold(f, v.Tensors(v.Model.Graph))
	}
	dims := map[string]int64{}
	for name, d := range v.Plan.Dims {
		dims[name] = d.Value
	}
	inf, err := ops.Infer(b.m, ops.Options{Dims: dims, Values: v.Plan.Values, SpareDims: true})
	if err != nil {
		return nil
	}
	b.values = inf.Values
	b.stated, b.weights = map[graph.TensorID][]int64{}, map[graph.TensorID][]weightPart{}
	if !b.divide(v, v.Plan.Slices.Parts) || !b.within(v) {
		return nil
	}
	b.nodes, b.read = make([]*rowmap.Node, len(b.g.Nodes)), make([]bool, len(b.g.Nodes))
	return b
}

// product replaces a product by a transposed constant by one that reads the constant as it
// lies, as the plan has it. Its slices are compared with that one. y = MatMul(x, t) or
// Gemm(x, t, …) with t = Transpose(w) is y = Gemm(x, w, …) with the other transB; from the
// left, y = Gemm(w, x, …) with the other transA. The source alone says that both have the
// same elements. Products of more axes have nodes that the source does not have.
func (b *before) product(f plan.FoldedProduct) {
	y, known := b.names[f.Tensor]
	t, transposed := b.names[f.Transposed]
	if !known || !transposed || b.g.Tensors[y].Maker < 0 || b.g.Tensors[t].Maker < 0 {
		return
	}
	id := b.g.Tensors[y].Maker
	n, transpose := b.g.Nodes[id], b.g.Nodes[b.g.Tensors[t].Maker]
	perm := transpose.Attr("perm")
	if n.Domain != "" || n.Op != "MatMul" && n.Op != "Gemm" || len(n.Inputs) < 2 ||
		!ops.Permutes(transpose) || perm != nil && !slices.Equal(perm.Ints, []int64{1, 0}) {
		return
	}
	operand, flip := 1, "transB"
	if n.Inputs[1] != t {
		operand, flip = 0, "transA"
	}
	x := n.Inputs[1-operand]
	if n.Inputs[operand] != t || x < 0 || len(b.g.Tensors[t].Type.Shape) != 2 || len(b.g.Tensors[x].Type.Shape) != 2 {
		return
	}
	m, was := *n, int64(0)
	m.Op, m.Inputs, m.Attrs = "Gemm", slices.Clone(n.Inputs), nil
	m.Inputs[operand] = transpose.Inputs[0]
	for _, a := range n.Attrs {
		if a.Name == flip {
			was = a.Int
		} else {
			m.Attrs = append(m.Attrs, a)
		}
	}
	now := int64(1)
	if was != 0 {
		now = 0
	}
	m.Attrs = append(m.Attrs, &graph.Attr{Name: flip, Type: graph.AttrInt, Int: now})
	b.g.Nodes[id] = &m
	b.g.Link()
}

// fold makes initializers of the folded constants, with the elements that the planned
// file has: that these are right is checked elsewhere.
func (b *before) fold(f *plan.Folded, planned map[string]*graph.Tensor) {
	drop := func(t graph.TensorID) bool {
		id := b.g.Tensors[t].Maker
		if id < 0 {
			return false
		}
		b.g.Nodes[id].Outputs[b.g.Tensors[t].Out] = graph.None
		return true
	}
	for _, p := range f.Products {
		if p.Subgraph == nil {
			b.product(p)
		}
	}
	for _, entry := range f.Tensors {
		if entry.Subgraph != nil {
			b.inner = true
			continue
		}
		of := entry.Of
		if of == "" {
			of = entry.Tensor
		}
		t, known := b.names[of]
		have := planned[entry.Tensor]
		if !known || have == nil || have.Data == nil || !drop(t) {
			continue
		}
		if entry.Of == "" {
			b.g.Tensors[t].Data = have.Data
			continue
		}
		c := b.g.NewTensor(entry.Tensor)
		b.g.Tensors[c].Data = have.Data
		b.names[entry.Tensor] = c
		b.g.Nodes = append(b.g.Nodes, &graph.Node{Op: "Identity", Inputs: []graph.TensorID{c}, Outputs: []graph.TensorID{t}})
	}
	nodes := b.g.Nodes[:0:0]
	for _, n := range b.g.Nodes {
		if subject.FirstOutput(n) != none {
			nodes = append(nodes, n)
		}
	}
	b.g.Nodes = nodes
	b.g.Link()
}

// find returns the tensor with a name; none and nil if there is none.
func (b *before) find(name string) (graph.TensorID, *graph.Tensor) {
	id, known := b.names[name]
	if !known {
		return none, nil
	}
	return id, b.g.Tensors[id]
}

// node returns a node with its types; nil if these are not exact.
func (b *before) node(id graph.NodeID) *rowmap.Node {
	if !b.read[id] {
		b.read[id] = true
		b.nodes[id] = rowmap.Of(b.m, b.g.Nodes[id], b)
	}
	return b.nodes[id]
}

// shape returns the lengths of a tensor; nil if they are not exact.
func (b *before) shape(t graph.TensorID) []int64 { return exactShape(b.g.Tensors[t].Type) }

func exactShape(t graph.Type) []int64 {
	if t.Kind != graph.KindTensor || !t.Exact() {
		return nil
	}
	shape := make([]int64, len(t.Shape))
	for k, d := range t.Shape {
		shape[k] = int64(d)
	}
	return shape
}

// function returns the function of a model with the name of f; nil if there is none.
func function(m *graph.Model, f *graph.Function) *graph.Function {
	for _, x := range m.Functions {
		if x.Domain == f.Domain && x.Name == f.Name && x.Overload == f.Overload {
			return x
		}
	}
	return nil
}

// constants compares elements of the planned file with those of the source.
type constants struct {
	planned, source *constant.Files
	same            same.Node
	unread          bool      // some elements could not be compared
	compared        *sync.Map // what is known of pairs; nil: nothing
}

// pair is two initializers that are compared: with rows of the second.
type pair struct {
	planned, source *graph.Data
	axis            int // none: all of it
	lo, hi          int64
}

// once returns what is known of a pair, or finds it out.
func (c *constants) once(p pair, compare func() bool) bool {
	if c.compared == nil {
		return compare()
	}
	type answer struct{ same, unread bool }
	if a, known := c.compared.Load(p); known {
		c.unread = c.unread || a.(answer).unread
		return a.(answer).same
	}
	before := c.unread
	c.unread = false
	a := answer{same: compare()}
	a.unread = c.unread
	c.unread = c.unread || before
	c.compared.Store(p, a)
	return a.same
}

// equal reports whether two initializers have the same elements.
func (c *constants) equal(planned, source *graph.Data) bool {
	return c.once(pair{planned, source, none, 0, 0}, func() bool { return c.compareAll(planned, source) })
}

func (c *constants) compareAll(planned, source *graph.Data) bool {
	switch {
	case planned == source:
		return true
	case planned.Type != source.Type || !slices.Equal(planned.Dims, source.Dims):
		return false
	case planned.Raw != nil && source.Raw != nil:
		return bytes.Equal(planned.Raw, source.Raw)
	}
	a, err1 := c.planned.Read(planned)
	b, err2 := c.source.Read(source)
	if err1 == nil && err2 == nil {
		return bytes.Equal(a.Raw, b.Raw)
	}
	c.unread = c.unread || planned.External != nil || source.External != nil
	return c.same.Data(planned, source)
}

// rows reports whether an initializer has rows [lo, hi) of an axis of another one.
func (c *constants) rows(planned, source *graph.Data, axis int, lo, hi int64) bool {
	return c.once(pair{planned, source, axis, lo, hi}, func() bool { return c.compareRows(planned, source, axis, lo, hi) })
}

func (c *constants) compareRows(planned, source *graph.Data, axis int, lo, hi int64) bool {
	if planned.Type != source.Type || len(planned.Dims) != len(source.Dims) || axis < 0 || axis >= len(source.Dims) || lo < 0 || lo >= hi || hi > source.Dims[axis] {
		return false
	}
	outer, below := int64(1), int64(1)
	for k, d := range source.Dims {
		switch {
		case k == axis:
			d = hi - lo
		case k < axis:
			outer *= d
		default:
			below *= d
		}
		if planned.Dims[k] != d {
			return false
		}
	}
	a, err1 := c.planned.Read(planned)
	b, err2 := c.source.Read(source)
	if err1 != nil || err2 != nil {
		c.unread = true
		return planned.External != nil || planned.Generate != nil
	}
	size := source.Type.Bits() / 8
	block, from, whole := (hi-lo)*below*size, lo*below*size, source.Dims[axis]*below*size
	if int64(len(a.Raw)) != outer*block || int64(len(b.Raw)) != outer*whole {
		return false
	}
	for i := range outer {
		if !bytes.Equal(a.Raw[i*block:(i+1)*block], b.Raw[i*whole+from:i*whole+from+block]) {
			return false
		}
	}
	return true
}

// integerRows reports whether an initializer has rows [lo, hi) of an axis of a list of
// integers with a shape.
func (c *constants) integerRows(planned *graph.Data, list, shape []int64, axis int, lo, hi int64) bool {
	if len(planned.Dims) != len(shape) || axis < 0 || axis >= len(shape) || lo < 0 || lo >= hi || hi > shape[axis] {
		return false
	}
	want := slices.Clone(shape)
	want[axis] = hi - lo
	if !slices.Equal(planned.Dims, want) {
		return false
	}
	read, err := c.planned.Read(planned)
	if err != nil {
		c.unread = true
		return planned.External != nil || planned.Generate != nil
	}
	found, there := (&graph.Data{Type: planned.Type, Dims: planned.Dims, Raw: read.Raw}).Integers(int64(len(list)))
	if !there {
		return false
	}
	below := int64(1)
	for _, d := range shape[axis+1:] {
		below *= d
	}
	for block := range slices.Chunk(list, int(shape[axis]*below)) {
		rows := block[lo*below : hi*below]
		if !slices.Equal(found[:len(rows)], rows) {
			return false
		}
		found = found[len(rows):]
	}
	return true
}

// follows reports whether the elements of a tensor of integers that a node makes follow
// from the dims.
func (b *before) follows(t graph.TensorID) bool {
	if b.g.Tensors[t].Maker < 0 || int(t) >= len(b.values) {
		return false
	}
	list, known := b.values[t].Ints()
	elements := int64(1)
	for _, d := range b.shape(t) {
		elements *= d
	}
	return known && len(list) > 0 && b.shape(t) != nil && int64(len(list)) == elements
}
