package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/box"
)

// stack is what was chosen for all points of a box; nil: there is but this point.
func (r *region) stack() *box.Stack {
	if g := r.boxes[r.g]; g != nil {
		return g.Chosen
	}
	return nil
}

// orderStack puts the nodes of a region into the order that was chosen for all points.
func (r *region) orderStack(c *box.Stack) error {
	if err := r.reorder(c.Order); err != nil {
		return err
	}
	r.loads.Taken = c.Taken
	if c.Listing != nil {
		r.listAs(c.Order, c.Listing, c.BestPeak)
	}
	return nil
}

// placeStack makes the buffers of a region and places those of the arena by the stacking
// that was chosen for all points.
func (r *region) placeStack(ctx context.Context, c *box.Stack) (err error) {
	if r.buffers, err = r.chains(c.Taken); err != nil {
		return err
	}
	r.resident = 0
	at := r.stacked(c)
	sizes, offsets := make([]int64, len(c.Buffers)), make([]int64, len(c.Buffers))
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
	if r.arena, err = c.Stack.Place(sizes, offsets); err != nil {
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
func (r *region) stacked(c *box.Stack) []int {
	byStorage, byNode := map[int32]int{}, map[int]int{}
	for k := range r.buffers {
		if b := &r.buffers[k]; b.node >= 0 {
			byNode[int(b.node)] = k
		} else {
			byStorage[b.storages[0]] = k
		}
	}
	at := make([]int, len(c.Buffers))
	for i, b := range c.Buffers {
		if len(b.Tensors) > 0 {
			at[i] = byStorage[b.Tensors[0]]
		} else {
			at[i] = byNode[int(r.stepOf[b.Node])]
		}
	}
	return at
}
