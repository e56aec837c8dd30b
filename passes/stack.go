package passes

import "context"

// orderStack puts the nodes of a region into the order that was chosen for all points.
func (r *region) orderStack() error {
	if err := r.reorder(r.stack.Order); err != nil {
		return err
	}
	r.loads.Taken = r.stack.Taken
	if r.stack.Listing != nil {
		r.listAs(r.stack.Order, r.stack.Listing, r.stack.BestPeak)
	}
	return nil
}

// placeStack makes the buffers of a region and places those of the arena by the stacking
// that was chosen for all points.
func (r *region) placeStack(ctx context.Context) (err error) {
	c := r.stack
	if c.Memory != nil {
		_, err := r.placeStackInPools()
		return err
	}
	if r.buffers, err = r.chains(c.Taken); err != nil {
		return err
	}
	r.resident = 0
	at := r.stacked()
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
func (r *region) stacked() []int {
	byStorage, byNode := map[int32]int{}, map[int]int{}
	for k := range r.buffers {
		if b := &r.buffers[k]; b.node >= 0 {
			byNode[int(b.node)] = k
		} else {
			byStorage[b.storages[0]] = k
		}
	}
	at := make([]int, len(r.stack.Buffers))
	for i, b := range r.stack.Buffers {
		if len(b.Tensors) > 0 {
			at[i] = byStorage[b.Tensors[0]]
		} else {
			at[i] = byNode[int(r.stepOf[b.Node])]
		}
	}
	return at
}
