package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/box"
)

// stack is what was chosen for all points of a box; nil: there is but this point.
func (r *Region) stack() *box.Stack {
	if g := r.Boxes[r.G]; g != nil {
		return g.Chosen
	}
	return nil
}

// orderStack puts the nodes of a region into the order that was chosen for all points.
func (r *Region) orderStack(c *box.Stack) error {
	if err := r.reorder(c.Order); err != nil {
		return err
	}
	r.Loads.Taken = c.Taken
	if c.Listing != nil {
		r.listAs(c.Order, c.Listing, c.BestPeak)
	}
	return nil
}

// placeStack makes the buffers of a region and places those of the arena by the stacking
// that was chosen for all points.
func (r *Region) placeStack(ctx context.Context, c *box.Stack) (err error) {
	if r.Buffers, err = r.Chains(c.Taken); err != nil {
		return err
	}
	r.resident = 0
	at := r.stacked(c)
	sizes, offsets := make([]int64, len(c.Buffers)), make([]int64, len(c.Buffers))
	for k := range r.Buffers {
		b := &r.Buffers[k]
		if b.Resident {
			b.Offset = r.resident
			r.resident += b.Bytes
		}
	}
	for i, k := range at {
		sizes[i] = r.Buffers[k].Bytes
	}
	if r.Arena, err = c.Stack.Place(sizes, offsets); err != nil {
		return err
	}
	for i, k := range at {
		r.Buffers[k].Offset = offsets[i]
	}
	r.Optimal = r.Arena == r.Loads.Peak
	return r.placeHost(ctx)
}

// stacked returns, for each buffer of the stacking of a region, its index in the region's
// buffers.
func (r *Region) stacked(c *box.Stack) []int {
	byStorage, byNode := map[int32]int{}, map[int]int{}
	for k := range r.Buffers {
		if b := &r.Buffers[k]; b.Node >= 0 {
			byNode[int(b.Node)] = k
		} else {
			byStorage[b.Storages[0]] = k
		}
	}
	at := make([]int, len(c.Buffers))
	for i, b := range c.Buffers {
		if len(b.Tensors) > 0 {
			at[i] = byStorage[b.Tensors[0]]
		} else {
			at[i] = byNode[int(r.StepOf[b.Node])]
		}
	}
	return at
}
