package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/alloc"
)

// placeHost places the tensors that were swapped out, in a pool of their own.
func (r *Region) placeHost(ctx context.Context) error {
	p := alloc.Problem{Alignment: r.Align}
	var placed []int
	for k := range r.Buffers {
		if b := &r.Buffers[k]; b.Host {
			p.Buffers = append(p.Buffers, alloc.Buffer{Size: b.Bytes, First: b.First, Last: b.Last})
			placed = append(placed, k)
		}
	}
	r.Host = 0
	if len(placed) == 0 {
		return nil
	}
	// Host memory is cheap: the last per cent is not worth a search.
	found, err := alloc.Solve(context.WithoutCancel(ctx), p, alloc.Options{Effort: alloc.EffortFast})
	if err != nil {
		return err
	}
	for i, k := range placed {
		r.Buffers[k].Offset = found.Offsets[i]
	}
	r.Host = found.Arena
	return nil
}
