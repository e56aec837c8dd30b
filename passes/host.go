package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/alloc"
)

// placeHost places the tensors that were swapped out, in a pool of their own.
func (r *region) placeHost(ctx context.Context) error {
	p := alloc.Problem{Alignment: r.align}
	var placed []int
	for k := range r.buffers {
		if b := &r.buffers[k]; b.host {
			p.Buffers = append(p.Buffers, alloc.Buffer{Size: b.bytes, First: b.first, Last: b.last})
			placed = append(placed, k)
		}
	}
	r.host = 0
	if len(placed) == 0 {
		return nil
	}
	// Host memory is cheap: the last per cent is not worth a search.
	found, err := alloc.Solve(context.WithoutCancel(ctx), p, alloc.Options{Effort: alloc.EffortFast})
	if err != nil {
		return err
	}
	for i, k := range placed {
		r.buffers[k].offset = found.Offsets[i]
	}
	r.host = found.Arena
	return nil
}
