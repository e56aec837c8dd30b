package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// buffers checks the buffers of the main graph, and the resident ones of all graphs.
func (v *verifier) buffers() bool {
	s := v.main
	s.place(v.Plan.Buffers, v.Plan.Dynamic)
	s.checkOverlap(plan.Arena)
	for _, t := range v.Plan.Tiers() {
		s.checkOverlap(t.Name)
	}
	s.checkOverlap(plan.Host)
	v.resident = append(v.resident, s.extents(s.list, plan.Resident)...)
	v.overlapResident()
	for _, s := range v.scopes {
		v.sound(s)
	}
	return true
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
		if s.buffers[k].Known && len(s.buffers[k].Storages) > 0 {
			s.checkBuffer(list, k)
		}
	}
	for n, need := range s.need {
		if need.bytes > 0 && s.Work[n] == 0 {
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
	s.seen = make([]int32, len(s.Storages))
	s.list, s.buffers = list, make([]core.Buffer, len(list))
	if s.kind == mainGraph && s.v.Plan.Sharing.Aliases {
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
		if !p.Known || list[k].Pool != plan.Arena || len(p.Storages) == 0 {
			continue
		}
		list[k].Bounded = slices.ContainsFunc(p.Storages, func(i int32) bool { return s.origins[i].bounded })
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
	case b.Offset%s.v.Plan.Alignment != 0:
		s.fault(CodeAlignment, "%s: expected an offset that is a multiple of %d, found %d", s.label(list, k), s.v.Plan.Alignment, b.Offset)
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
	case s.Work[n] > 0:
		s.fault(CodeWorkspace, "%s has more than one workspace", label)
		return
	case need.bytes == 0 && !need.atLeast:
		s.fault(CodeWorkspace, "%s has a workspace of %d bytes: expected none", label, b.Bytes)
		return
	case need.atLeast && !need.fits(b.Bytes):
		s.fault(CodeWorkspace, "%s: workspace: expected at least %d bytes, found %d", label, need.bytes, b.Bytes)
	case !need.fits(b.Bytes):
		s.fault(CodeWorkspace, "%s: workspace: expected %d bytes, found %d", label, need.bytes, b.Bytes)
	case b.Bytes%s.v.Plan.Alignment != 0:
		s.fault(CodeSize, "%s: workspace: expected a multiple of %d bytes, found %d", label, s.v.Plan.Alignment, b.Bytes)
	}
	p := &s.buffers[k]
	p.Known, p.First, p.Last, p.Bytes = true, n, n, need.bytes
	if need.fits(b.Bytes) {
		p.Bytes = b.Bytes
	}
	s.Work[n] = p.Bytes
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
		case s.storageOf[t] == none || s.Storages[s.storageOf[t]].Outside:
			s.fault(CodeUnknown, "%s: tensor %s is outside this graph: expected no buffer", label, s.name(t))
		case s.at[t] != none:
			s.fault(CodeDuplicate, "tensor %s is in %s and in %s: expected one buffer", s.name(t), s.label(list, int(s.at[t])), label)
		default:
			s.at[t] = int32(k)
			found = append(found, t)
			if i := s.storageOf[t]; s.held == nil && s.seen[i] != int32(k)+1 {
				s.seen[i] = int32(k) + 1
				p.Storages = append(p.Storages, i)
			}
		}
	}
	if !slices.IsSortedFunc(found, s.compare) {
		s.fault(CodeTensorOrder, "%s: expected its tensors in the order in which they are made, found %s", label, quotedList(b.Tensors))
	}
	if s.held != nil {
		p.Storages = s.held[k]
	}
	slices.SortFunc(p.Storages, func(x, y int32) int { return s.compare(s.origins[x].tensors[0], s.origins[y].tensors[0]) })
	p.Known = len(p.Storages) > 0
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
	for i := range s.Storages {
		o := &s.origins[i]
		if s.Storages[i].Outside || o.piece {
			continue
		}
		first := s.at[o.tensors[0]]
		for _, t := range o.tensors {
			switch at := s.at[t]; {
			case s.spanOf != nil && s.spanOf[o.tensors[0]] != s.spanOf[t]:
				s.fault(CodeView, "tensor %s is a view of %s: expected one span for both", s.name(t), s.name(o.tensors[0]))
			case s.spanOf != nil && s.spanOf[t] != none:
			case at == none:
				s.fault(CodeMissing, "tensor %s is in no buffer: expected %d bytes for it", s.name(t), s.Storages[i].Bytes)
			case first != none && at != first:
				s.fault(CodeView, "tensor %s is a view of %s: expected one buffer, found %s and %s",
					s.name(t), s.name(o.tensors[0]), s.label(list, int(at)), s.label(list, int(first)))
			}
		}
	}
}

// checkBuffer checks a buffer that holds tensors.
func (s *scope) checkBuffer(list []plan.Buffer, k int) {
	b, p := &list[k], &s.buffers[k]
	p.Stays = s.checkUpdate(list, k)
	for _, f := range s.Hold(p) {
		s.chainFault(list, k, f)
	}
	if b.Bytes != p.Bytes {
		s.fault(CodeSize, "%s: expected %d bytes, found %d", s.label(list, k), p.Bytes, b.Bytes)
	}
	s.checkLifetime(list, k)
	s.checkPool(list, k)
	s.checkKind(list, k)
	bounded := slices.ContainsFunc(p.Storages, func(i int32) bool { return s.origins[i].bounded })
	if b.Bounded != bounded {
		s.fault(CodeBounded, "%s: bounded: expected %t, found %t", s.label(list, k), bounded, b.Bounded)
	}
}

// chainFault reports a storage of a buffer that may not be written over the one before it.
func (s *scope) chainFault(list []plan.Buffer, k int, f core.Fault) {
	label, a, b := s.label(list, k), s.name(s.origins[f.Over].tensors[0]), s.name(s.origins[f.Result].tensors[0])
	result := &s.Storages[f.Result]
	if f.Reason == core.NoMaker {
		s.fault(CodeInplace, "%s: no node makes tensor %s: expected a buffer of its own", label, b)
		return
	}
	node := s.g.Label(graph.NodeID(result.Maker))
	switch f.Reason {
	case core.NotAllowed:
		if !s.v.Plan.Sharing.Views && s.viewOf(s.g.Nodes[result.Maker], s.g.Tensors[s.origins[f.Result].tensors[0]].Out) == f.Over {
			s.fault(CodeView, "%s: tensor %s is a view of %s, but the plan's sharing allows no views: expected a buffer of its own", label, b, a)
			return
		}
		s.fault(CodeInplace, "%s: tensor %s is no view of %s, and %s may not write it there: expected buffers of their own", label, b, a, node)
	case core.NotInplace:
		s.fault(CodeInplace, "%s: tensor %s is made in place of %s, but the plan's sharing allows no such results", label, b, a)
	case core.OverResides:
		s.fault(CodeInplace, "%s: %s writes %s over %s, which is resident", label, node, b, a)
	case core.OverOutput:
		s.fault(CodeInplace, "%s: %s writes %s over %s, which holds a graph output", label, node, b, a)
	case core.ReadTwice:
		s.fault(CodeInplace, "%s: %s writes it over bytes that it reads as parts of %d tensors: expected one", label, node, f.Count)
	case core.ReadLater:
		s.fault(CodeInplace, "%s: %s writes %s over %s at step %d, but %s reads that at step %d: expected the last reader to write",
			label, node, b, a, result.Maker, s.g.Label(graph.NodeID(f.Reader)), f.Reader)
	}
}

// checkLifetime checks a buffer's first and last step.
func (s *scope) checkLifetime(list []plan.Buffer, k int) {
	b, p := &list[k], &s.buffers[k]
	if b.First != p.First || b.Last != p.Last {
		s.fault(CodeLifetime, "%s: expected steps %d-%d, found %d-%d", s.label(list, k), p.First, p.Last, b.First, b.Last)
	}
}

// checkPool checks that a buffer is in the right pool.
func (s *scope) checkPool(list []plan.Buffer, k int) {
	want := plan.Arena
	switch p := &s.buffers[k]; {
	case p.Resident:
		want = plan.Resident
	case p.Host:
		want = plan.Host
	case s.kind == body:
		want = plan.Workspace
	}
	found := list[k].Pool
	if tiers := s.v.Plan.Tiers(); want == plan.Arena && len(tiers) > 0 {
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
func (s *scope) checkKind(list []plan.Buffer, k int) {
	p := &s.buffers[k]
	want := s.kindOf(p)
	switch {
	case p.Stays:
		switch want = plan.KindState; {
		case s.v.updatesKey == keyStates:
			want = plan.KindCache
		case s.v.trained[s.g.Tensors[s.origins[p.Storages[0]].tensors[0]].Name]:
			want = plan.KindParameter
		}
	case p.Resident:
		want = plan.KindConstant
	}
	if found := list[k].Kind; found != want {
		s.fault(CodeKind, "%s: expected kind %q, found %q", s.label(list, k), want, graph.Short(found))
	}
}

// kindOf is the kind of a buffer that is not resident: that of its first storage
// that is a gradient or a graph output.
func (s *scope) kindOf(p *core.Buffer) string {
	for _, i := range p.Storages {
		o := &s.origins[i]
		gradient := func(t graph.TensorID) bool { return s.v.gradients[s.g.Tensors[t].Name] }
		switch {
		case s.g == s.v.Model.Graph && (slices.ContainsFunc(o.tensors, gradient) || slices.ContainsFunc(o.covers, gradient)):
			return plan.KindGradient
		case s.Storages[i].Output:
			return plan.KindOutput
		}
	}
	if s.origins[p.Storages[0]].input {
		return plan.KindInput
	}
	return plan.KindActivation
}
