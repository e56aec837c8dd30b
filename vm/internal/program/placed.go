package program

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// placed holds where the plan puts tensors in the arena, without names: a tenth of the memory of
// the plan's buffers.
type placed struct {
	extents []Extent
	of      []int32 // by TensorID: 1 + the index of its extent; 0: it is among the plan's buffers
}

// placedOf takes the buffers of the arena out of a plan. It leaves those of workspaces, of
// parameters, states and caches, and the largest one, which an error may name.
func placedOf(g *graph.Graph, p *plan.Plan) *placed {
	largest := -1
	taken := func(i int) bool {
		b := &p.Buffers[i]
		return i != largest && b.Pool == plan.Arena && b.Node == nil && b.Bytes > 0 && !plan.Stays(b.Kind)
	}
	n := 0
	for i := range p.Buffers {
		if taken(i) {
			n++
			if largest < 0 || p.Buffers[i].Bytes > p.Buffers[largest].Bytes {
				largest = i
			}
		}
	}
	x := &placed{extents: make([]Extent, 0, n), of: make([]int32, len(g.Tensors))}
	named := ByName(g)
	var left []plan.Buffer
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if !taken(i) {
			left = append(left, *b)
			continue
		}
		x.extents = append(x.extents, Extent{b.Offset, b.Bytes})
		for _, name := range b.Tensors {
			x.of[named[name]] = int32(len(x.extents))
		}
	}
	p.Buffers = left
	return x
}

// Each calls f for each tensor that has a place here, with that place.
func (x *placed) Each(f func(id graph.TensorID, at Extent)) {
	if x == nil {
		return
	}
	for id, k := range x.of {
		if k > 0 {
			f(graph.TensorID(id), x.extents[k-1])
		}
	}
}

type Extent struct{ Offset, Bytes int64 }

// ByName maps names to tensors of a graph, without those that it captures.
func ByName(g *graph.Graph) map[string]graph.TensorID {
	named := make(map[string]graph.TensorID, len(g.Tensors))
	for id, t := range g.Tensors {
		if !t.Capture {
			named[t.Name] = graph.TensorID(id)
		}
	}
	return named
}

func PoolBytes(p *plan.Plan, name string) int64 {
	for _, pool := range p.Pools {
		if pool.Name == name {
			return pool.Bytes
		}
	}
	return 0
}

// StatesOf returns the bytes [from, end) of the resident pool in which the parameters and
// states lie; 0, 0 if there are none.
func StatesOf(p *plan.Plan) (from, end int64) {
	from = math.MaxInt64
	for i := range p.Buffers {
		if b := &p.Buffers[i]; plan.Stays(b.Kind) {
			from, end = min(from, b.Offset), max(end, b.Offset+b.Bytes)
		}
	}
	return min(from, end), end
}

// StateBytes is the size of a plan's parameters and states.
func StateBytes(p *plan.Plan) int64 {
	var sum int64
	for i := range p.Buffers {
		if b := &p.Buffers[i]; plan.Stays(b.Kind) {
			sum += b.Bytes
		}
	}
	return sum
}
