package flat

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// ranges are the tensors that are ranges of others. There are two kinds:
//
//   - What a node makes of a tensor that it reads, as Slice and Split do, is a view of a range.
//     It takes no bytes. Who reads or overwrites it reads or overwrites the other tensor.
//   - What a node reads and makes another tensor of, as Concat does, is a piece of the result,
//     written in place. The result takes only the bytes that are in no piece. Who reads or
//     overwrites it does so with its pieces; they are held for as long as it.
type ranges struct {
	root   []int32           // by tensor: itself; of a view: the tensor, no view, that it is a range of
	pieces map[int32][]int32 // by whole, ascending
}

// ranges tells the kinds of ranges apart, in a valid problem.
func (g *Graph) ranges(p *schedule.Problem) (*ranges, error) {
	r := &ranges{root: make([]int32, len(p.Tensors)), pieces: map[int32][]int32{}}
	readers := map[int32][]int32{} // sorted
	for i := range p.Tensors {
		id, parent := int32(i), g.Parent[i]
		r.root[i] = id
		if parent < 0 {
			continue
		}
		if int(parent) >= len(p.Tensors) || parent == id {
			return nil, refusef("tensor %d: parent: expected another tensor below %d, or -1, found %d", i, len(p.Tensors), parent)
		}
		from := at(g.Offset, i, 0)
		if from < 0 || from > g.Size[parent]-g.Size[i] {
			return nil, refusef("tensor %d: %d bytes from byte %d on: expected a range of tensor %d, which has %d", i, g.Size[i], from, parent, g.Size[parent])
		}
		t, whole := &p.Tensors[i], &p.Tensors[parent]
		if t.Resident != whole.Resident {
			return nil, refusef("tensor %d, a range of tensor %d: expected both resident, or none", i, parent)
		}
		if readers[parent] == nil {
			readers[parent] = slices.Sorted(slices.Values(whole.Consumers))
		}
		if whole.Producer >= 0 && slices.Contains(t.Consumers, whole.Producer) {
			r.pieces[parent] = append(r.pieces[parent], id)
		} else if _, reads := slices.BinarySearch(readers[parent], t.Producer); reads {
			r.root[i] = parent
		} else {
			return nil, refusef("tensor %d, a range of tensor %d: expected that the node that makes one of them reads the other", i, parent)
		}
	}
	for i := range r.root { // views of views: the nodes are in no cycle, so neither are these
		top := int32(i)
		for r.root[top] != top {
			top = r.root[top]
		}
		for t := int32(i); t != top; {
			t, r.root[t] = r.root[t], top
		}
	}
	return r, nil
}

// join lets ranges share their bytes.
func (g *Graph) join(p *schedule.Problem, r *ranges) error {
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if r.view(int32(i)) || r.pieces[int32(i)] != nil {
			t.Reuses = nil
		}
		t.Reuses = slices.DeleteFunc(t.Reuses, func(o int32) bool { return r.view(o) || r.pieces[o] != nil })
	}
	g.writes(p, r)
	r.joinViews(p)
	for _, whole := range sortedKeys(r.pieces) {
		if err := g.joinPieces(p, whole, r.pieces[whole]); err != nil {
			return err
		}
	}
	return nil
}

func (r *ranges) view(t int32) bool { return r.root[t] != t }

// writes lets who overwrites a view, or a whole, overwrite what holds its bytes. If no node
// says what it overwrites, no view counts as a control tensor, from which that is derived.
func (g *Graph) writes(p *schedule.Problem, r *ranges) {
	if g.WriteBegin == nil && len(p.Nodes) > 0 && !slices.Contains(g.Size, 0) {
		p.Nodes[0].Writes = []int32{}
	}
	for v := range p.Nodes {
		n := &p.Nodes[v]
		for _, t := range slices.Clone(n.Writes) {
			if r.view(t) || p.Tensors[t].Producer != int32(v) {
				n.Writes = append(append(n.Writes, r.root[t]), r.pieces[r.root[t]]...)
			}
		}
		n.Writes = slices.DeleteFunc(n.Writes, r.view)
		slices.Sort(n.Writes)
		n.Writes = slices.Compact(n.Writes)
	}
}

// joinViews adds the readers of views to those of what they are ranges of.
func (r *ranges) joinViews(p *schedule.Problem) {
	views := map[int32][]int32{}
	for i, root := range r.root {
		if root != int32(i) {
			views[root] = append(views[root], int32(i))
		}
	}
	seen := make([]int32, len(p.Nodes)) // 1 + the last tensor of which the node was found a reader
	for _, root := range sortedKeys(views) {
		whole := &p.Tensors[root]
		for _, n := range whole.Consumers {
			seen[n] = root + 1
		}
		for _, v := range views[root] {
			t := &p.Tensors[v]
			t.Bytes, whole.Output = 0, whole.Output || t.Output
			for _, n := range t.Consumers {
				if seen[n] != root+1 {
					whole.Consumers = append(whole.Consumers, n)
					seen[n] = root + 1
				}
			}
		}
	}
}

// joinPieces lets the pieces of a tensor be held for as long as it.
func (g *Graph) joinPieces(p *schedule.Problem, parent int32, ids []int32) error {
	whole := &p.Tensors[parent]
	ids = slices.SortedFunc(slices.Values(ids), func(a, b int32) int {
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
