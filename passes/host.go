package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
)

// hostLifetime returns the steps during which host memory holds the copy, storage i.
// The transfer out may begin once the last reader before SwapOut has run, and
// ends with SwapOut. The transfer back begins with SwapIn and ends before the
// first reader of its result runs. A tensor whose size is only bounded is copied
// while SwapOut or SwapIn runs. It takes O(readers) time.
func (r *region) hostLifetime(i int32) (first, last int) {
	st := &r.storages[i]
	g := r.g
	first = r.transferOutStart(st.maker)
	last = int(st.maker)
	for _, t := range st.tensors {
		last = max(last, int(g.Tensors[t].Maker))
		for _, n := range g.Tensors[t].Readers {
			last = max(last, int(n))
			if back := r.transferInEnd(n); back > 0 {
				last = max(last, back-1)
			}
		}
	}
	if st.output {
		last = max(len(g.Nodes)-1, 0)
	}
	return first, last
}

// transferOutStart returns the first step at which the transfer of a SwapOut may be in
// progress.
func (r *region) transferOutStart(out graph.NodeID) int {
	t := r.g.Nodes[out].Inputs[0]
	source := r.storageOf[t]
	if source == noStorage || r.g.Tensors[t].Bounded {
		return int(out)
	}
	first := 0
	for _, u := range r.storages[source].tensors {
		if m := r.g.Tensors[u].Maker; m >= 0 && m < out {
			first = max(first, int(m)+1, r.transferInEnd(m))
		}
		for _, n := range r.g.Tensors[u].Readers {
			if n < out {
				first = max(first, int(n)+1)
			}
		}
	}
	return first
}

// transferInEnd returns the step that waits for the transfer of a SwapIn; 0 if that is
// the SwapIn itself, or if node n is not a SwapIn.
func (r *region) transferInEnd(n graph.NodeID) int {
	node := r.g.Nodes[n]
	if !node.IsSwapIn() {
		return 0
	}
	from, made := r.storageOf[node.Inputs[0]], r.g.Tensors[node.Outputs[0]]
	if from == noStorage || !r.storages[from].host || made.Bounded || len(made.Readers) == 0 {
		return 0
	}
	return int(made.Readers[0])
}

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
