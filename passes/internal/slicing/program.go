package slicing

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
)

// Storage is the memory of one tensor, or of several that are views of each other.
type Storage struct {
	Tensors     []graph.TensorID
	Bytes       int64 // rounded up to the alignment
	First, Last int   // the steps at which it is live
	Resident    bool  // it counts in no load
	Input       bool  // it holds a graph input
	Output      bool  // it holds a graph output
}

// Program is the main graph of a model whose types have been inferred. Its nodes stand
// in the order in which they run: a node is called by its step.
type Program struct {
	Model     *graph.Model
	Inference *ops.Inference
	Storages  []Storage
	Of        []int32 // the storage of each tensor; -1: it has none
	Workspace []int64 // of each node, in bytes
	Loads     []int64 // bytes that are live at each step: a result that overwrites an operand counts once
	// Keep are names of tensors that the model refers to by name: they stay.
	Keep  map[string]bool
	Align int64 // to which sizes are rounded up, in bytes
	Sums  bool  // a region may sum over the axis that is cut: results may differ in the last bits
	// Cost is the time in nanoseconds of a node that does this work.
	Cost func(cost.Work) float64
	// Factors are what the times of nodes, and of their copies in slices, are multiplied by;
	// nil: all are 1.
	Factors []float64
	// Rows returns a function that calls another with the elements of an initializer;
	// nil if they cannot be read. Without Rows, no initializer is cut.
	Rows func(*graph.Data) func(use func([]byte) error) error

	// Divided are initializers that hold rows of an axis of one of the model before. They
	// are cut along no other axis.
	Divided map[graph.TensorID]int
	// Lists are initializers that the model before does not have: no inputs of regions.
	Lists map[graph.TensorID]bool

	// Owners says of each node which slice of the model before it belongs to, if the program
	// runs in slices already; -1: it may belong to no region. A region has nodes of one owner.
	// nil: all nodes have the same.
	Owners []int32

	// Elsewhere is the model for other lengths of its open dimensions, for which the rewritten
	// graph must be the same: no region cuts an axis of such a length. nil: there are none.
	Elsewhere []Elsewhere
	// States: copies state all lengths of their shapes.
	States bool

	g        *graph.Graph
	saved    []int64   // at each step, what results save that overwrite an operand
	begin    [][]int32 // the storages that are live from each step on, but for those that are resident
	end      [][]int32 // and up to each step
	cuts     map[cutKey]*ops.Cut
	measures map[measureKey]*measure
	same     map[streamKey]over      // how outputs may be written over inputs
	reads    map[graph.TensorID]bool // whether initializers can be read, where that is known
	joined   map[graph.TensorID]joint

	attentions map[int]*attention // by the Softmax, where it is known

	needs  []need  // of each tensor, for one call at a time: all are unknown between calls
	places []int32 // of each tensor, for one call at a time: its number in the region
	spare  []*Slice
	room   room
	times  []float64 // of each node: its time when it runs whole, in nanoseconds; below 0: not asked for yet
}

type cutKey struct{ node, axis int }

// Prepare computes what the methods of p need. It must be called once, before them.
func (p *Program) Prepare() {
	p.g = p.Model.Graph
	p.cuts, p.measures = map[cutKey]*ops.Cut{}, map[measureKey]*measure{}
	p.same = map[streamKey]over{}
	p.reads, p.attentions = map[graph.TensorID]bool{}, map[int]*attention{}
	p.joined = joints(p.g)
	change := make([]int64, max(len(p.g.Nodes), 1)+1) // a graph without nodes holds its inputs at one step
	p.begin, p.end = make([][]int32, len(change)), make([][]int32, len(change))
	for i := range p.Storages {
		if st := &p.Storages[i]; !st.Resident {
			change[st.First] += st.Bytes
			change[st.Last+1] -= st.Bytes
			p.begin[st.First], p.end[st.Last] = append(p.begin[st.First], int32(i)), append(p.end[st.Last], int32(i))
		}
	}
	p.saved = make([]int64, len(p.g.Nodes))
	live := int64(0)
	for v := range p.saved {
		live += change[v]
		p.saved[v] = live + p.Workspace[v] - p.Loads[v]
	}
}

// over returns the bytes that are live before a step and at it.
func (p *Program) over(step int) (bytes int64) {
	bytes = p.Loads[step] + p.saved[step] - p.Workspace[step]
	for _, i := range p.begin[step] {
		bytes -= p.Storages[i].Bytes
	}
	return bytes
}

// dies returns the bytes that are live before a step, and up to a later one.
func (p *Program) dies(step, last int) (bytes int64) {
	for _, i := range p.end[last] {
		if st := &p.Storages[i]; st.First < step {
			bytes += st.Bytes
		}
	}
	return bytes
}

// Share lets p know what q has measured, and the other way round: slices of regions with the
// same nodes need and cost the same in both. Neither may cut initializers, or both must have
// the same.
func (p *Program) Share(q *Program) { p.measures, p.same = q.measures, q.same }

// Peak returns the largest load and its first step.
func (p *Program) Peak() (bytes int64, step int) {
	for i, load := range p.Loads {
		if load > bytes {
			bytes, step = load, i
		}
	}
	return bytes, step
}

// time returns the time of a node, or of a copy of it, that does this work.
func (p *Program) time(node int, w cost.Work) float64 {
	ns := p.Cost(w)
	if p.Factors != nil {
		ns *= p.Factors[node]
	}
	return ns
}

// cut returns the dimension map of a node along an axis of its first output.
func (p *Program) cut(node, axis int) *ops.Cut {
	key := cutKey{node, axis}
	c, known := p.cuts[key]
	if !known {
		n := p.g.Nodes[node]
		if p.mayRunInSlices(node) {
			if c = p.cutAnywhere(node, axis); c != nil && !p.alongParts(n, c.In) {
				c = nil
			}
		}
		p.cuts[key] = c
	}
	return c
}

// alongParts reports whether a map cuts parts of initializers along the axis along which
// they are parts.
func (p *Program) alongParts(n *graph.Node, in []ops.Rows) bool {
	for j, t := range n.Inputs {
		if axis, part := p.Divided[t]; part && in[j].Axis != ops.Whole && in[j].Axis != axis {
			return false
		}
	}
	return true
}

// mayRunInSlices reports whether a node may belong to a region: it has no bodies, and
// makes no parameter, state or constant.
func (p *Program) mayRunInSlices(node int) bool {
	n := p.g.Nodes[node]
	if len(n.Captures) > 0 || p.Workspace[node] > 0 {
		return false
	}
	for _, t := range n.Outputs {
		if t >= 0 && p.resident(t) {
			return false
		}
	}
	return true
}

// cutOutput returns the dimension map of a node along an axis of its output out, and
// the axis of its first output that belongs to it.
func (p *Program) cutOutput(node, out, axis int) (*ops.Cut, int) {
	if c := p.cut(node, axis); c != nil && c.Out[out] == axis {
		return c, axis
	}
	first := p.g.Nodes[node].Outputs[0]
	if out == 0 || first < 0 {
		return nil, 0
	}
	for a := range p.g.Tensors[first].Type.Shape {
		if c := p.cut(node, a); a != axis && c != nil && c.Out[out] == axis {
			return c, a
		}
	}
	return nil, 0
}

// shape returns the lengths of a tensor; nil if they are not all known.
func (p *Program) shape(t graph.TensorID) []graph.Dim {
	if typ := p.g.Tensors[t].Type; typ.Kind == graph.KindTensor && typ.Exact() {
		return typ.Shape
	}
	return nil
}

// rowBytes returns the bytes of n rows of a tensor along an axis, rounded up.
func (p *Program) rowBytes(t graph.TensorID, axis int, n int64) int64 {
	return p.round(p.exactBytes(t, axis, n))
}

// exactBytes returns the bytes of n rows of a tensor along an axis.
func (p *Program) exactBytes(t graph.TensorID, axis int, n int64) int64 {
	tensor := p.g.Tensors[t]
	length := int64(tensor.Type.Shape[axis])
	if n == length {
		return tensor.Bytes
	}
	return tensor.Bytes / length * n
}

func (p *Program) round(n int64) int64 { return (n + p.Align - 1) &^ (p.Align - 1) }

// resident reports whether a tensor lies outside of all loads.
func (p *Program) resident(t graph.TensorID) bool {
	i := p.Of[t]
	return i >= 0 && p.Storages[i].Resident
}

// whole returns the bytes of the storage of a tensor in the arena, 0 if it is resident
// or has none.
func (p *Program) whole(t graph.TensorID) int64 {
	if i := p.Of[t]; i >= 0 && !p.Storages[i].Resident {
		return p.Storages[i].Bytes
	}
	return 0
}

// view reports whether a node only makes views.
func (p *Program) view(n *graph.Node) bool { return len(n.Semantics.Views) > 0 }

// divides reports whether a sum of the type of tensor t can be divided by its length.
func (p *Program) divides(t graph.TensorID) bool {
	elem := p.g.Tensors[t].Type.Elem
	return elem == graph.Float32 || elem == graph.Float64
}
