package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// readers returns the nodes that read any tensor of a storage, in ascending
// order.
func (r *Region) readers(i int32) []graph.NodeID {
	st := &r.Storages[i]
	if len(st.Tensors) == 1 && len(st.covers) == 0 {
		return r.G.Tensors[st.Tensors[0]].Readers
	}
	var all []graph.NodeID
	for _, list := range [][]graph.TensorID{st.Tensors, st.covers} {
		for _, t := range list {
			all = append(all, r.G.Tensors[t].Readers...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Lifetime returns the first and last step at which storage i holds its bytes.
// The nodes must be in the planned order.
func (r *Region) Lifetime(i int32) (first, last int) {
	st := &r.Storages[i]
	end := max(len(r.G.Nodes)-1, 0)
	if st.Resident {
		return 0, end
	}
	if st.Host {
		return r.hostLifetime(i)
	}
	if st.Maker >= 0 {
		first = int(st.Maker)
	}
	last = first
	if readers := r.readers(i); len(readers) > 0 {
		last = max(last, int(readers[len(readers)-1]))
	}
	// A view that nobody reads must be made while the storage is live.
	for _, list := range [][]graph.TensorID{st.Tensors, st.covers} {
		for _, t := range list {
			last = max(last, int(r.G.Tensors[t].Maker))
		}
	}
	if st.Output {
		last = end
	}
	return first, last
}

// hostLifetime returns the steps during which host memory holds the copy, storage i.
// The transfer out may begin once the last reader before SwapOut has run, and
// ends with SwapOut. The transfer back begins with SwapIn and ends before the
// first reader of its result runs. A tensor whose size is only bounded is copied
// while SwapOut or SwapIn runs. It takes O(readers) time.
func (r *Region) hostLifetime(i int32) (first, last int) {
	st := &r.Storages[i]
	g := r.G
	first = r.TransferOutStart(st.Maker)
	last = int(st.Maker)
	for _, t := range st.Tensors {
		last = max(last, int(g.Tensors[t].Maker))
		for _, n := range g.Tensors[t].Readers {
			last = max(last, int(n))
			if back := r.TransferInEnd(n); back > 0 {
				last = max(last, back-1)
			}
		}
	}
	if st.Output {
		last = max(len(g.Nodes)-1, 0)
	}
	return first, last
}

// TransferOutStart returns the first step at which the transfer of a SwapOut may be in
// progress.
func (r *Region) TransferOutStart(out graph.NodeID) int {
	t := r.G.Nodes[out].Inputs[0]
	source := r.StorageOf[t]
	if source == NoStorage || r.G.Tensors[t].Bounded {
		return int(out)
	}
	first := 0
	for _, u := range r.Storages[source].Tensors {
		if m := r.G.Tensors[u].Maker; m >= 0 && m < out {
			first = max(first, int(m)+1, r.TransferInEnd(m))
		}
		for _, n := range r.G.Tensors[u].Readers {
			if n < out {
				first = max(first, int(n)+1)
			}
		}
	}
	return first
}

// TransferInEnd returns the step that waits for the transfer of a SwapIn; 0 if that is
// the SwapIn itself, or if node n is not a SwapIn.
func (r *Region) TransferInEnd(n graph.NodeID) int {
	node := r.G.Nodes[n]
	if !node.IsSwapIn() {
		return 0
	}
	from, made := r.StorageOf[node.Inputs[0]], r.G.Tensors[node.Outputs[0]]
	if from == NoStorage || !r.Storages[from].Host || made.Bounded || len(made.Readers) == 0 {
		return 0
	}
	return int(made.Readers[0])
}
