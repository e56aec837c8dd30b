package passes

import (
	"context"
	"math"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/schedule"
)

// Host is a memory beside the device's, for which tensors may leave.
type Host struct {
	Link        int64 // bytes a second that it takes, and gives at the same time
	NoRecompute bool  // no node runs again
}

// hosted gives the steps during which the host holds the copy that storage i is. The
// transfer out may begin once the last reader before SwapOut has run, and has ended
// when SwapOut does; the transfer back begins with SwapIn and has ended when the
// first reader of what it brings begins. A tensor whose size is a bound is copied
// while SwapOut or SwapIn runs. It takes O(readers) time.
func (r *region) hosted(i int32) (first, last int) {
	st := &r.storages[i]
	g := r.g
	first = r.leaves(st.maker)
	last = int(st.maker)
	for _, t := range st.tensors {
		last = max(last, int(g.Tensors[t].Maker))
		for _, n := range g.Tensors[t].Readers {
			last = max(last, int(n))
			if back := r.returned(n); back > 0 {
				last = max(last, back-1)
			}
		}
	}
	if st.output {
		last = max(len(g.Nodes)-1, 0)
	}
	return first, last
}

// leaves gives the first step at which the transfer of a SwapOut may be under way.
func (r *region) leaves(out graph.NodeID) int {
	t := r.g.Nodes[out].Inputs[0]
	source := r.of[t]
	if source == noStorage || r.g.Tensors[t].Bounded {
		return int(out)
	}
	first := 0
	for _, u := range r.storages[source].tensors {
		if m := r.g.Tensors[u].Maker; m >= 0 && m < out {
			first = max(first, int(m)+1, r.returned(m))
		}
		for _, n := range r.g.Tensors[u].Readers {
			if n < out {
				first = max(first, int(n)+1)
			}
		}
	}
	return first
}

// returned gives the step that waits for the transfer of a SwapIn, 0 where that is
// its own or n is none.
func (r *region) returned(n graph.NodeID) int {
	node := r.g.Nodes[n]
	if !node.IsSwapIn() {
		return 0
	}
	from, made := r.of[node.Inputs[0]], r.g.Tensors[node.Outputs[0]]
	if from == noStorage || !r.storages[from].host || made.Bounded || len(made.Readers) == 0 {
		return 0
	}
	return int(made.Readers[0])
}

// placeHost places the tensors that were swapped out, in a pool of their own.
func (s *State) placeHost(ctx context.Context, r *region) error {
	p := alloc.Problem{Alignment: s.opt.Align}
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
	// Memory of the host is cheap: no search for the last per cent.
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

// stays reports for each tensor of the bare problem of a region whether it has to
// stay in the arena: only what has one size for certain leaves.
func (r *region) stays(p *schedule.Problem) []bool {
	list := make([]bool, len(p.Tensors))
	for i := range r.storages {
		list[i] = r.storages[i].bounded || r.storages[i].output
	}
	return list
}

// swapped gives the tensors that the swaps of the plan take away.
func (b *budgeting) swapped() (tensors []graph.TensorID) {
	for _, x := range b.found.Swaps {
		tensors = append(tensors, b.before.storages[x.Tensor].tensors[0])
	}
	return tensors
}

// wait gives the nanoseconds for which the steps of a region wait for transfers, over
// a link that carries so many bytes a second each way: those out one after the other
// in the order in which they may begin, those back in that of SwapIn.
func (r *region) wait(costs []int64, link int64) int64 {
	g := r.g
	leaving := make([][]graph.NodeID, len(g.Nodes))  // by the step from which on they may be under way
	expected := make([][]graph.NodeID, len(g.Nodes)) // by the step that waits for them
	for i, n := range g.Nodes {
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			first := r.leaves(id)
			leaving[first] = append(leaving[first], id)
		case n.IsSwapIn():
			if back := r.returned(id); back > 0 {
				expected[back] = append(expected[back], id)
			}
		}
	}
	var now, out, in, busy int64
	ends := make([]int64, len(g.Nodes)) // of the transfers
	for i, n := range g.Nodes {
		for _, id := range leaving[i] {
			out = max(out, now) + r.transfer(id, link)
			ends[id] = out
		}
		for _, id := range expected[i] {
			now = max(now, ends[id])
		}
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			now = max(now, ends[id])
		case n.IsSwapIn():
			in = max(in, now) + r.transfer(id, link)
			ends[id] = in
			if r.returned(id) == 0 {
				now = in
			}
		}
		now += costs[i]
		busy += costs[i]
	}
	return now - busy
}

// transfer gives how long what a SwapOut or SwapIn moves is on its way, in
// nanoseconds.
func (r *region) transfer(n graph.NodeID, link int64) int64 {
	of := r.of[r.g.Nodes[n].Outputs[0]]
	if of == noStorage {
		return 0
	}
	return int64(math.Ceil(min(float64(r.storages[of].bytes)/float64(link)*1e9, mostCost)))
}
