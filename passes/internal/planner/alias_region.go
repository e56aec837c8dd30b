package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/alias"
)

// AliasGraph describes the main graph for package alias: which nodes only move bytes, and
// between which storages.
func (r *Region) AliasGraph() *alias.Graph {
	g := &alias.Graph{Bytes: make([]int64, len(r.Storages)), Able: make([]bool, len(r.Storages)), Align: r.Align}
	for i := range r.Storages {
		st := &r.Storages[i]
		g.Bytes[i] = r.G.Tensors[st.Tensors[0]].Bytes
		g.Able[i] = r.Live(int32(i)) && !st.Bounded && g.Bytes[i] > 0
		for _, t := range st.Tensors {
			g.Able[i] = g.Able[i] && r.G.Tensors[t].Bytes == g.Bytes[i]
		}
	}
	order, err := r.G.Topological()
	if err != nil {
		return g // no region has such a graph
	}
	for _, n := range order {
		node := r.G.Nodes[n]
		out := alias.Node{ID: int32(n)}
		for _, x := range node.Semantics.Ranges {
			to, from := node.Outputs[x.Out], node.Inputs[x.In]
			if r.StorageOf[to] == NoStorage || r.StorageOf[from] == NoStorage || r.Storages[r.StorageOf[to]].Tensors[0] != to {
				out.Ranges = nil
				break
			}
			out.Ranges = append(out.Ranges, alias.Range{Out: r.StorageOf[to], In: r.StorageOf[from], At: x.At, From: x.From, Bytes: x.Bytes})
		}
		if len(out.Ranges) > 0 {
			g.Nodes = append(g.Nodes, out)
		}
	}
	if g.Explodes() {
		g.Nodes = nil
	}
	return g
}

// AliasPairs lists the in-place pairs of a region without aliases.
func (r *Region) AliasPairs() (list []alias.Pair) {
	for i := range r.Storages {
		for _, over := range r.reuses(int32(i)) {
			list = append(list, alias.Pair{Result: int32(i), Over: over})
		}
	}
	return list
}

// Aliased makes a region in which the storages of a layout are its pieces. The storages of
// r keep their indices; those that are made of pieces have 0 bytes and carry precedence
// alone. The second result lists the pairs that are lost; a relaxed layout loses none.
//
// A pair is kept if each of its storages is one piece. All storages that pairs connect
// could come to lie at one offset, so of each such group at most one may be a part of a
// parent, whose place is fixed.
func (r *Region) Aliased(l *alias.Layout, p *alias.Pieces, pairs []alias.Pair) (q *Region, lost []alias.Pair) {
	q = &Region{}
	*q = *r
	q.StepOf, q.Buffers, q.parents, q.quick = nil, nil, nil, nil
	q.Workspace, q.Scratch, q.Bodies = slices.Clone(r.Workspace), slices.Clone(r.Scratch), slices.Clone(r.Bodies)
	n := len(r.Storages)
	q.Storages = slices.Clone(r.Storages)

	at := make([]int32, len(p.List)) // the storage of each piece
	for id := range p.List {
		x := &p.List[id]
		if root := x.Root; int(root) < n && len(p.Of[root]) == 1 && p.Of[root][0] == int32(id) {
			at[id] = root
			continue
		}
		owner := &r.Storages[l.Roots[x.Root].Storage]
		at[id] = int32(len(q.Storages))
		q.Storages = append(q.Storages, Storage{Bytes: x.Bytes(), Maker: owner.Maker, Input: owner.Input})
	}
	for i := range n {
		if len(p.Of[i]) == 1 && at[p.Of[i][0]] == int32(i) {
			continue
		}
		st := &q.Storages[i]
		st.Bytes = 0
		for _, id := range p.Of[i] {
			st.pieces = append(st.pieces, at[id])
		}
	}
	for id := range p.List {
		st := &q.Storages[at[id]]
		st.Tensors = slices.Clone(st.Tensors)
		for _, i := range p.List[id].Over {
			switch {
			case i == at[id]:
			case len(p.Of[i]) == 1:
				st.Tensors = append(st.Tensors, r.Storages[i].Tensors...)
			default:
				st.covers = append(st.covers, r.Storages[i].Tensors...)
			}
			st.Output = st.Output || r.Storages[i].Output
		}
	}
	if l.Next != nil {
		for _, chain := range l.Chains(p) {
			list := make([]int32, len(chain))
			for i, id := range chain {
				list[i] = at[id]
			}
			q.parents = append(q.parents, list)
		}
	}
	q.reuse, lost = q.pairPieces(r, l.Next == nil, p, at, pairs)
	return q, lost
}

// pairPieces returns the storages that each storage of q may overwrite.
func (q *Region) pairPieces(r *Region, relaxed bool, p *alias.Pieces, at []int32, pairs []alias.Pair) (reuse [][]int32, lost []alias.Pair) {
	reuse = make([][]int32, len(q.Storages))
	groups := newGroups(len(q.Storages), q.parents)
	for _, x := range pairs {
		results, overs := p.Of[x.Result], p.Of[x.Over]
		kept := relaxed || len(results) == 1 && len(overs) == 1 && !q.readsElsewhere(r, x) && groups.join(at[results[0]], at[overs[0]])
		if !kept {
			lost = append(lost, x)
			continue
		}
		for k := range results {
			result, over := at[results[k]], at[overs[k]]
			if !q.Storages[over].Output && !slices.Contains(reuse[result], over) {
				reuse[result] = append(reuse[result], over)
			}
		}
	}
	return reuse, lost
}

// readsElsewhere reports whether the node of a pair also reads the bytes that it would
// overwrite as a part of another storage: it may need them after it has written there.
func (q *Region) readsElsewhere(r *Region, x alias.Pair) bool {
	over := q.PiecesOf(x.Over)
	found := false
	q.G.Nodes[r.Storages[x.Result].Maker].Reads(func(t graph.TensorID) {
		if i := q.StorageOf[t]; i != NoStorage && i != x.Over {
			found = found || slices.ContainsFunc(q.PiecesOf(i), func(y int32) bool { return slices.Contains(over, y) })
		}
	})
	return found
}

// groups are sets of storages that in-place pairs connect, of which at most one is a part
// of a parent.
type groups struct {
	of    []int32 // union-find
	fixed []bool  // of the root of a set: it has a part of a parent
}

func newGroups(n int, parents [][]int32) *groups {
	g := &groups{of: make([]int32, n), fixed: make([]bool, n)}
	for i := range g.of {
		g.of[i] = int32(i)
	}
	for _, p := range parents {
		for _, i := range p {
			g.fixed[i] = true
		}
	}
	return g
}

func (g *groups) find(i int32) int32 {
	for g.of[i] != i {
		g.of[i] = g.of[g.of[i]]
		i = g.of[i]
	}
	return i
}

// join joins the sets of two storages, unless both have a part of a parent.
func (g *groups) join(i, j int32) bool {
	a, b := g.find(i), g.find(j)
	switch {
	case a == b:
		return true
	case g.fixed[a] && g.fixed[b]:
		return false
	}
	g.of[a] = b
	g.fixed[b] = g.fixed[a] || g.fixed[b]
	return true
}
