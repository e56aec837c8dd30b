package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// problem makes the bare problem of a region. Tensor i is storage i. Tensors of 0
// bytes follow; they carry the precedence that merging views and leaving out
// dynamic tensors would lose.
func (r *region) problem() *schedule.Problem {
	p := &schedule.Problem{Name: r.g.Name, Nodes: make([]schedule.Node, len(r.g.Nodes))}
	for i, n := range r.g.Nodes {
		p.Nodes[i] = schedule.Node{Name: n.Name, Op: n.Op, Workspace: r.workspace[i]}
	}
	p.Tensors = make([]schedule.Tensor, 0, len(r.g.Tensors))
	for i := range r.storages {
		st := &r.storages[i]
		t := schedule.Tensor{
			Name: r.nameOf(int32(i)), Bytes: st.bytes, Producer: int32(st.maker),
			Resident: !r.live(int32(i)), Output: st.output,
		}
		for _, n := range r.readers(int32(i)) {
			if n != st.maker {
				t.Consumers = append(t.Consumers, int32(n))
			}
		}
		t.Reuses = r.reuses(int32(i))
		p.Tensors = append(p.Tensors, t)
	}
	for id, t := range r.g.Tensors {
		if i := r.storageOf[id]; t.Maker < 0 || i != noStorage && r.storages[i].maker == t.Maker {
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

// nameOf is the name of the first tensor of a storage.
func (r *region) nameOf(i int32) string {
	st := &r.storages[i]
	if len(st.tensors) == 0 {
		return r.g.Tensors[st.covers[0]].Name
	}
	return r.g.Tensors[st.tensors[0]].Name
}

// reuses returns the storages that storage i may overwrite: those of the inputs
// for which ops allows it, if they have the same size and are not resident,
// outside the region or graph outputs.
func (r *region) reuses(i int32) schedule.Reuses {
	if r.reuse != nil {
		return slices.Clone(r.reuse[i])
	}
	st := &r.storages[i]
	if r.noInplace || st.maker < 0 || !r.live(i) || st.bytes == 0 {
		return nil
	}
	var list schedule.Reuses
	n := r.g.Nodes[st.maker]
	for _, a := range n.Semantics.Inplace {
		if n.Outputs[a.Out] != st.tensors[0] {
			continue
		}
		over := r.storageOf[n.Inputs[a.In]]
		if over == noStorage || !r.live(over) || r.storages[over].output || r.storages[over].bytes != st.bytes {
			continue
		}
		if !slices.Contains(list, over) {
			list = append(list, over)
		}
	}
	return list
}
