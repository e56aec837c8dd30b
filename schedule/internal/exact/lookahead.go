package exact

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// lookAhead finds states that are dead because some node that has not run can no
// longer keep to the limit. It tests the node with the least initial slack: once what
// has run is forced in beside the node's ancestors, its least load can only rise. If
// that passes the limit, so does every order that goes on from the state. The network
// of a node is solved once; what has run is a question to it.
type lookAhead struct {
	nodes []watched // of the least slack first
	built bool
}

type watched struct {
	cut   *bounds.Cutter
	node  int32
	least int64 // its bound
}

const (
	maxWatched    = 16
	watchedNodes  = 1000 // on larger problems a look takes longer than what it saves
	lookAheadFrom = 5000 // states: most searches end before
)

// build solves the networks of the nodes to watch, among those that have a single
// choice of savings.
func (a *lookAhead) build(g *indexed.Problem, m *meter.Meter) {
	a.built = true
	c := bounds.NewCutter(m.Apart())
	for i := range g.Nodes {
		v := int32(i)
		if choices, more := g.Choices(v); len(choices) == 1 && more == 0 {
			a.nodes = append(a.nodes, watched{node: v, least: c.Node(g, v).Value})
		}
	}
	slices.SortStableFunc(a.nodes, func(a, b watched) int { return cmp.Compare(b.least, a.least) })
	a.nodes = a.nodes[:min(len(a.nodes), maxWatched)]
	for i := range a.nodes {
		x := &a.nodes[i]
		x.cut = bounds.NewCutter(m.Apart())
		x.cut.Node(g, x.node)
		x.cut.Hold()
	}
}

// shutOut returns a load above the limit that all orders have which go on from the
// state, or 0 if there is none in sight.
func (d *Search) shutOut() int64 {
	if d.LookAheadFrom < 0 || d.states < d.LookAheadFrom || d.at.g.Nodes > watchedNodes {
		return 0
	}
	if !d.ahead.built {
		d.ahead.build(d.at.g, d.meter)
	}
	for i := range d.ahead.nodes {
		// The first that is still to run: the others rarely say more.
		if w := &d.ahead.nodes[i]; d.at.cut.Marks[w.node] != bounds.Inside {
			if load := w.after(d.at.ran); load > d.limit {
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
		if w.cut.Marks[s.node] == bounds.Free {
			w.cut.Require(s.node)
		}
	}
	return w.least + w.cut.Answer(indexed.Infinite)
}
