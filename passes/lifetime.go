package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// readers returns the nodes that read any tensor of a storage, in ascending
// order.
func (r *region) readers(i int32) []graph.NodeID {
	st := &r.storages[i]
	if len(st.tensors) == 1 && len(st.covers) == 0 {
		return r.g.Tensors[st.tensors[0]].Readers
	}
	var all []graph.NodeID
	for _, list := range [][]graph.TensorID{st.tensors, st.covers} {
		for _, t := range list {
			all = append(all, r.g.Tensors[t].Readers...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lifetime returns the first and last step at which storage i holds its bytes.
// The nodes must be in the planned order.
func (r *region) lifetime(i int32) (first, last int) {
	st := &r.storages[i]
	end := max(len(r.g.Nodes)-1, 0)
	if st.resident {
		return 0, end
	}
	if st.host {
		return r.hostLifetime(i)
	}
	if st.maker >= 0 {
		first = int(st.maker)
	}
	last = first
	if readers := r.readers(i); len(readers) > 0 {
		last = max(last, int(readers[len(readers)-1]))
	}
	// A view that nobody reads must be made while the storage is live.
	for _, list := range [][]graph.TensorID{st.tensors, st.covers} {
		for _, t := range list {
			last = max(last, int(r.g.Tensors[t].Maker))
		}
	}
	if st.output {
		last = end
	}
	return first, last
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
