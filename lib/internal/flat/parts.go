package flat

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// parts makes tensors that are ranges of others share their bytes. There are two kinds:
//
//   - What a node makes of a tensor that it reads, as Slice and Split do, is a view of a range.
//     It takes no bytes, and who reads it reads the other tensor.
//   - What a node reads and makes another tensor of, as Concat does, is a piece of the result,
//     written in place. The result takes only the bytes that are in no piece, and who reads it
//     reads its pieces; they are held for as long as it.
func (g *Graph) parts(p *schedule.Problem) error {
	pieces := map[int32][]int32{}
	for i := range p.Tensors {
		id, parent := int32(i), g.Parent[i]
		if parent < 0 {
			continue
		}
		if int(parent) >= len(p.Tensors) || parent == id {
			return refusef("tensor %d: parent: expected another tensor below %d, or -1, found %d", i, len(p.Tensors), parent)
		}
		from := at(g.Offset, i, 0)
		if from < 0 || from > g.Size[parent]-g.Size[i] {
			return refusef("tensor %d: %d bytes from byte %d on: expected a range of tensor %d, which has %d", i, g.Size[i], from, parent, g.Size[parent])
		}
		t, whole := &p.Tensors[i], &p.Tensors[parent]
		if t.Resident != whole.Resident {
			return refusef("tensor %d, a range of tensor %d: expected both resident, or none", i, parent)
		}
		if whole.Producer >= 0 && slices.Contains(t.Consumers, whole.Producer) {
			pieces[parent] = append(pieces[parent], id)
		} else if t.Producer < 0 || !slices.Contains(whole.Consumers, t.Producer) {
			return refusef("tensor %d, a range of tensor %d: expected that the node that makes one of them reads the other", i, parent)
		}
	}
	for g.viewsToParents(p, pieces) { // once for each view of a view
	}
	for _, parent := range sortedKeys(pieces) {
		if err := g.joinPieces(p, parent, pieces[parent]); err != nil {
			return err
		}
	}
	return nil
}

// viewsToParents adds the readers of views to their parents; false: nothing has changed.
func (g *Graph) viewsToParents(p *schedule.Problem, pieces map[int32][]int32) (changed bool) {
	for i := range p.Tensors {
		parent := g.Parent[i]
		if parent < 0 || slices.Contains(pieces[parent], int32(i)) {
			continue
		}
		t, whole := &p.Tensors[i], &p.Tensors[parent]
		t.Bytes, t.Reuses = 0, nil
		for _, n := range t.Consumers {
			if !slices.Contains(whole.Consumers, n) {
				whole.Consumers, changed = append(whole.Consumers, n), true
			}
		}
		if t.Output && !whole.Output {
			whole.Output, changed = true, true
		}
	}
	return changed
}

// joinPieces lets the pieces of a tensor be held for as long as it.
func (g *Graph) joinPieces(p *schedule.Problem, parent int32, ids []int32) error {
	whole := &p.Tensors[parent]
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(at(g.Offset, int(a), 0), at(g.Offset, int(b), 0)), int(a-b))
	})
	end := int64(0)
	for _, i := range ids {
		t := &p.Tensors[i]
		from := at(g.Offset, int(i), 0)
		if from < end {
			return refusef("tensor %d, a piece of tensor %d from byte %d on: expected it behind the piece before, at %d", i, parent, from, end)
		}
		end = from + g.Size[i]
		whole.Bytes -= g.Size[i]
		t.Consumers = append(t.Consumers, whole.Consumers...)
		t.Output = t.Output || whole.Output
	}
	if g.Parent[parent] >= 0 {
		return refusef("tensor %d has pieces: expected that it is no range itself", parent)
	}
	whole.Reuses = nil
	return nil
}

func sortedKeys(m map[int32][]int32) []int32 {
	var keys []int32
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
