package passes

import (
	"cmp"
	"context"
	"fmt"

	"github.com/onnxmem/onnxmem/alloc/stacking"
	"github.com/onnxmem/onnxmem/schedule"
)

// oneStack is one order and one stacking for all points.
type oneStack struct {
	order   []int32
	buffers []schedule.Lifetime // their bytes mean nothing
	taken   []schedule.Pair     // the in-place pairs
	stack   *stacking.Stacking
	worst   float64 // arena / bound, where it is largest on the grid
	arenas  int64   // bytes: the sum on the grid

	bestPeak int64   // with a listing: the smallest peak of any order at the corner
	listing  []int32 // the nodes as the file lists them, if the order is a runtime's default one
	above    int64   // bytes of the corner's arena above a limit of that
	chains   [][]int // buffers that lie one behind the other
}

// ceiling is a limit on the peak at the corner or, with arena, on the arena too.
type ceiling struct {
	bytes int64
	arena bool
}

// better reports whether a stacking is better than another: it keeps a limit on the arena, or
// is closer to the bounds.
func (o *oneStack) better(than *oneStack) bool {
	return cmp.Or(cmp.Compare(o.above, than.above), cmp.Compare(o.worst, than.worst)) < 0
}

// arena returns the bytes that the stacking needs for the sizes of a problem.
func (o *oneStack) arena(p *schedule.Problem) (int64, error) {
	sizes, err := bufferSizes(p, o.buffers)
	if err != nil {
		return 0, err
	}
	return o.stack.Place(sizes, make([]int64, len(sizes)))
}

// peak returns the largest load of buffers with the given sizes.
func (o *oneStack) peak(sizes []int64) (peak int64) {
	change := make([]int64, len(o.order)+2)
	for i, b := range o.buffers {
		change[b.First] += sizes[i]
		change[b.Last+1] -= sizes[i]
	}
	load := int64(0)
	for _, c := range change {
		load += c
		peak = max(peak, load)
	}
	return peak
}

// bufferSizes returns the bytes of each buffer at a point of the grid.
func bufferSizes(p *schedule.Problem, buffers []schedule.Lifetime) ([]int64, error) {
	sizes := make([]int64, len(buffers))
	for i, b := range buffers {
		if b.Node >= 0 {
			sizes[i] = p.Nodes[b.Node].Workspace
			continue
		}
		sizes[i] = p.Tensors[b.Tensors[0]].Bytes
		for _, t := range b.Tensors[1:] {
			if p.Tensors[t].Bytes != sizes[i] {
				return nil, fmt.Errorf("%s: expected the size of the tensor that it overwrites", p.Tensors[t].Name)
			}
		}
	}
	return sizes, nil
}

// orderStack puts the nodes of a region into the order that was chosen for all points.
func (r *region) orderStack() error {
	if err := r.reorder(r.stack.order); err != nil {
		return err
	}
	r.loads.Taken = r.stack.taken
	if r.stack.listing != nil {
		r.listAs(r.stack.order, r.stack.listing, r.stack.bestPeak)
	}
	return nil
}

// placeStack makes the buffers of a region and places those of the arena by the stacking
// that was chosen for all points.
func (r *region) placeStack(ctx context.Context) (err error) {
	c := r.stack
	if r.buffers, err = r.chains(c.taken); err != nil {
		return err
	}
	r.resident = 0
	at := r.stacked()
	sizes, offsets := make([]int64, len(c.buffers)), make([]int64, len(c.buffers))
	for k := range r.buffers {
		b := &r.buffers[k]
		if b.resident {
			b.offset = r.resident
			r.resident += b.bytes
		}
	}
	for i, k := range at {
		sizes[i] = r.buffers[k].bytes
	}
	if r.arena, err = c.stack.Place(sizes, offsets); err != nil {
		return err
	}
	for i, k := range at {
		r.buffers[k].offset = offsets[i]
	}
	r.optimal = r.arena == r.loads.Peak
	return r.placeHost(ctx)
}

// stacked returns, for each buffer of the stacking of a region, its index in the region's
// buffers.
func (r *region) stacked() []int {
	byStorage, byNode := map[int32]int{}, map[int]int{}
	for k := range r.buffers {
		if b := &r.buffers[k]; b.node >= 0 {
			byNode[int(b.node)] = k
		} else {
			byStorage[b.storages[0]] = k
		}
	}
	at := make([]int, len(r.stack.buffers))
	for i, b := range r.stack.buffers {
		if len(b.Tensors) > 0 {
			at[i] = byStorage[b.Tensors[0]]
		} else {
			at[i] = byNode[int(r.stepOf[b.Node])]
		}
	}
	return at
}
