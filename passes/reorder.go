package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// at returns the present step of a node by its index in the file.
func (r *region) at(n int) graph.NodeID {
	if r.stepOf == nil {
		return graph.NodeID(n)
	}
	return r.stepOf[n]
}

// restore puts the nodes of a region and of its bodies back into the order of the file.
func (r *region) restore() error {
	for _, b := range r.bodies {
		if err := b.r.restore(); err != nil {
			return err
		}
	}
	return r.reorder(identity(len(r.g.Nodes)))
}

// reorder reorders the nodes, and everything that refers to them by index. The
// order lists indices in the file.
func (r *region) reorder(order []int32) error {
	r.renumber(order)
	var err error
	r.loads, err = r.problem().Evaluate(identity(len(order)))
	return err
}

// inFileOrder puts the nodes into the order of the file, in which nodes may not be able to run: an
// update may stand before another reader of the old value. The loads stay those of the order before.
func (r *region) inFileOrder() { r.renumber(identity(len(r.g.Nodes))) }

// renumber reorders the nodes, and everything that refers to them by index, but not the loads.
func (r *region) renumber(order []int32) {
	r.quick = nil
	if r.stepOf == nil {
		r.stepOf = make([]graph.NodeID, len(order))
		for i := range r.stepOf {
			r.stepOf[i] = graph.NodeID(i)
		}
	}
	ids := make([]graph.NodeID, len(order)) // the nodes in their present order
	workspace, scratch := make([]int64, len(order)), slices.Clone(r.scratch)
	place := make([]graph.NodeID, len(order)) // of each node in its present position: its step in the new order
	for step, n := range order {
		now := r.stepOf[n]
		ids[step], workspace[step], place[now] = now, r.workspace[now], graph.NodeID(step)
		if scratch != nil {
			scratch[step] = r.scratch[now]
		}
	}
	r.g.Reorder(ids)
	r.workspace, r.scratch = workspace, scratch
	for i := range r.storages {
		if st := &r.storages[i]; st.maker >= 0 {
			st.maker = place[st.maker]
		}
	}
	for i := range r.bodies {
		r.bodies[i].node = place[r.bodies[i].node]
	}
	for i, now := range r.stepOf {
		r.stepOf[i] = place[now]
	}
}

func identity(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}
