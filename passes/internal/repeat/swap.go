package repeat

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/schedule"
)

// MustStay reports for each tensor of the bare problem whether it must stay in the
// arena. Only tensors of known size can be swapped.
func MustStay(r *planner.Region, p *schedule.Problem) []bool {
	list := make([]bool, len(p.Tensors))
	betweenBytes := slicing.BetweenBytes(r.G)
	for i := range r.Storages {
		st := &r.Storages[i]
		list[i] = st.Bounded || st.Output || slices.ContainsFunc(st.Tensors, betweenBytes)
	}
	return list
}

// Swaps reports whether tensors of a region are swapped out.
func Swaps(r *planner.Region) bool {
	return slices.ContainsFunc(r.Storages, func(st planner.Storage) bool { return st.Host })
}

// WaitingTime returns the nanoseconds for which the steps of a region wait for transfers
// over a link of that many bytes per second in each direction. Transfers out run
// one after the other, in the order in which they may begin; transfers back run
// in the order of their SwapIn nodes.
func WaitingTime(r *planner.Region, costs []int64, link int64) int64 {
	g := r.G
	leaving := make([][]graph.NodeID, len(g.Nodes))  // by the first step at which they may be in progress
	expected := make([][]graph.NodeID, len(g.Nodes)) // by the step that waits for them
	for i, n := range g.Nodes {
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			first := r.TransferOutStart(id)
			leaving[first] = append(leaving[first], id)
		case n.IsSwapIn():
			if back := r.TransferInEnd(id); back > 0 {
				expected[back] = append(expected[back], id)
			}
		}
	}
	var now, out, in, busy int64
	ends := make([]int64, len(g.Nodes)) // when each transfer ends
	for i, n := range g.Nodes {
		for _, id := range leaving[i] {
			out = max(out, now) + transferTime(r, id, link)
			ends[id] = out
		}
		for _, id := range expected[i] {
			now = max(now, ends[id])
		}
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			now = max(now, ends[id])
		case n.IsSwapIn():
			in = max(in, now) + transferTime(r, id, link)
			ends[id] = in
			if r.TransferInEnd(id) == 0 {
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
func transferTime(r *planner.Region, n graph.NodeID, link int64) int64 {
	of := r.StorageOf[r.G.Nodes[n].Outputs[0]]
	if of == planner.NoStorage {
		return 0
	}
	return int64(math.Ceil(min(float64(r.Storages[of].Bytes)/float64(link)*1e9, cost.Most)))
}
