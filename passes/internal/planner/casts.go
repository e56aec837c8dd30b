package planner

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Cast is a storage that one node makes out of what stays, by converting it to another type: the
// 16-bit copy of a parameter, or the reals of a frozen weight in 8 bits. Its node can run again
// wherever the storage is read, until the parameter is updated, at the cost of one pass over it.
type Cast struct {
	Storage int32
	Maker   graph.NodeID
	Readers []graph.NodeID // ascending; not the views below
	Views   []graph.NodeID // nodes that make nothing but views of it, ascending
	Until   []graph.NodeID // updates of what the maker reads: it runs before them
}

// Casts returns the casts of the main graph that some node reads. What is written over a cast is made in its bytes; such a
// cast counts as any other tensor.
func (r *Region) Casts() (list []Cast) {
	if r.kind != mainGraph || r.Apart != nil {
		return nil
	}
	var over map[int32]bool // storages over which something may be written; nil: not known yet
	for i := range r.Storages {
		st := &r.Storages[i]
		if st.Maker < 0 || !ops.Recasts(r.G.Nodes[st.Maker]) || !r.castsOfResidents(int32(i)) {
			continue
		}
		if over == nil {
			over = r.overwritten()
		}
		if over[int32(i)] {
			continue
		}
		c := Cast{Storage: int32(i), Maker: st.Maker}
		for _, n := range r.readers(int32(i)) {
			if r.views(n, int32(i)) {
				c.Views = append(c.Views, n)
			} else {
				c.Readers = append(c.Readers, n)
			}
		}
		if len(c.Readers) > 0 {
			c.Until = r.updatesOf(c.Maker)
			list = append(list, c)
		}
	}
	return list
}

// castsOfResidents reports whether storage i is all that its maker makes, and counts in loads, and
// whether all that the maker reads stays.
func (r *Region) castsOfResidents(i int32) bool {
	st := &r.Storages[i]
	n := r.G.Nodes[st.Maker]
	if !r.Live(i) || st.Output || st.Bytes == 0 || len(n.Outputs) != 1 || r.Workspace[st.Maker] > 0 {
		return false
	}
	stays := true
	n.Reads(func(t graph.TensorID) {
		from := r.StorageOf[t]
		stays = stays && from != NoStorage && r.Storages[from].Resident
	})
	return stays
}

// overwritten returns the storages over which another one may be written.
func (r *Region) overwritten() map[int32]bool {
	over := map[int32]bool{}
	for i := range r.Storages {
		for _, k := range r.reuses(int32(i)) {
			over[k] = true
		}
	}
	return over
}

// views reports whether a node makes nothing but views of storage i.
func (r *Region) views(n graph.NodeID, i int32) bool {
	made := 0
	for _, t := range r.G.Nodes[n].Outputs {
		if t < 0 {
			continue
		}
		if r.StorageOf[t] != i {
			return false
		}
		made++
	}
	return made > 0
}

// updatesOf returns the nodes that write over what a node reads.
func (r *Region) updatesOf(n graph.NodeID) (list []graph.NodeID) {
	for _, c := range r.UpdateChains {
		for k, over := range c.Storages[:len(c.Storages)-1] {
			if slices.Contains(r.readers(over), n) {
				list = append(list, r.Storages[c.Storages[k+1]].Maker)
			}
		}
	}
	return list
}

// ProblemApart is the bare problem of a region, changed into one whose peak, in the best order, no plan is below,
// whichever casts run again, how often and where: a cast takes no bytes by itself, and each of its
// readers takes its bytes while it runs.
//
// Proof. Take a plan in which casts run again, and leave out all their runs but the first. The rest is
// an order of the changed problem: it has the same nodes and precedence. At a node, all that counts in
// the changed problem is live in the plan, too: the other tensors have the same makers and readers;
// of each cast that the node reads, some copy is live, since nothing is written over a cast; and
// copies are storages of their own. What results in place save is the same. So no load of the plan is
// below that of the changed problem.
//
// In the other direction, an order of the changed problem is a plan of the same peak, if each reader
// of a cast runs before the updates of what that is made of: with a run of the cast right before each
// reader. At that run the load is what is live before the reader and the casts that it reads; that is
// part of the load of the reader.
func (r *Region) ProblemApart(casts []Cast) *schedule.Problem {
	p := r.Problem()
	r.castsApart(p, casts)
	return p
}

// castsApart changes a problem into that of ProblemApart.
func (r *Region) castsApart(p *schedule.Problem, casts []Cast) {
	for _, c := range casts {
		t := &p.Tensors[c.Storage]
		for _, n := range slices.Concat(c.Readers, c.Views) {
			p.Nodes[n].Workspace += t.Bytes
		}
		t.Bytes = 0
	}
}

// BoundProblem is the bare problem for which the bound of the region holds.
func (r *Region) BoundProblem() *schedule.Problem {
	p := r.Problem()
	if r.Recast {
		r.castsApart(p, r.Casts())
	}
	return p
}

// CastTime says when readers of casts may run.
type CastTime int

// The orders of AnyTime are those of the changed problem, and only its bound holds for all plans. With
// BeforeUpdates, each reader of a cast runs before the updates of what the cast is made of: then it is
// as if it had its own. AsNodes has a cast for each reader, which can lie before an update, and the
// reader behind it: the largest of the problems, since each cast is a node.
const (
	AnyTime CastTime = iota
	BeforeUpdates
	AsNodes
)

// CastOrders looks for the best orders of p, which is ProblemApart of these casts.
func (r *Region) CastOrders(ctx context.Context, p *schedule.Problem, casts []Cast, when CastTime, x *Search) (*schedule.Result, error) {
	g := &box.Graph{Main: true, Precedence: x.precedence(r, p)}
	runs := Identity(len(p.Nodes)) // node of the problem that is solved -> the one that it runs
	switch when {
	case BeforeUpdates:
		g.Precedence = append(g.Precedence, beforeUpdates(casts)...)
	case AsNodes:
		p = r.Problem()
		for _, c := range casts {
			for range asNodes(p, c) {
				runs = append(runs, int32(c.Maker))
			}
		}
	}
	g.Set([]box.Point{{Problem: p}}, true)
	found, err := g.Solve(ctx, &x.Search)
	if err != nil {
		return nil, err
	}
	if when == AsNodes {
		for i, order := range found.Orders {
			found.Orders[i] = firstRuns(order, runs)
		}
	}
	return found, nil
}

// firstRuns lists the nodes that those of an order run, each once: where it runs first.
func firstRuns(order, runs []int32) (list []int32) {
	ran := make([]bool, len(runs))
	for _, n := range order {
		if v := runs[n]; !ran[v] {
			ran[v] = true
			list = append(list, v)
		}
	}
	return list
}

// beforeUpdates pairs each reader of a cast with the updates of what that is made of.
func beforeUpdates(casts []Cast) (pairs [][2]int32) {
	for _, c := range casts {
		for _, n := range c.Readers {
			for _, u := range c.Until {
				if n != u {
					pairs = append(pairs, [2]int32{int32(n), int32(u)})
				}
			}
		}
	}
	return pairs
}

// asNodes gives each reader of a cast but the first a run of the cast of its own, and returns their
// number. The first has the views, too: they take no bytes.
func asNodes(p *schedule.Problem, c Cast) (added int) {
	maker := int32(c.Maker)
	for _, n := range c.Readers[1:] {
		again := p.Tensors[c.Storage]
		again.Producer, again.Consumers = int32(len(p.Nodes)), []int32{int32(n)}
		p.Nodes, p.Tensors = append(p.Nodes, p.Nodes[maker]), append(p.Tensors, again)
		for _, u := range c.Until {
			p.Tensors = append(p.Tensors, schedule.Tensor{Name: "update", Kind: "control", Producer: again.Producer, Consumers: []int32{int32(u)}})
		}
	}
	t := &p.Tensors[c.Storage]
	t.Consumers = slices.DeleteFunc(slices.Clone(t.Consumers), func(n int32) bool { return slices.Contains(c.Readers[1:], graph.NodeID(n)) })
	return len(c.Readers) - 1
}
