package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// recasts checks that a plan that says so repeats casts alone: nodes that make of what stays the same
// elements in another type, and views of these. It returns the scope in which its bound is proven for any
// choice of which casts run again, and where.
//
// There, a cast takes no bytes, and each node that reads it takes its bytes while it runs. An order of
// that scope, whichever casts run twice in it, is one for any other choice: a cast that takes nothing
// can run wherever the first run of it does. And in a plan of another choice, each node holds at least
// what it holds there: some run of a cast that it reads is live, and no result is written over it.
func (v *verifier) recasts() *scope {
	s := v.main
	if asked := v.Plan.Slices != nil && v.Plan.Slices.Mode != plan.SlicesOfLoss; asked || !slices.ContainsFunc(v.again, func(first graph.NodeID) bool { return first != none }) {
		s.fault(CodeLimit, "summary: recast: expected casts that run again, and no slices but those of the loss")
		return s
	}
	casts := s.casts()
	for i, first := range v.again {
		if first == none {
			continue
		}
		n := s.g.Nodes[i]
		for _, t := range n.Outputs {
			if t >= 0 && (s.storageOf[t] == none || !casts[s.storageOf[t]]) {
				s.fault(CodeLimit, "summary: recast: %s runs again: expected a cast of what stays, or a view of one", s.g.Label(graph.NodeID(i)))
				return s
			}
		}
	}
	q := *s
	q.Storages, q.Work = slices.Clone(s.Storages), slices.Clone(s.Work)
	for i := range q.Storages {
		if !casts[i] {
			continue
		}
		st := &q.Storages[i]
		for _, n := range st.Readers {
			q.Work[n] = v.add(q.Work[n], st.Bytes)
		}
		st.Bytes = 0
	}
	return &q
}

// views reports whether all that a node makes are views of a storage.
func (s *scope) views(n, of int32) bool {
	return !slices.ContainsFunc(s.Nodes[n].Writes, func(i int32) bool { return i != of })
}

// casts reports for each storage whether it counts in loads, and is all that a cast makes of what
// stays, whether a node reads it, and nothing may be written over it.
func (s *scope) casts() []bool {
	list := make([]bool, len(s.Storages))
	for i := range s.Storages {
		st := &s.Storages[i]
		if st.Maker < 0 || !s.Counts(int32(i)) || st.Output || st.Parts != nil || s.Work[st.Maker] > 0 {
			continue
		}
		n := s.g.Nodes[st.Maker]
		list[i] = len(n.Outputs) == 1 && ops.Recasts(n)
		list[i] = list[i] && slices.ContainsFunc(st.Readers, func(r int32) bool { return !s.views(r, int32(i)) })
		n.Reads(func(t graph.TensorID) {
			from := s.storageOf[t]
			list[i] = list[i] && from != none && s.Storages[from].Resident
		})
	}
	for i := range s.Nodes {
		for _, p := range s.Pairs(int32(i)) {
			list[p.Over] = false
		}
	}
	return list
}
