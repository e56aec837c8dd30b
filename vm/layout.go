package vm

import (
	"context"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
)

// layout is where the tensors of a local function lie within the workspace of a
// node that calls it: a plan says how large that is, and no more.
type layout struct {
	tensors map[graph.TensorID]extent
	work    map[graph.NodeID]extent
	bytes   int64
}

type extent struct{ offset, bytes int64 }

// laidOut is the area of a function's graph in a workspace. If it does not fit
// (the planner's search found a better layout), it goes into the side pool.
func (b *builder) laidOut(g *graph.Graph, body bool, work spot) (*area, error) {
	if b.s.guard != nil {
		return b.guardedApart(g)
	}
	l, err := b.layout(g, body)
	if err != nil {
		return nil, err
	}
	base := work.at
	if l.bytes > work.bytes {
		block, err := b.s.side.take("a workspace", l.bytes)
		if err != nil {
			return nil, err
		}
		b.s.side.stays(block)
		base = unsafe.Pointer(unsafe.SliceData(block))
	}
	a := &area{tensors: map[graph.TensorID]spot{}, work: map[graph.NodeID]spot{}}
	for t, x := range l.tensors {
		a.tensors[t] = spot{at: unsafe.Add(base, x.offset), bytes: x.bytes}
	}
	for n, x := range l.work {
		a.work[n] = spot{at: unsafe.Add(base, x.offset), bytes: x.bytes}
	}
	return a, nil
}

// layout places the tensors of a graph within a function, in its listed order:
// views lie where what they view lies, and what may be made in place of a dying
// input is. It is the same for all calls of an instance. body tells a body of
// control flow, whose inputs lie in the workspace, from a function.
func (b *builder) layout(g *graph.Graph, body bool) (*layout, error) {
	if l := b.layouts[g]; l != nil {
		return l, nil
	}
	align := b.s.pr.p.Alignment
	round := func(n int64) int64 { return (n + align - 1) &^ (align - 1) }
	order, err := g.Topological()
	if err != nil {
		return nil, err
	}
	var list []held
	of := make([]int, len(g.Tensors))
	for t := range of {
		of[t] = -1
	}
	add := func(t graph.TensorID, at int) {
		of[t] = len(list)
		list = append(list, held{round(g.Tensors[t].Bytes), at, at, []graph.TensorID{t}, graph.None})
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
		// The function's own lie outside.
		if body && g.Tensors[t].Dynamic == "" {
			add(t, 0)
		}
	}
	for i, id := range order {
		n := g.Nodes[id]
		for k, t := range n.Outputs {
			if t < 0 || g.Tensors[t].Dynamic != "" || constantOf(g, g.Tensors[t]) != nil {
				continue
			}
			if v := viewedOf(n, k); v != graph.None {
				if s := of[v]; s >= 0 {
					of[t] = s
					list[s].tensors = append(list[s].tensors, t)
				}
				continue // of what lies outside: it has its address
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
		bytes, err := b.inner(n)
		if err != nil {
			return nil, err
		}
		if bytes > 0 {
			list = append(list, held{round(bytes), i, i, nil, id})
		}
	}
	for s := range list {
		for _, t := range list[s].tensors {
			list[s].last = max(list[s].last, last(t))
		}
	}
	l, err := placed(list, align)
	if err != nil {
		return nil, err
	}
	b.layouts[g] = l
	return l, nil
}

// held is a buffer of a layout: tensors, or the workspace of a node.
type held struct {
	bytes       int64
	first, last int
	tensors     []graph.TensorID
	node        graph.NodeID
}

// placed gives buffers their offsets.
func placed(list []held, align int64) (*layout, error) {
	p := alloc.Problem{Alignment: align}
	for _, h := range list {
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: h.bytes, First: h.first, Last: h.last})
	}
	found, err := alloc.Solve(context.Background(), p, alloc.Options{Effort: alloc.EffortDefault})
	if err != nil {
		return nil, err
	}
	l := &layout{tensors: map[graph.TensorID]extent{}, work: map[graph.NodeID]extent{}, bytes: found.Arena}
	for i, h := range list {
		x := extent{found.Offsets[i], h.bytes}
		for _, t := range h.tensors {
			l.tensors[t] = x
		}
		if h.node >= 0 {
			l.work[h.node] = x
		}
	}
	return l, nil
}

// inner is the workspace of a node of a function.
func (b *builder) inner(n *graph.Node) (int64, error) {
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

// viewedOf is the input that output k of a node is a view of, None if it is no
// view.
func viewedOf(n *graph.Node, k int) graph.TensorID {
	for _, v := range n.Semantics.Views {
		if v.Out == k {
			return n.Inputs[v.In]
		}
	}
	return graph.None
}
