package lower

import (
	"context"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/program"
)

// layout holds the places of a local function's tensors within the workspace of a
// node that calls it. The plan gives only the size of that workspace.
type layout struct {
	tensors map[graph.TensorID]program.Extent
	work    map[graph.NodeID]program.Extent
	bytes   int64
}

// laidOut returns the area of a function's graph in a workspace. If the layout does
// not fit, because the planner found a better one, the area goes to the side pool.
func (b *builder) laidOut(g *graph.Graph, body bool, work spot) (*area, error) {
	if b.s.Mem.Guard != nil {
		return b.guardedSeparate(g)
	}
	l, err := b.layout(g, body)
	if err != nil {
		return nil, err
	}
	base := work.at
	if l.bytes > work.bytes {
		block, err := b.s.Mem.Side.Hold("a workspace", l.bytes)
		if err != nil {
			return nil, err
		}
		base = unsafe.Pointer(unsafe.SliceData(block))
	}
	a := newArea(g)
	for t, x := range l.tensors {
		a.tensors[t] = spot{at: unsafe.Add(base, x.Offset), bytes: x.Bytes}
	}
	for n, x := range l.work {
		a.work[n] = spot{at: unsafe.Add(base, x.Offset), bytes: x.Bytes}
	}
	return a, nil
}

// layout places the tensors of a graph within a function, in topological order. Views
// share the place of the tensor that they view, and in-place results that of a dying
// input. All calls of an instance share one layout. body says that g is the body of a
// control-flow node, whose inputs lie in the workspace, and not a function.
func (b *builder) layout(g *graph.Graph, body bool) (*layout, error) {
	if l := b.layouts[g]; l != nil {
		return l, nil
	}
	align := b.s.Program.Plan.Alignment
	round := func(n int64) int64 { return (n + align - 1) &^ (align - 1) }
	order, err := g.Topological()
	if err != nil {
		return nil, err
	}
	var list []layoutBuffer
	of := make([]int, len(g.Tensors))
	for t := range of {
		of[t] = -1
	}
	add := func(t graph.TensorID, at int) {
		of[t] = len(list)
		list = append(list, layoutBuffer{round(g.Tensors[t].Bytes), at, at, []graph.TensorID{t}, graph.None})
	}
	place := make([]int, len(g.Nodes))
	for i, n := range order {
		place[n] = i
	}
	last := func(t graph.TensorID) int {
		end := 0
		if m := g.Tensors[t].Maker; m >= 0 {
			end = place[m]
		}
		for _, r := range g.Tensors[t].Readers {
			end = max(end, place[r])
		}
		if g.Tensors[t].Output {
			end = len(order) - 1
		}
		return end
	}
	for _, t := range g.Inputs {
		// The inputs of a function lie outside of its workspace.
		if body && g.Tensors[t].Dynamic == "" {
			add(t, 0)
		}
	}
	for i, id := range order {
		n := g.Nodes[id]
		for k, t := range n.Outputs {
			if t < 0 || g.Tensors[t].Dynamic != "" || constants.Of(g, g.Tensors[t]) != nil {
				continue
			}
			if v := viewedOf(n, k); v != graph.None {
				if s := of[v]; s >= 0 {
					of[t] = s
					list[s].tensors = append(list[s].tensors, t)
				}
				continue // a view of an outside tensor, whose address it has
			}
			for _, a := range n.Semantics.Inplace {
				if s := -1; a.Out == k {
					if s = of[n.Inputs[a.In]]; s >= 0 && of[t] < 0 && list[s].bytes == round(g.Tensors[t].Bytes) &&
						!slices.ContainsFunc(list[s].tensors, func(u graph.TensorID) bool { return last(u) > i || g.Tensors[u].Output }) {
						of[t] = s
						list[s].tensors = append(list[s].tensors, t)
					}
				}
			}
			if of[t] < 0 {
				add(t, i)
			}
		}
		bytes, err := b.workspaceBytes(n)
		if err != nil {
			return nil, err
		}
		if bytes > 0 {
			list = append(list, layoutBuffer{round(bytes), i, i, nil, id})
		}
	}
	for s := range list {
		for _, t := range list[s].tensors {
			list[s].last = max(list[s].last, last(t))
		}
	}
	l, err := placeBuffers(list, align)
	if err != nil {
		return nil, err
	}
	b.layouts[g] = l
	return l, nil
}

// layoutBuffer is a buffer of a layout: some tensors, or the workspace of a node.
type layoutBuffer struct {
	bytes       int64
	first, last int
	tensors     []graph.TensorID
	node        graph.NodeID
}

// placeBuffers assigns offsets to buffers.
func placeBuffers(list []layoutBuffer, align int64) (*layout, error) {
	p := alloc.Problem{Alignment: align}
	for _, h := range list {
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: h.bytes, First: h.first, Last: h.last})
	}
	found, err := alloc.Solve(context.Background(), p, alloc.Options{Effort: alloc.EffortDefault})
	if err != nil {
		return nil, err
	}
	l := &layout{tensors: map[graph.TensorID]program.Extent{}, work: map[graph.NodeID]program.Extent{}, bytes: found.Arena}
	for i, h := range list {
		x := program.Extent{Offset: found.Offsets[i], Bytes: h.bytes}
		for _, t := range h.tensors {
			l.tensors[t] = x
		}
		if h.node >= 0 {
			l.work[h.node] = x
		}
	}
	return l, nil
}

// workspaceBytes is the size of the workspace of a node within a function.
func (b *builder) workspaceBytes(n *graph.Node) (int64, error) {
	most := int64(0)
	if n.Semantics.Call != nil {
		l, err := b.layout(n.Semantics.Call.Body, false)
		if err != nil {
			return 0, err
		}
		most = l.bytes
	}
	for _, a := range n.Bodies() {
		for _, g := range a.All() {
			l, err := b.layout(g, true)
			if err != nil {
				return 0, err
			}
			most = max(most, l.bytes)
		}
	}
	return most, nil
}

// viewedOf returns the input of which output k of a node is a view, or None.
func viewedOf(n *graph.Node, k int) graph.TensorID {
	for _, v := range n.Semantics.Views {
		if v.Out == k {
			return n.Inputs[v.In]
		}
	}
	return graph.None
}
