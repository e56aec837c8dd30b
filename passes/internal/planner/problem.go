package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// Problem makes the bare problem of a region. Tensor i is storage i. Tensors of 0
// bytes follow; they carry the precedence that merging views and leaving out
// dynamic tensors would lose.
func (r *Region) Problem() *schedule.Problem {
	p := &schedule.Problem{Name: r.G.Name, Nodes: make([]schedule.Node, len(r.G.Nodes))}
	for i, n := range r.G.Nodes {
		p.Nodes[i] = schedule.Node{Name: n.Name, Op: n.Op, Workspace: r.Workspace[i]}
	}
	p.Tensors = make([]schedule.Tensor, 0, len(r.G.Tensors))
	for i := range r.Storages {
		st := &r.Storages[i]
		t := schedule.Tensor{
			Name: r.NameOf(int32(i)), Bytes: st.Bytes, Producer: int32(st.Maker),
			Resident: !r.Live(int32(i)), Output: st.Output,
		}
		for _, n := range r.readers(int32(i)) {
			if n != st.Maker {
				t.Consumers = append(t.Consumers, int32(n))
			}
		}
		t.Reuses = r.reuses(int32(i))
		p.Tensors = append(p.Tensors, t)
	}
	for id, t := range r.G.Tensors {
		if i := r.StorageOf[id]; t.Maker < 0 || i != NoStorage && r.Storages[i].Maker == t.Maker {
			continue
		}
		control := schedule.Tensor{Name: t.Name, Kind: "control", Producer: int32(t.Maker)}
		for _, n := range t.Readers {
			control.Consumers = append(control.Consumers, int32(n))
		}
		if len(control.Consumers) > 0 {
			p.Tensors = append(p.Tensors, control)
		}
	}
	r.updateEdges(p)
	return p
}

// NameOf is the name of the first tensor of a storage.
func (r *Region) NameOf(i int32) string {
	st := &r.Storages[i]
	if len(st.Tensors) == 0 {
		return r.G.Tensors[st.covers[0]].Name
	}
	return r.G.Tensors[st.Tensors[0]].Name
}

// reuses returns the storages that storage i may overwrite: those of the inputs
// for which ops allows it, if they have the same size and are not resident,
// outside the region or graph outputs.
func (r *Region) reuses(i int32) schedule.Reuses {
	if r.reuse != nil {
		return slices.Clone(r.reuse[i])
	}
	st := &r.Storages[i]
	if r.NoInplace || st.Maker < 0 || !r.Live(i) || st.Bytes == 0 {
		return nil
	}
	var list schedule.Reuses
	n := r.G.Nodes[st.Maker]
	for _, a := range n.Semantics.Inplace {
		if n.Outputs[a.Out] != st.Tensors[0] {
			continue
		}
		over := r.StorageOf[n.Inputs[a.In]]
		if over == NoStorage || !r.Live(over) || r.Storages[over].Output || r.Storages[over].Bytes != st.Bytes {
			continue
		}
		if !slices.Contains(list, over) {
			list = append(list, over)
		}
	}
	return list
}
