package planner

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
)

// PiecesOf returns the storages in which the tensors of storage i lie: itself, or pieces.
func (r *Region) PiecesOf(i int32) []int32 {
	if p := r.Storages[i].pieces; p != nil {
		return p
	}
	return []int32{i}
}

// bufferOf maps each storage to its buffer, or to -1.
func (r *Region) bufferOf() []int {
	of := make([]int, len(r.Storages))
	for i := range of {
		of[i] = -1
	}
	for k := range r.Buffers {
		for _, i := range r.Buffers[k].Storages {
			of[i] = k
		}
	}
	return of
}

// placedParents returns the buffers of each parent, in the order of their bytes.
func (r *Region) placedParents() [][]int {
	if len(r.parents) == 0 {
		return nil
	}
	of := r.bufferOf()
	list := make([][]int, len(r.parents))
	for i, p := range r.parents {
		for _, x := range p {
			list[i] = append(list[i], of[x])
		}
	}
	return list
}

// parentOf reports of each buffer whether it is a part of a parent; nil: none is.
func (r *Region) parentOf() []bool {
	if len(r.parents) == 0 {
		return nil
	}
	is := make([]bool, len(r.Buffers))
	for _, p := range r.placedParents() {
		for _, k := range p {
			is[k] = true
		}
	}
	return is
}

// parentBuffer makes one buffer of buffers that lie one behind the other.
func (r *Region) parentBuffer(parts []int) alloc.Buffer {
	list := make([]alloc.Buffer, len(parts))
	for i, k := range parts {
		b := &r.Buffers[k]
		list[i] = alloc.Buffer{Size: b.Bytes, First: b.First, Last: b.Last}
	}
	return box.Joined(list)
}

// PlanSpans lists the tensors that lie in several buffers, in the order in which they are
// made; graph inputs come first, by name.
func (r *Region) PlanSpans() []plan.Span {
	of := r.bufferOf()
	var firsts []graph.TensorID
	spans := map[graph.TensorID]plan.Span{}
	for i := range r.Storages {
		st := &r.Storages[i]
		if len(st.pieces) < 2 {
			continue
		}
		var span plan.Span
		tensors := slices.Clone(st.Tensors)
		r.sortMade(tensors)
		for _, t := range tensors {
			span.Tensors = append(span.Tensors, r.G.Tensors[t].Name)
		}
		for _, p := range st.pieces {
			span.Buffers = append(span.Buffers, of[p])
		}
		firsts = append(firsts, tensors[0])
		spans[tensors[0]] = span
	}
	slices.SortFunc(firsts, func(x, y graph.TensorID) int { return cmp.Compare(r.G.Tensors[x].Name, r.G.Tensors[y].Name) })
	r.sortMade(firsts)
	list := make([]plan.Span, len(firsts))
	for i, t := range firsts {
		list[i] = spans[t]
	}
	return list
}
