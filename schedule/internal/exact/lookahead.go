package exact

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// lookAhead finds dead states: those in which some node that has not run can no longer
// keep to the limit. It tests the node with the least initial slack. The cut bound of
// that node leaves free which nodes run before it, besides its ancestors; here the nodes
// that have run are forced to be among them, so the bound can only rise. If it exceeds
// the limit, so does every order that continues from the state. The network of a node is
// solved once; [bounds.Cutter.Require] then forces nodes into it.
type lookAhead struct {
	nodes []tested // ascending slack
	built bool
}

type tested struct {
	cut   *bounds.Cutter
	node  int32
	least int64 // its cut bound
}

const (
	maxTested      = 16
	lookAheadNodes = 1000 // on larger problems the test takes longer than it saves
	lookAheadFrom  = 5000 // states: most searches end earlier
)

// build solves the networks of the nodes to test: of the nodes with a single choice of
// savings, those with the greatest bounds.
func (a *lookAhead) build(g *indexed.Problem, m *meter.Meter) {
	a.built = true
	c := bounds.NewCutter(m)
	for i := range g.Nodes {
		v := int32(i)
		if choices, more := g.Choices(v); len(choices) == 1 && more == 0 {
			a.nodes = append(a.nodes, tested{node: v, least: c.Node(g, v).Value})
		}
	}
	slices.SortStableFunc(a.nodes, func(a, b tested) int { return cmp.Compare(b.least, a.least) })
	a.nodes = a.nodes[:min(len(a.nodes), maxTested)]
	for i := range a.nodes {
		x := &a.nodes[i]
		x.cut = bounds.NewCutter(m)
		x.cut.Node(g, x.node)
		x.cut.Hold()
	}
}

// forcedLoad returns a load above the limit that every order that continues from the
// state must have, or 0 if it finds none.
func (d *Search) forcedLoad() int64 {
	if d.LookAheadFrom < 0 || d.states < d.LookAheadFrom || d.at.g.Nodes > lookAheadNodes {
		return 0
	}
	if !d.ahead.built {
		d.ahead.build(d.at.g, d.meter)
	}
	for i := range d.ahead.nodes {
		// Only the first that has not run: the others rarely have a greater load.
		if w := &d.ahead.nodes[i]; d.at.cut.Marks[w.node] != bounds.Inside {
			if load := w.after(d.at.ran); load > d.limit {
				return load
			}
			break
		}
	}
	return 0
}

// after returns the least load of the node if the given nodes have run.
func (w *tested) after(ran []step) int64 {
	for _, s := range ran {
		if w.cut.Marks[s.node] == bounds.Free {
			w.cut.Require(s.node)
		}
	}
	return w.least + w.cut.Answer(indexed.Infinite)
}
