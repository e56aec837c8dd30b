package verify

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// doom is what tells that a state leads to no end: some node that is still to run
// has a load above the limit in every state that goes on from it. What has run
// stays, so that the least load of the node is a minimum cut as in force, with what
// has run on the side of what has. Looked at is the one that had the least slack
// from the start, and so is the first to have none.
type doom struct {
	tight []tight // of the least slack first
	known bool
}

// tight is a node of little slack, with the network that gives its least load and
// a maximum flow in it. What runs adds to the flow.
type tight struct {
	node  graph.NodeID
	least int64
	cut   valley
	open  []graph.NodeID // that may stand on either side
	first []int32
	edges []pipe
}

// doomAfter is how many states a replay looks at before it asks of each whether it
// is doomed: most are over by then. A look takes as long as some hundred others.
const doomAfter = 2000

// maxTight is how many nodes are kept to look at.
const maxTight = 32

// doomed reports whether the state is known to lead to no end.
func (r *replay) doomed() bool {
	if r.states < r.doomAfter {
		return false
	}
	if !r.doom.known {
		r.tighten()
	}
	for i := range r.doom.tight {
		if t := &r.doom.tight[i]; !r.ran[t.node] {
			return t.least+t.after(r) > r.limit
		}
	}
	return false
}

// after is by how much the least load rises over what has run, as far as that is
// needed to pass the limit.
func (t *tight) after(r *replay) int64 {
	c := &t.cut
	work := c.work
	copy(c.first, t.first)
	c.edges = append(c.edges[:0], t.edges...)
	for k, x := range t.open {
		if r.ran[x] {
			c.edge(valleySource, int32(2+k), unlimitedBytes)
		}
	}
	more := c.flow(r.limit - t.least)
	r.looks += len(t.open) + c.work - work
	return more
}

// tighten finds the nodes of least slack.
func (r *replay) tighten() {
	all := r.held()
	least := make([]int64, len(r.ran))
	for v := range least {
		r.around(graph.NodeID(v))
		least[v], _ = r.leastLoad(graph.NodeID(v), all)
	}
	nodes := r.b.s.identity()
	slices.SortStableFunc(nodes, func(a, b graph.NodeID) int { return cmp.Compare(least[b], least[a]) })
	for _, v := range nodes[:min(maxTight, len(nodes))] {
		r.around(v)
		_, open := r.leastLoad(v, all)
		t := tight{node: v, least: least[v], cut: r.cut, open: open, first: slices.Clone(r.cut.first), edges: slices.Clone(r.cut.edges)}
		r.cut = valley{}
		r.doom.tight = append(r.doom.tight, t)
	}
	r.doom.known = true
}
