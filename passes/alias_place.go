package passes

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
)

// piecesOf returns the storages in which the tensors of storage i lie: itself, or pieces.
func (r *region) piecesOf(i int32) []int32 {
	if p := r.storages[i].pieces; p != nil {
		return p
	}
	return []int32{i}
}

// bufferOf maps each storage to its buffer, or to -1.
func (r *region) bufferOf() []int {
	of := make([]int, len(r.storages))
	for i := range of {
		of[i] = -1
	}
	for k := range r.buffers {
		for _, i := range r.buffers[k].storages {
			of[i] = k
		}
	}
	return of
}

// placedParents returns the buffers of each parent, in the order of their bytes.
func (r *region) placedParents() [][]int {
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
func (r *region) parentOf() []bool {
	if len(r.parents) == 0 {
		return nil
	}
	is := make([]bool, len(r.buffers))
	for _, p := range r.placedParents() {
		for _, k := range p {
			is[k] = true
		}
	}
	return is
}

// parentBuffer makes one buffer of buffers that lie one behind the other.
func (r *region) parentBuffer(parts []int) alloc.Buffer {
	list := make([]alloc.Buffer, len(parts))
	for i, k := range parts {
		b := &r.buffers[k]
		list[i] = alloc.Buffer{Size: b.bytes, First: b.first, Last: b.last}
	}
	return box.Joined(list)
}

// planSpans lists the tensors that lie in several buffers, in the order in which they are
// made; graph inputs come first, by name.
func (r *region) planSpans() []plan.Span {
	of := r.bufferOf()
	var firsts []graph.TensorID
	spans := map[graph.TensorID]plan.Span{}
	for i := range r.storages {
		st := &r.storages[i]
		if len(st.pieces) < 2 {
			continue
		}
		var span plan.Span
		tensors := slices.Clone(st.tensors)
		r.sortMade(tensors)
		for _, t := range tensors {
			span.Tensors = append(span.Tensors, r.g.Tensors[t].Name)
		}
		for _, p := range st.pieces {
			span.Buffers = append(span.Buffers, of[p])
		}
		firsts = append(firsts, tensors[0])
		spans[tensors[0]] = span
	}
	slices.SortFunc(firsts, func(x, y graph.TensorID) int { return cmp.Compare(r.g.Tensors[x].Name, r.g.Tensors[y].Name) })
	r.sortMade(firsts)
	list := make([]plan.Span, len(firsts))
	for i, t := range firsts {
		list[i] = spans[t]
	}
	return list
}
