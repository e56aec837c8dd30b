package passes

import (
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
)

// inner is one of the graphs of a model: the main graph, or the body of a node.
type inner struct {
	g     *graph.Graph
	outer int          // of the body: the index of the graph around it; -1: it is the main graph
	node  graph.NodeID // its node there
	attr  string
	index int
}

// graphsOf lists the bodies within a graph, inner ones first, and then the graph itself.
// Copies of a graph have the same list.
func graphsOf(g *graph.Graph) []inner {
	var list []inner
	var add func(x inner) int
	add = func(x inner) int {
		var own []int
		for id, n := range x.g.Nodes {
			for _, a := range n.Bodies() {
				for k, body := range a.All() {
					own = append(own, add(inner{body, -1, graph.NodeID(id), a.Name, k}))
				}
			}
		}
		list = append(list, x)
		for _, i := range own {
			list[i].outer = len(list) - 1
		}
		return len(list) - 1
	}
	add(inner{g: g, outer: -1})
	return list
}

// innerRegions makes the regions of all bodies of a model, as graphsOf lists them.
func (x *rules) innerRegions(m *graph.Model) ([]*region, error) {
	var list []*region
	for _, in := range graphsOf(m.Graph) {
		if in.outer < 0 {
			break
		}
		r := newRegion(x, in.g, controlBody, nil)
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
	inner
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

// hasCommon reports whether the common sharing is possible in an inferred model.
func (b *rangeSolver) hasCommon(m *graph.Model) bool {
	i := 0
	for _, x := range graphsOf(m.Graph) {
		for _, n := range x.g.Nodes {
			c, has := b.common[i], b.sharing(x.g, n)
			if len(intersect(c.views, has.views)) < len(c.views) || len(intersect(c.inplace, has.inplace)) < len(c.inplace) {
				return false
			}
			i++
		}
	}
	return true
}

// errOtherSizes is the error for tensors of one buffer that differ in size at a point.
var errOtherSizes = errors.New("the tensors of a buffer differ in size")

// sizesAt returns the sizes of the buffers of a graph that is inferred at a point; work has
// the workspaces of its nodes. With aliases, q is the region of their parts.
func (b *rangeSolver) sizesAt(g *graph.Graph, x *rangeGraph, q *region, work []int64, point int) ([]int64, error) {
	bytes := make([]int64, len(x.tensors)) // by storage
	for i, id := range x.tensors {
		if q != nil {
			bytes[i] = q.storages[i].bytes
		}
		if id == graph.None {
			continue
		}
		t := g.Tensors[id]
		if t.Dynamic != "" && t.Data == nil {
			return nil, b.otherTensors(x.Index, id, point, false)
		}
		if q == nil {
			bytes[i] = t.Bytes
		}
		if was, stays := x.stay[id]; stays && !was.permits(t.Type, b.round(t.Bytes)) {
			e := graph.Errorf("ranges of dimensions: is %v for %s: expected %v, as for the largest lengths, since it stays from run to run", t.Type, graph.AtLengths(b.box.At(point)), was.typ)
			if was.cache {
				e = graph.Errorf("ranges of dimensions: is %v for %s: expected a cache of no more bytes than for the largest lengths, %v", t.Type, graph.AtLengths(b.box.At(point)), was.typ)
			}
			e.Tensor = t.Name
			return nil, e
		}
	}
	most, err := x.Chosen.SizesOf(x.Corner().Problem)
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(x.Chosen.Buffers))
	for i, buf := range x.Chosen.Buffers {
		if buf.Node >= 0 {
			sizes[i] = work[buf.Node]
		}
		for k, t := range buf.Tensors {
			n := b.round(bytes[t])
			if k > 0 && n != sizes[i] {
				return nil, errOtherSizes
			}
			sizes[i] = n
		}
		if sizes[i] > most[i] {
			e := graph.Errorf("ranges of dimensions: has %d bytes for %s: expected at most the %d of the largest lengths", sizes[i], graph.AtLengths(b.box.At(point)), most[i])
			if id := x.tensors[buf.Tensors[0]]; id != graph.None { // a workspace is no larger if no tensor is
				e.Tensor = g.Tensors[id].Name
			}
			return nil, e
		}
	}
	return sizes, nil
}

// permits reports whether the tensor may have a type, and a size, at another point: a cache
// may be smaller there.
func (s *stayed) permits(t graph.Type, bytes int64) bool {
	if s.cache {
		return t.Elem == s.typ.Elem && bytes <= s.bytes
	}
	return t.String() == s.typ.String()
}

// boxesOf returns the graphs of a copy of the model at the points of the box.
func (b *rangeSolver) boxesOf(m *graph.Model) map[*graph.Graph]*box.Graph {
	boxes := map[*graph.Graph]*box.Graph{}
	for g, x := range graphsOf(m.Graph) {
		boxes[x.g] = b.boxes[g]
	}
	return boxes
}
