package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// placed is a buffer of the plan and the storages in it.
type placed struct {
	known       bool    // the buffer has a storage, so the other fields are set
	storages    []int32 // in the order in which they are made; none for a workspace
	bytes       int64   // expected size
	first, last int     // expected lifetime
	resident    bool
	host        bool
}

// place checks a list of buffers, and of tensors without a buffer, against the
// scope's storages.
func (s *scope) place(list []plan.Buffer, dynamic []plan.Dynamic) {
	names := s.lay(list)
	for k := range list {
		s.checkPlace(list, k)
		if list[k].Kind == plan.KindWorkspace {
			s.workspace(list, k)
			continue
		}
		if list[k].Node != nil {
			s.fault(CodeKind, "%s has a node: expected kind %q, found %q", s.label(list, k), plan.KindWorkspace, graph.Short(list[k].Kind))
		}
		s.claim(list, k, names)
	}
	s.checkDynamic(dynamic, names)
	s.checkAll(list)
	for k := range list {
		if s.buffers[k].known && len(s.buffers[k].storages) > 0 {
			s.checkBuffer(list, k)
		}
	}
	for n, need := range s.need {
		if need.bytes > 0 && s.work[n] == 0 {
			s.fault(CodeWorkspace, "%s needs a workspace: expected a buffer of %d bytes, found none", s.g.Label(graph.NodeID(n)), need.bytes)
		}
	}
}

// lay takes a list of buffers as those of the scope, and returns its tensors by name. With
// aliases, it makes the pieces that lie in the buffers.
func (s *scope) lay(list []plan.Buffer) map[string]graph.TensorID {
	s.at = make([]int32, len(s.g.Tensors))
	for t := range s.at {
		s.at[t] = none
	}
	names := make(map[string]graph.TensorID, len(s.g.Tensors))
	for id, t := range s.g.Tensors {
		names[t.Name] = graph.TensorID(id)
	}
	s.seen = make([]int32, len(s.storages))
	s.list, s.buffers = list, make([]placed, len(list))
	if s.kind == mainGraph && s.v.p.Sharing.Aliases {
		s.aliases(names)
	}
	return names
}

// placeArena checks what lies in the buffers of the arena, but for workspaces, whose pools,
// kinds and offsets are checked elsewhere: that of a point of ranges.
func (s *scope) placeArena(list []plan.Buffer) {
	names := s.lay(list)
	for k := range list {
		if list[k].Node == nil {
			s.claim(list, k, names)
		}
	}
	s.checkAll(list)
	for k := range list {
		p := &s.buffers[k]
		if !p.known || list[k].Pool != plan.Arena || len(p.storages) == 0 {
			continue
		}
		list[k].Bounded = slices.ContainsFunc(p.storages, func(i int32) bool { return s.storages[i].bounded })
		s.checkBuffer(list, k)
	}
}

// label names a buffer: by its first tensor, or by the node of a workspace.
func (s *scope) label(list []plan.Buffer, k int) string {
	b := &list[k]
	switch {
	case len(b.Tensors) > 0:
		return fmt.Sprintf("buffer %q", graph.Short(b.Tensors[0]))
	case b.Node != nil && *b.Node >= 0 && *b.Node < len(s.g.Nodes):
		return "workspace of " + s.g.Label(graph.NodeID(*b.Node))
	}
	return fmt.Sprintf("buffer %d", k)
}

// checkPlace checks a buffer's offset: in range, aligned, without overflow.
func (s *scope) checkPlace(list []plan.Buffer, k int) {
	b := &list[k]
	switch {
	case b.Offset < 0 || b.Bytes < 0 || b.Offset+b.Bytes < 0:
		s.fault(CodeOffset, "%s: offset %d, %d bytes: expected an offset >= 0 whose end fits 63 bits", s.label(list, k), b.Offset, b.Bytes)
	case b.Offset%s.v.p.Alignment != 0:
		s.fault(CodeAlignment, "%s: expected an offset that is a multiple of %d, found %d", s.label(list, k), s.v.p.Alignment, b.Offset)
	}
}

// workspace checks the buffer of a node's bodies and function.
func (s *scope) workspace(list []plan.Buffer, k int) {
	b := &list[k]
	if len(b.Tensors) > 0 {
		s.fault(CodeKind, "%s: expected no tensors in a workspace, found %d", s.label(list, k), len(b.Tensors))
	}
	if b.Node == nil || *b.Node < 0 || *b.Node >= len(s.g.Nodes) {
		s.fault(CodeWorkspace, "%s: expected the node of the workspace as a step below %d", s.label(list, k), len(s.g.Nodes))
		return
	}
	n := *b.Node
	need := s.need[n]
	label := s.g.Label(graph.NodeID(n))
	switch {
	case s.work[n] > 0:
		s.fault(CodeWorkspace, "%s has more than one workspace", label)
		return
	case need.bytes == 0 && !need.atLeast:
		s.fault(CodeWorkspace, "%s has a workspace of %d bytes: expected none", label, b.Bytes)
		return
	case need.atLeast && !need.fits(b.Bytes):
		s.fault(CodeWorkspace, "%s: workspace: expected at least %d bytes, found %d", label, need.bytes, b.Bytes)
	case !need.fits(b.Bytes):
		s.fault(CodeWorkspace, "%s: workspace: expected %d bytes, found %d", label, need.bytes, b.Bytes)
	case b.Bytes%s.v.p.Alignment != 0:
		s.fault(CodeSize, "%s: workspace: expected a multiple of %d bytes, found %d", label, s.v.p.Alignment, b.Bytes)
	}
	p := &s.buffers[k]
	p.known, p.first, p.last, p.bytes = true, n, n, need.bytes
	if need.fits(b.Bytes) {
		p.bytes = b.Bytes
	}
	s.work[n] = p.bytes
	s.checkLifetime(list, k)
	s.checkPool(list, k)
	if b.Bounded {
		s.fault(CodeBounded, "%s: bounded: expected false, found true", s.label(list, k))
	}
}

// claim finds the tensors of a buffer and their storages.
func (s *scope) claim(list []plan.Buffer, k int, names map[string]graph.TensorID) {
	b := &list[k]
	label := s.label(list, k)
	if len(b.Tensors) == 0 && (s.held == nil || len(s.held[k]) == 0) {
		s.fault(CodeKind, "%s: expected a tensor, or kind %q, found no tensors and kind %q", label, plan.KindWorkspace, graph.Short(b.Kind))
		return
	}
	p := &s.buffers[k]
	var found []graph.TensorID
	for _, name := range b.Tensors {
		t, known := names[name]
		switch {
		case !known:
			s.fault(CodeUnknown, "%s: no tensor %q", label, graph.Short(name))
		case s.g.Tensors[t].Dynamic != "" && s.g.Tensors[t].Data == nil:
			s.fault(CodeDynamic, "%s: tensor %s is dynamic (%s): expected it in dynamic", label, s.name(t), s.g.Tensors[t].Dynamic)
		case s.storageOf[t] == none || s.storages[s.storageOf[t]].outside:
			s.fault(CodeUnknown, "%s: tensor %s is outside this graph: expected no buffer", label, s.name(t))
		case s.at[t] != none:
			s.fault(CodeDuplicate, "tensor %s is in %s and in %s: expected one buffer", s.name(t), s.label(list, int(s.at[t])), label)
		default:
			s.at[t] = int32(k)
			found = append(found, t)
			if i := s.storageOf[t]; s.held == nil && s.seen[i] != int32(k)+1 {
				s.seen[i] = int32(k) + 1
				p.storages = append(p.storages, i)
			}
		}
	}
	if !slices.IsSortedFunc(found, s.compare) {
		s.fault(CodeTensorOrder, "%s: expected its tensors in the order in which they are made, found %s", label, quotedList(b.Tensors))
	}
	if s.held != nil {
		p.storages = s.held[k]
	}
	slices.SortFunc(p.storages, func(x, y int32) int { return s.compare(s.storages[x].tensors[0], s.storages[y].tensors[0]) })
	p.known = len(p.storages) > 0
}

// compare orders tensors by when they are made: those that no node makes first,
// then by step and output.
func (s *scope) compare(x, y graph.TensorID) int {
	a, b := s.g.Tensors[x], s.g.Tensors[y]
	if a.Maker != b.Maker {
		return int(a.Maker) - int(b.Maker)
	}
	if a.Maker < 0 {
		return 0
	}
	return a.Out - b.Out
}

func quotedList(names []string) string {
	const most = 8
	var list []string
	for i, name := range names {
		if i == most {
			list = append(list, fmt.Sprintf("… %d in all", len(names)))
			break
		}
		list = append(list, fmt.Sprintf("%q", graph.Short(name)))
	}
	return strings.Join(list, ", ")
}

// checkDynamic checks the list of tensors without a buffer.
func (s *scope) checkDynamic(list []plan.Dynamic, names map[string]graph.TensorID) {
	listed := map[graph.TensorID]bool{}
	for _, d := range list {
		id, known := names[d.Tensor]
		if !known {
			s.fault(CodeUnknown, "dynamic: no tensor %q", graph.Short(d.Tensor))
			continue
		}
		t := s.g.Tensors[id]
		switch {
		case listed[id]:
			s.fault(CodeDuplicate, "dynamic: tensor %s is listed twice", s.name(id))
		case t.Dynamic == "" || t.Capture || t.Data != nil:
			s.fault(CodeDynamic, "dynamic: tensor %s is not dynamic: expected it in a buffer, or nowhere", s.name(id))
		default:
			maker := ""
			if t.Maker >= 0 {
				maker = s.g.Nodes[t.Maker].Name
			}
			if d.Node != maker {
				s.fault(CodeDynamic, "dynamic: tensor %s: expected node %q, found %q", s.name(id), graph.Short(maker), graph.Short(d.Node))
			}
			if d.Reason != t.Dynamic {
				s.leaveUnchecked("dynamic.reason") // other versions may word it differently
			}
		}
		listed[id] = true
	}
	for id, t := range s.g.Tensors {
		if t.Dynamic != "" && !t.Capture && t.Data == nil && !listed[graph.TensorID(id)] {
			s.fault(CodeDynamic, "dynamic: tensor %s is missing: %s", s.name(graph.TensorID(id)), t.Dynamic)
		}
	}
}

// checkAll finds tensors without a buffer, and views in a buffer other than that
// of their base.
func (s *scope) checkAll(list []plan.Buffer) {
	for i := range s.storages {
		st := &s.storages[i]
		if st.outside || st.piece {
			continue
		}
		first := s.at[st.tensors[0]]
		for _, t := range st.tensors {
			switch at := s.at[t]; {
			case s.spanOf != nil && s.spanOf[st.tensors[0]] != s.spanOf[t]:
				s.fault(CodeView, "tensor %s is a view of %s: expected one span for both", s.name(t), s.name(st.tensors[0]))
			case s.spanOf != nil && s.spanOf[t] != none:
			case at == none:
				s.fault(CodeMissing, "tensor %s is in no buffer: expected %d bytes for it", s.name(t), st.bytes)
			case first != none && at != first:
				s.fault(CodeView, "tensor %s is a view of %s: expected one buffer, found %s and %s",
					s.name(t), s.name(st.tensors[0]), s.label(list, int(at)), s.label(list, int(first)))
			}
		}
	}
}

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

// steps maps each node to its step in the planned order: its index.
func (s *scope) steps() []int {
	if s.pos == nil {
		s.pos = positions(s.identity())
	}
	return s.pos
}

// checkChain checks that each storage of a buffer overwrites the one before it,
// and that its maker is the last reader of that one.
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
		if s.held != nil {
			s.checkAliased(list, k, storages[j-1], storages[j])
		}
		if last := slices.Max(append(over.readers, result.maker)); last != result.maker {
			s.fault(CodeInplace, "%s: %s writes %s over %s at step %d, but %s reads that at step %d: expected the last reader to write",
				s.label(list, k), label, b, a, result.maker, s.g.Label(last), last)
		}
	}
}

// allowed reports whether ops permits a node to overwrite the storage of a pair.
func (s *scope) allowed(n *graph.Node, want pair) bool {
	return slices.ContainsFunc(n.Semantics.Inplace, func(a graph.Alias) bool {
		p, ok := s.pair(n, a)
		return ok && p == want
	})
}

// checkLifetime checks a buffer's first and last step.
func (s *scope) checkLifetime(list []plan.Buffer, k int) {
	b, p := &list[k], &s.buffers[k]
	if b.First != p.first || b.Last != p.last {
		s.fault(CodeLifetime, "%s: expected steps %d-%d, found %d-%d", s.label(list, k), p.first, p.last, b.First, b.Last)
	}
}

// checkPool checks that a buffer is in the right pool.
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
	found := list[k].Pool
	if tiers := s.v.p.Tiers(); want == plan.Arena && len(tiers) > 0 {
		if !s.v.isTier(found) {
			s.fault(CodePool, "%s: expected a pool with a capacity, such as %q, found %q", s.label(list, k), graph.Short(tiers[0].Name), graph.Short(found))
		}
		return
	}
	if found != want {
		s.fault(CodePool, "%s: expected pool %q, found %q", s.label(list, k), want, graph.Short(found))
	}
}

// checkKind checks the kind of a buffer that holds tensors.
func (s *scope) checkKind(list []plan.Buffer, k int, updated bool) {
	p := &s.buffers[k]
	want := s.kindOf(p)
	switch {
	case updated:
		switch want = plan.KindState; {
		case s.v.updatesKey == keyStates:
			want = plan.KindCache
		case s.v.trained[s.g.Tensors[s.storages[p.storages[0]].tensors[0]].Name]:
			want = plan.KindParameter
		}
	case p.resident:
		want = plan.KindConstant
	}
	if found := list[k].Kind; found != want {
		s.fault(CodeKind, "%s: expected kind %q, found %q", s.label(list, k), want, graph.Short(found))
	}
}

// kindOf is the kind of a buffer that is not resident: that of its first storage
// that is a gradient or a graph output.
func (s *scope) kindOf(p *placed) string {
	for _, i := range p.storages {
		st := &s.storages[i]
		gradient := func(t graph.TensorID) bool { return s.v.gradients[s.g.Tensors[t].Name] }
		switch {
		case s.g == s.v.m.Graph && (slices.ContainsFunc(st.tensors, gradient) || slices.ContainsFunc(st.covers, gradient)):
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
