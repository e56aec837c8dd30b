package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// placed holds where the plan puts tensors in the arena, without names: a tenth of the memory of
// the plan's buffers.
type placed struct {
	extents []extent
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
	x := &placed{extents: make([]extent, 0, n), of: make([]int32, len(g.Tensors))}
	named := byName(g)
	var left []plan.Buffer
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if !taken(i) {
			left = append(left, *b)
			continue
		}
		x.extents = append(x.extents, extent{b.Offset, b.Bytes})
		for _, name := range b.Tensors {
			x.of[named[name]] = int32(len(x.extents))
		}
	}
	p.Buffers = left
	return x
}

// put adds the places in an arena to an area.
func (x *placed) put(a *area, arena unsafe.Pointer) {
	if x == nil {
		return
	}
	for id, k := range x.of {
		if k > 0 {
			e := x.extents[k-1]
			a.tensors[id] = spot{at: unsafe.Add(arena, e.offset), bytes: e.bytes}
		}
	}
}
