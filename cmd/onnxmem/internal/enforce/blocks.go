package enforce

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// Block is memory that ONNX Runtime allocates once: for a tensor, its views, and the
// results that it writes over them by itself.
type Block struct {
	Tensor string // the first, for messages
	Bytes  int64  // as they are asked for
	First  int    // which node allocates it, of those that run
	Last   int    // the node after which it is freed, or the number of nodes; not of an output
	Output bool   // a graph output: the caller frees it
	Offset int64  // in the arena; none if the plan has no one place for its tensors
	Over   int    // the block over which the plan writes it, which dies there; none
}

// List is what ONNX Runtime allocates for the tensors of a model.
type List struct {
	Blocks  []Block // in the order of the nodes
	Random  bool    // a node draws random numbers
	Dynamic bool    // there are tensors without a known size, which are no blocks
}

// none is the index of no block and the offset of no place.
const none = -1

// InPlace says which registered in-place results ONNX Runtime makes by itself. It knows
// shapes by its own inference alone, and writes a result over an operand only if it knows
// that they have one shape.
type InPlace int

// The rules, in the order in which they are to be tried.
const (
	Declared  InPlace = iota // both have a declared shape (value_info): it is the same, and has no unknown length
	Completed                // the same, or one has no declared shape, and the lengths of the plan permit it
	Inferred                 // all that the lengths of the plan permit
	Never                    // none
)

// Rules lists them.
var Rules = []InPlace{Declared, Completed, Inferred, Never}

// Blocks returns what ONNX Runtime allocates for the tensors of a planned model in a run.
// It fails if the plan was not made for ONNX Runtime. It sets the types and the semantics of m, as verify.Plan
// does.
//
// ONNX Runtime writes a result over an operand where its kernel is registered so and the
// node is the last reader, whatever the plan says (its FindReusableInput), if it knows
// enough: own says when. Other pairs of the plan need the allocator: their results are
// blocks with Over.
func Blocks(m *graph.Model, p *plan.Plan, own InPlace) (*List, error) {
	arena, registered := ops.LookupRuntime(p.Sharing.Runtime), ops.LookupRuntime(ops.ONNXRuntime)
	switch {
	case arena == nil:
		return nil, fmt.Errorf("the plan shares as onnxmem's own runtime does: expected one of optimize --runtime %s", ops.ONNXRuntimeArena)
	case p.Ranges != nil:
		return nil, errors.New("the plan is for ranges of dimensions: expected one length of each")
	}
	dims := map[string]int64{}
	for name, d := range p.Dims {
		if !d.Assumed {
			dims[name] = d.Value
		}
	}
	if _, err := ops.Infer(m, ops.Options{Dims: dims, Values: p.Values}); err != nil {
		return nil, err
	}
	ops.Restrict(m, registered)
	a := allocating{g: p.InRunOrder(m).Graph, own: own, placed: map[string]int{}, p: p}
	if p.Traversal == nil {
		a.order = byPriority(a.g)
	} else {
		for n := range a.g.Nodes {
			a.order = append(a.order, graph.NodeID(n))
		}
	}
	for i, b := range p.Buffers {
		for _, t := range b.Tensors {
			a.placed[t] = i
		}
	}
	a.run()
	a.place()
	return &List{a.list, draws(m.Graph), a.dynamic}, nil
}

// byPriority returns the order in which ONNX Runtime runs the nodes of a file with the
// execution order PRIORITY_BASED. It is that of the file, but Shape and Size run as soon as
// they can (PriorityNodeCompare in its core/graph/graph.cc).
func byPriority(g *graph.Graph) (order []graph.NodeID) {
	ran := make([]bool, len(g.Nodes))
	var run func(n graph.NodeID)
	run = func(n graph.NodeID) {
		ran[n] = true
		order = append(order, n)
		for _, t := range g.Nodes[n].Outputs {
			if t < 0 {
				continue
			}
			for _, reader := range g.Tensors[t].Readers {
				if !ran[reader] && ops.OfShape(g.Nodes[reader]) {
					run(reader)
				}
			}
		}
	}
	for id, n := range g.Nodes {
		if m := maker(g, n); ops.OfShape(n) && (m == nil || ops.IsConstant(m)) {
			run(graph.NodeID(id))
		}
	}
	for id := range g.Nodes {
		if !ran[id] {
			run(graph.NodeID(id))
		}
	}
	return order
}

// maker returns the node that makes the first input of a node, or nil.
func maker(g *graph.Graph, n *graph.Node) *graph.Node {
	if len(n.Inputs) == 0 || n.Inputs[0] < 0 || g.Tensors[n.Inputs[0]].Maker < 0 {
		return nil
	}
	return g.Nodes[g.Tensors[n.Inputs[0]].Maker]
}

// allocating follows the nodes in the order in which they run.
type allocating struct {
	g       *graph.Graph
	order   []graph.NodeID
	own     InPlace
	dynamic bool
	p       *plan.Plan
	placed  map[string]int // by tensor: its buffer in the plan
	list    []Block
	of      []int          // by tensor: its block, or none
	last    []int          // by tensor: when its last reader runs, or its maker
	early   []bool         // by block: it is made earlier than the plan has it
	steady  int            // how many nodes run before the first whose allocations may differ from run to run
	inside  []map[int]bool // by block: the buffers of its tensors
}

func (a *allocating) run() {
	a.steady = len(a.order)
	a.of, a.last = make([]int, len(a.g.Tensors)), make([]int, len(a.g.Tensors))
	for id := range a.of {
		a.of[id] = none
	}
	for step, id := range a.order {
		n := a.g.Nodes[id]
		n.Reads(func(t graph.TensorID) { a.last[t] = step })
		if a.steady > step && varies(a.g, n) {
			a.steady = step
		}
		for _, id := range n.Outputs {
			switch {
			case id < 0:
			case len(a.g.Tensors[id].Readers) == 0 && !a.g.Tensors[id].Output:
				a.last[id] = len(a.order) // ONNX Runtime frees it with the run
			default:
				a.last[id] = step
			}
		}
	}
	for step, node := range a.order {
		n := a.g.Nodes[node]
		for k, id := range n.Outputs {
			if id >= 0 && !ops.IsConstant(n) {
				a.output(step, n, k, id)
				if b := a.of[id]; b == len(a.early) {
					a.early = append(a.early, step < int(node))
				}
			}
		}
	}
}

// output gives an output its block: that of an operand, or a new one.
func (a *allocating) output(step int, n *graph.Node, k int, id graph.TensorID) {
	t := a.g.Tensors[id]
	if t.Dynamic != "" || t.Bounded {
		a.dynamic = true
		return
	}
	if t.Bytes == 0 {
		return // nothing is allocated
	}
	for _, v := range n.Semantics.Views {
		if v.Out == k {
			if a.of[id] = a.of[n.Inputs[v.In]]; a.of[id] != none {
				a.join(a.of[id], id)
			}
			return
		}
	}
	for _, v := range n.Semantics.Inplace {
		if b := a.of[n.Inputs[v.In]]; v.Out == k && b != none && a.list[b].Last == step && !a.list[b].Output && a.same(a.g.Tensors[n.Inputs[v.In]], t) {
			a.of[id] = b
			a.join(b, id)
			return
		}
	}
	a.of[id] = len(a.list)
	a.list = append(a.list, Block{Tensor: t.Name, Bytes: t.Bytes, First: step, Last: step, Offset: none, Over: none})
	a.inside = append(a.inside, map[int]bool{})
	a.join(a.of[id], id)
}

// same reports whether ONNX Runtime knows that two tensors of one shape have one.
func (a *allocating) same(in, out *graph.Tensor) bool {
	switch {
	case a.own == Inferred || a.own == Never:
		return a.own == Inferred
	case in.Declared == nil || out.Declared == nil:
		return a.own == Completed
	}
	x, y := in.Declared, out.Declared
	if !x.Type.Ranked || !y.Type.Ranked || len(x.Type.Shape) != len(y.Type.Shape) {
		return false
	}
	for i, d := range x.Type.Shape {
		if d != y.Type.Shape[i] || x.Symbols[i] != y.Symbols[i] || d < 0 && x.Symbols[i] == "" {
			return false
		}
	}
	return true
}

// draws reports whether a node of a graph draws random numbers.
func draws(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		if c := n.Semantics.Call; n.Semantics.Random || c != nil && draws(c.Body) {
			return true
		}
		return slices.ContainsFunc(n.Bodies(), func(b *graph.Attr) bool { return slices.ContainsFunc(b.All(), draws) })
	})
}

// varies reports whether the data may decide what a node allocates: it runs a graph, whose
// branches and iterations they choose, or has a result without a known size.
func varies(g *graph.Graph, n *graph.Node) bool {
	if c := n.Semantics.Call; len(n.Bodies()) > 0 || c != nil && slices.ContainsFunc(c.Body.Nodes, func(n *graph.Node) bool { return varies(c.Body, n) }) {
		return true
	}
	return slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 && (g.Tensors[t].Dynamic != "" || g.Tensors[t].Bounded) })
}

// join adds a tensor to a block.
func (a *allocating) join(b int, id graph.TensorID) {
	t := a.g.Tensors[id]
	a.list[b].Last = max(a.list[b].Last, a.last[id])
	a.list[b].Output = a.list[b].Output || t.Output
	if buffer, ok := a.placed[t.Name]; ok {
		a.inside[b][buffer] = true
	}
}

// place takes the offsets of the plan. A block whose tensors are in several buffers has
// none, since the runtime shares where the plan does not, and neither has one that is
// made earlier or that nobody reads, which lives longer. Blocks of one buffer follow one
// another, each over the one before it.
//
// From the first node on whose allocations the data decide, no block is written over another.
// An allocator tells nodes apart by the events of the run alone, and those of another branch
// may begin with the very block that the next node would allocate.
func (a *allocating) place() {
	held := map[int][]int{} // by buffer: its blocks
	for i := range a.list {
		for buffer := range a.inside[i] { // of several, none is used
			if b := &a.p.Buffers[buffer]; len(a.inside[i]) == 1 && b.Pool == plan.Arena && !a.early[i] && a.list[i].Last < len(a.order) {
				a.list[i].Offset = b.Offset
				held[buffer] = append(held[buffer], i)
			}
		}
	}
	for _, blocks := range held {
		slices.SortFunc(blocks, func(x, y int) int { return cmp.Compare(a.list[x].First, a.list[y].First) })
		for k := 1; k < len(blocks); k++ {
			before, b := &a.list[blocks[k-1]], &a.list[blocks[k]]
			switch {
			case before.Last < b.First && !before.Output: // nothing is live meanwhile
			case before.Last == b.First && !before.Output && before.Bytes == b.Bytes && b.First < a.steady:
				b.Over = blocks[k-1]
			default:
				b.Offset = none
			}
		}
	}
}
