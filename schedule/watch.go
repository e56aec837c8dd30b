package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// watch looks ahead from a state of the exact search. The nodes whose cut bound
// leaves the least room below the limit are the first that a state can shut out:
// what has run is forced in as well as the ancestors, so that the least load of
// such a node can only rise. If it passes the limit, the state is not completed
// within it: all orders that go on from it pass the limit. The network of a node is solved once, and what has run adds to its
// flow: see cutter.forcedBy, which does so for single nodes.
type watch struct {
	nodes []watched // of the least room first
	built bool
}

type watched struct {
	cutter
	node  int32
	least int64 // the cut bound
}

const (
	maxWatched   = 16
	watchedNodes = 1000 // on larger nets a look takes longer than what it saves
	watchFrom    = 5000 // states: most searches end before
)

// build solves the networks of the nodes to watch, among those that have a single
// choice of savings.
func (w *watch) build(g *indexed.Problem, halt func() bool) {
	w.built = true
	var c cutter
	c.Halt = halt
	for i := range g.Nodes {
		v := int32(i)
		if choices, more := g.Choices(v); len(choices) == 1 && more == 0 {
			w.nodes = append(w.nodes, watched{node: v, least: c.node(g, v)})
		}
	}
	slices.SortStableFunc(w.nodes, func(a, b watched) int { return cmp.Compare(b.least, a.least) })
	w.nodes = w.nodes[:min(len(w.nodes), maxWatched)]
	for i := range w.nodes {
		x := &w.nodes[i]
		x.Halt = halt
		x.cutter.node(g, x.node)
		x.Hold()
	}
}

// shutOut returns a load above the limit that all orders have which go on from
// the state, or 0 if there is none in sight.
func (d *decider) shutOut() int64 {
	if d.states < d.watchFrom || d.g.Nodes > watchedNodes || d.search.off.has(watching) {
		return 0
	}
	if !d.watch.built {
		d.watch.build(d.g, d.search.halted)
	}
	for i := range d.watch.nodes {
		// The first that is still to run: the others rarely say more.
		if w := &d.watch.nodes[i]; d.cut.mark[w.node] != inside {
			if load := w.after(d.ran); load > d.limit {
				return load
			}
			break
		}
	}
	return 0
}

// after returns the least load of the node when some others have run.
func (w *watched) after(ran []step) int64 {
	for _, s := range ran {
		if w.mark[s.node] == free {
			w.require(s.node)
		}
	}
	return w.least + w.Answer(indexed.Infinite)
}
