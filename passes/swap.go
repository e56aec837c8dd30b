package passes

import (
	"context"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/schedule"
)

// Host is a memory beside the device's to which tensors can be swapped.
type Host struct {
	Link        int64 // bandwidth in bytes per second, in each direction at the same time
	NoRecompute bool  // recompute no node
}

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

// mustStay reports for each tensor of the bare problem whether it must stay in the
// arena. Only tensors of known size can be swapped.
func (r *region) mustStay(p *schedule.Problem) []bool {
	list := make([]bool, len(p.Tensors))
	betweenBytes := slicing.BetweenBytes(r.g)
	for i := range r.storages {
		st := &r.storages[i]
		list[i] = st.bounded || st.output || slices.ContainsFunc(st.tensors, betweenBytes)
	}
	return list
}

// swapped returns the tensors that the plan swaps out.
func (b *limitSearch) swapped() (tensors []graph.TensorID) {
	for _, x := range b.found.Swaps {
		tensors = append(tensors, b.before.storages[x.Tensor].tensors[0])
	}
	return tensors
}

// waitingTime returns the nanoseconds for which the steps of a region wait for transfers
// over a link of that many bytes per second in each direction. Transfers out run
// one after the other, in the order in which they may begin; transfers back run
// in the order of their SwapIn nodes.
func (r *region) waitingTime(costs []int64, link int64) int64 {
	g := r.g
	leaving := make([][]graph.NodeID, len(g.Nodes))  // by the first step at which they may be in progress
	expected := make([][]graph.NodeID, len(g.Nodes)) // by the step that waits for them
	for i, n := range g.Nodes {
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			first := r.transferOutStart(id)
			leaving[first] = append(leaving[first], id)
		case n.IsSwapIn():
			if back := r.transferInEnd(id); back > 0 {
				expected[back] = append(expected[back], id)
			}
		}
	}
	var now, out, in, busy int64
	ends := make([]int64, len(g.Nodes)) // when each transfer ends
	for i, n := range g.Nodes {
		for _, id := range leaving[i] {
			out = max(out, now) + r.transferTime(id, link)
			ends[id] = out
		}
		for _, id := range expected[i] {
			now = max(now, ends[id])
		}
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			now = max(now, ends[id])
		case n.IsSwapIn():
			in = max(in, now) + r.transferTime(id, link)
			ends[id] = in
			if r.transferInEnd(id) == 0 {
				now = in
			}
		}
		now += costs[i]
		busy += costs[i]
	}
	return now - busy
}

// transferTime returns the time of the transfer of a SwapOut or SwapIn, in
// nanoseconds.
func (r *region) transferTime(n graph.NodeID, link int64) int64 {
	of := r.storageOf[r.g.Nodes[n].Outputs[0]]
	if of == noStorage {
		return 0
	}
	return int64(math.Ceil(min(float64(r.storages[of].bytes)/float64(link)*1e9, mostCost)))
}
