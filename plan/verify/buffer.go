package verify

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// checkBuffer checks a buffer that holds tensors.
func (s *scope) checkBuffer(list []plan.Buffer, k int) {
	b, p := &list[k], &s.buffers[k]
	updated := s.checkUpdate(list, k)
	s.checkChain(list, k, updated)
	pos := s.steps()
	p.bytes = s.storages[p.storages[0]].bytes
	for n, i := range p.storages {
		st := &s.storages[i]
		first, last := s.lifetime(i, pos)
		if n == 0 {
			p.first, p.last = first, last
		}
		p.first, p.last = min(p.first, first), max(p.last, last)
		p.bytes = max(p.bytes, st.bytes)
		p.resident = p.resident || st.resident
		p.host = p.host || s.swapped(st)
	}
	if updated {
		p.first, p.last = 0, s.end()
	}
	if b.Bytes != p.bytes {
		s.fault(CodeSize, "%s: expected %d bytes, found %d", s.label(list, k), p.bytes, b.Bytes)
	}
	s.checkLifetime(list, k)
	s.checkPool(list, k)
	s.checkKind(list, k, updated)
	bounded := slices.ContainsFunc(p.storages, func(i int32) bool { return s.storages[i].bounded })
	if b.Bounded != bounded {
		s.fault(CodeBounded, "%s: bounded: expected %t, found %t", s.label(list, k), bounded, b.Bounded)
	}
}

// steps is the step of each node in the planned order: its index.
func (s *scope) steps() []int {
	if s.pos == nil {
		s.pos = positions(s.identity())
	}
	return s.pos
}

// checkChain checks that each storage of a buffer was made in place of the one
// before it, by the last node that reads that one.
func (s *scope) checkChain(list []plan.Buffer, k int, updated bool) {
	storages := s.buffers[k].storages
	for j := 1; j < len(storages); j++ {
		over, result := &s.storages[storages[j-1]], &s.storages[storages[j]]
		a, b := s.name(over.tensors[0]), s.name(result.tensors[0])
		if result.maker < 0 {
			s.fault(CodeInplace, "%s: no node makes tensor %s: expected a buffer of its own", s.label(list, k), b)
			continue
		}
		n, label := s.g.Nodes[result.maker], s.g.Label(result.maker)
		switch {
		case !s.v.p.Sharing.Views && s.viewOf(n, s.g.Tensors[result.tensors[0]].Out) == storages[j-1]:
			s.fault(CodeView, "%s: tensor %s is a view of %s, but the plan's sharing allows no views: expected a buffer of its own", s.label(list, k), b, a)
			continue
		case !s.allowed(n, pair{storages[j], storages[j-1]}):
			s.fault(CodeInplace, "%s: tensor %s is no view of %s, and %s may not write it there: expected buffers of their own", s.label(list, k), b, a, label)
			continue
		case !s.v.p.Sharing.Inplace && !updated:
			s.fault(CodeInplace, "%s: tensor %s is made in place of %s, but the plan's sharing allows no such results", s.label(list, k), b, a)
		case over.resident && !updated:
			s.fault(CodeInplace, "%s: %s writes %s over %s, which is resident", s.label(list, k), label, b, a)
		}
		if over.output {
			s.fault(CodeInplace, "%s: %s writes %s over %s, which holds a graph output", s.label(list, k), label, b, a)
		}
		if last := slices.Max(append(over.readers, result.maker)); last != result.maker {
			s.fault(CodeInplace, "%s: %s writes %s over %s at step %d, but %s reads that at step %d: expected the last reader to write",
				s.label(list, k), label, b, a, result.maker, s.g.Label(last), last)
		}
	}
}

// allowed reports whether ops lets a node write the one storage of a pair over
// the other.
func (s *scope) allowed(n *graph.Node, want pair) bool {
	return slices.ContainsFunc(n.Meaning.Inplace, func(a graph.Alias) bool {
		p, ok := s.pair(n, a)
		return ok && p == want
	})
}

// checkLifetime holds a buffer's steps against those it must have.
func (s *scope) checkLifetime(list []plan.Buffer, k int) {
	b, p := &list[k], &s.buffers[k]
	if b.First != p.first || b.Last != p.last {
		s.fault(CodeLifetime, "%s: expected steps %d-%d, found %d-%d", s.label(list, k), p.first, p.last, b.First, b.Last)
	}
}

// checkPool checks that a buffer lies where it must.
func (s *scope) checkPool(list []plan.Buffer, k int) {
	want := plan.Arena
	switch p := &s.buffers[k]; {
	case p.resident:
		want = plan.Resident
	case p.host:
		want = plan.Host
	case s.kind == body:
		want = plan.Workspace
	}
	if found := list[k].Pool; found != want {
		s.fault(CodePool, "%s: expected pool %q, found %q", s.label(list, k), want, graph.Short(found))
	}
}

// checkKind checks the kind of a buffer that holds tensors.
func (s *scope) checkKind(list []plan.Buffer, k int, updated bool) {
	p := &s.buffers[k]
	want := s.kindOf(p)
	switch {
	case updated:
		if want = plan.KindState; s.v.trained[s.g.Tensors[s.storages[p.storages[0]].tensors[0]].Name] {
			want = plan.KindParameter
		}
	case p.resident:
		want = plan.KindConstant
	}
	if found := list[k].Kind; found != want {
		s.fault(CodeKind, "%s: expected kind %q, found %q", s.label(list, k), want, graph.Short(found))
	}
}

// kindOf is the kind of a buffer that is not resident: the first of its storages that
// is a gradient or a graph output decides.
func (s *scope) kindOf(p *placed) string {
	for _, i := range p.storages {
		st := &s.storages[i]
		gradient := func(t graph.TensorID) bool { return strings.HasSuffix(s.g.Tensors[t].Name, ".grad") }
		switch {
		case len(s.updated) > 0 && slices.ContainsFunc(st.tensors, gradient):
			return plan.KindGradient
		case st.output:
			return plan.KindOutput
		}
	}
	if s.storages[p.storages[0]].input {
		return plan.KindInput
	}
	return plan.KindActivation
}
