package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// At returns the present step of a node by its index in the file.
func (r *Region) At(n int) graph.NodeID {
	if r.StepOf == nil {
		return graph.NodeID(n)
	}
	return r.StepOf[n]
}

// Restore puts the nodes of a region and of its bodies back into the order of the file.
func (r *Region) Restore() error {
	for _, b := range r.Bodies {
		if err := b.R.Restore(); err != nil {
			return err
		}
	}
	return r.reorder(Identity(len(r.G.Nodes)))
}

// reorder reorders the nodes, and everything that refers to them by index. The
// order lists indices in the file.
func (r *Region) reorder(order []int32) error {
	r.Renumber(order)
	var err error
	r.Loads, err = r.Problem().Evaluate(Identity(len(order)))
	return err
}

// InFileOrder puts the nodes into the order of the file, in which nodes may not be able to run: an
// update may stand before another reader of the old value. The loads stay those of the order before.
func (r *Region) InFileOrder() { r.Renumber(Identity(len(r.G.Nodes))) }

// Renumber reorders the nodes, and everything that refers to them by index, but not the loads.
func (r *Region) Renumber(order []int32) {
	r.quick = nil
	if r.StepOf == nil {
		r.StepOf = make([]graph.NodeID, len(order))
		for i := range r.StepOf {
			r.StepOf[i] = graph.NodeID(i)
		}
	}
	ids := make([]graph.NodeID, len(order)) // the nodes in their present order
	workspace, scratch := make([]int64, len(order)), slices.Clone(r.Scratch)
	place := make([]graph.NodeID, len(order)) // of each node in its present position: its step in the new order
	for step, n := range order {
		now := r.StepOf[n]
		ids[step], workspace[step], place[now] = now, r.Workspace[now], graph.NodeID(step)
		if scratch != nil {
			scratch[step] = r.Scratch[now]
		}
	}
	r.G.Reorder(ids)
	r.Workspace, r.Scratch = workspace, scratch
	for i := range r.Storages {
		if st := &r.Storages[i]; st.Maker >= 0 {
			st.Maker = place[st.Maker]
		}
	}
	for i := range r.Bodies {
		r.Bodies[i].Node = place[r.Bodies[i].Node]
	}
	for i, now := range r.StepOf {
		r.StepOf[i] = place[now]
	}
}

func Identity(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}
