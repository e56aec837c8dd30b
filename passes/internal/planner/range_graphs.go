package planner

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
)

// Inner is one of the graphs of a model: the main graph, or the body of a node.
type Inner struct {
	G     *graph.Graph
	outer int          // of the body: the index of the graph around it; -1: it is the main graph
	node  graph.NodeID // its node there
	attr  string
	index int
}

// GraphsOf lists the bodies within a graph, inner ones first, and then the graph itself.
// Copies of a graph have the same list.
func GraphsOf(g *graph.Graph) []Inner {
	var list []Inner
	var add func(x Inner) int
	add = func(x Inner) int {
		var own []int
		for id, n := range x.G.Nodes {
			for _, a := range n.Bodies() {
				for k, body := range a.All() {
					own = append(own, add(Inner{body, -1, graph.NodeID(id), a.Name, k}))
				}
			}
		}
		list = append(list, x)
		for _, i := range own {
			list[i].outer = len(list) - 1
		}
		return len(list) - 1
	}
	add(Inner{G: g, outer: -1})
	return list
}

// innerRegions makes the regions of all bodies of a model, as GraphsOf lists them.
func (x *Rules) innerRegions(m *graph.Model) ([]*Region, error) {
	var list []*Region
	for _, in := range GraphsOf(m.Graph) {
		if in.outer < 0 {
			break
		}
		r := newRegion(x, in.G, controlBody, nil)
		if err := r.share(); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// rangeGraph is a graph at the points of the grid, with the order and the stacking that were
// chosen for it.
type rangeGraph struct {
	Inner
	box.Graph
	tensors []graph.TensorID          // by storage at the corner: the first; none: it is a part of a tensor
	stay    map[graph.TensorID]stayed // parameters, states, caches and their next values
}

// stayed is a tensor that stays from run to run, as it is at the corner.
type stayed struct {
	typ   graph.Type
	bytes int64
	cache bool
}

// permits reports whether the tensor may have a type, and a size, at another point: a cache
// may be smaller there.
func (s *stayed) permits(t graph.Type, bytes int64) bool {
	if s.cache {
		return t.Elem == s.typ.Elem && bytes <= s.bytes
	}
	return t.String() == s.typ.String()
}
