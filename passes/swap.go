package passes

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

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

// swapped returns the tensors that the plan that was chosen swaps out.
func (b *limitSearch) swapped() []graph.TensorID { return b.tensors(b.found) }

// tensors returns those that a plan swaps out.
func (b *limitSearch) tensors(p *budget.SwapPlan) (tensors []graph.TensorID) {
	for _, x := range p.Swaps {
		tensors = append(tensors, b.before.storages[x.Tensor].tensors[0])
	}
	return tensors
}

// swaps reports whether tensors of a region are swapped out.
func (r *region) swaps() bool {
	return slices.ContainsFunc(r.storages, func(st storage) bool { return st.host })
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
