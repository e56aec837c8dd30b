package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// rounding is the relative error that figures computed in floating point may
// have.
const rounding = 1e-9

// repetitions returns for each node the node that it repeats according to the
// plan, or none; nil if no node repeats another. A repetition must have the
// operator and attributes of an earlier node and read the same values, possibly
// through other instances and transfers: then the graph without repetitions
// computes the same. A wrong claim is reported, and the step counts as a node of
// its own.
func (s *scope) repetitions() []graph.NodeID {
	r := repetitions{s: s, again: make([]graph.NodeID, len(s.g.Nodes)), value: make([]graph.TensorID, len(s.g.Tensors))}
	for t := range r.value {
		r.value[t] = graph.TensorID(t)
	}
	found := false
	for i, n := range s.g.Nodes {
		r.again[i] = none
		if n.IsSwap() {
			r.value[n.Outputs[0]] = r.value[n.Inputs[0]]
		}
		if i >= len(s.v.p.Steps) || s.v.p.Steps[i].Again == nil {
			continue
		}
		found = true
		id, first := graph.NodeID(i), *s.v.p.Steps[i].Again
		if first < 0 || first >= i || r.again[first] != none {
			s.fault(CodeRepetition, "%s: again: expected an earlier step that is no repetition, found %d", s.g.Label(id), first)
			continue
		}
		if wrong := r.check(id, graph.NodeID(first)); wrong != "" {
			s.fault(CodeRepetition, "%s is marked as a repetition of %s: %s", s.g.Label(id), s.g.Label(graph.NodeID(first)), wrong)
			continue
		}
		r.again[i] = graph.NodeID(first)
		r.take(id, graph.NodeID(first))
	}
	if !found {
		return nil
	}
	return r.again
}

// repetitions holds what is known of the steps so far.
type repetitions struct {
	s       *scope
	again   []graph.NodeID
	value   []graph.TensorID // by tensor: the first tensor with the same value
	effects []bool
}

// check says why a node is not a repetition of another; "" if it is one.
func (r *repetitions) check(id, first graph.NodeID) string {
	g := r.s.g
	n, f := g.Nodes[id], g.Nodes[first]
	if r.effects == nil {
		r.effects = graph.Effects(g)
	}
	switch {
	case n.Op != f.Op || n.Domain != f.Domain || n.Overload != f.Overload:
		return fmt.Sprintf("expected operator %s, found %s", plan.OpName(f), plan.OpName(n))
	case r.effects[id] && !ops.Seeded(n):
		return "expected a node with the same result in every run, found a random or unknown one"
	case len(n.Inputs) != len(f.Inputs):
		return fmt.Sprintf("expected %s, found %d", count(len(f.Inputs), "input"), len(n.Inputs))
	case len(n.Outputs) > len(f.Outputs):
		return fmt.Sprintf("expected at most %s, found %d", count(len(f.Outputs), "output"), len(n.Outputs))
	}
	same := sameNode{outer: func(a, b graph.TensorID) bool { return r.value[a] == r.value[b] }}
	if source := r.s.v.m.Source; source != nil {
		same.source, same.other = source.Bytes, source.Bytes
	}
	if what := same.attributes(n, f); what != "" {
		return fmt.Sprintf("expected the same attribute %q, found another", what)
	}
	equal := false
	for k, t := range n.Outputs {
		if t < 0 {
			continue
		}
		if f.Outputs[k] < 0 {
			return fmt.Sprintf("expected no output %d, found %s", k, r.s.name(t))
		}
		in := r.differs(n, f, k)
		if in < 0 {
			equal = true
			continue
		}
		if x := g.Tensors[t]; len(x.Readers) > 0 || x.Output || !r.dependsLess(n, in) {
			return fmt.Sprintf("expected input %d to have the value of %s, found %s", in, r.name(f.Inputs[in]), r.name(n.Inputs[in]))
		}
	}
	if !equal {
		return "expected an output of the same value, found none"
	}
	return ""
}

// differs returns an input on which output k depends and whose values differ, or
// none.
func (r *repetitions) differs(n, f *graph.Node, k int) int {
	for in := range n.Inputs {
		a, b := n.Inputs[in], f.Inputs[in]
		if a < 0 && b < 0 || a >= 0 && b >= 0 && r.value[a] == r.value[b] {
			continue
		}
		if a < 0 || b < 0 || ops.Depends(n, k, in) {
			return in
		}
	}
	return none
}

// dependsLess reports whether some output of a node does not depend on an input.
func (r *repetitions) dependsLess(n *graph.Node, in int) bool {
	for k := range n.Outputs {
		if !ops.Depends(n, k, in) {
			return true
		}
	}
	return false
}

func (r *repetitions) name(t graph.TensorID) string {
	if t < 0 {
		return "none"
	}
	return r.s.name(t)
}

// take records the values that a repetition makes.
func (r *repetitions) take(id, first graph.NodeID) {
	n, f := r.s.g.Nodes[id], r.s.g.Nodes[first]
	for k, t := range n.Outputs {
		if t >= 0 && r.differs(n, f, k) < 0 {
			r.value[t] = r.value[f.Outputs[k]]
		}
	}
}

// addedNodes reports for each node whether the plan added it to the graph that
// was planned: it repeats another, or it is a transfer that is not in the input
// file's order. nil: none was added.
func (v *verifier) addedNodes(s *scope, again []graph.NodeID) []bool {
	listed := map[int]bool{}
	for _, step := range v.p.ProgramOrder.Steps {
		listed[step] = true
	}
	var list []bool
	for i, n := range s.g.Nodes {
		if again != nil && again[i] != none || n.IsSwap() && !listed[i] {
			if list == nil {
				list = make([]bool, len(s.g.Nodes))
			}
			list[i] = true
		}
	}
	return list
}

// without returns the scope of the graph before the plan added nodes: each reader
// reads its original tensor. from lists the remaining nodes.
func (s *scope) without(added []bool, again []graph.NodeID) (plain *scope, from []int32) {
	before := make([]graph.TensorID, len(s.g.Tensors)) // original of each tensor
	for t := range before {
		before[t] = graph.TensorID(t)
	}
	for i, n := range s.g.Nodes {
		switch {
		case !added[i]:
		case again != nil && again[i] != none:
			first := s.g.Nodes[again[i]]
			for k, t := range n.Outputs {
				if t >= 0 && k < len(first.Outputs) && first.Outputs[k] >= 0 {
					before[t] = before[first.Outputs[k]]
				}
			}
		default:
			before[n.Outputs[0]] = before[n.Inputs[0]]
		}
	}
	g := &graph.Graph{Name: s.g.Name, Inputs: s.g.Inputs}
	for _, t := range s.g.Tensors {
		u := *t
		g.Tensors = append(g.Tensors, &u)
	}
	values := func(list []graph.TensorID) []graph.TensorID {
		out := make([]graph.TensorID, len(list))
		for i, t := range list {
			if out[i] = t; t >= 0 {
				out[i] = before[t]
			}
		}
		return out
	}
	for i, n := range s.g.Nodes {
		if added[i] {
			continue
		}
		m := *n
		m.Inputs, m.Captures, m.Attrs = values(n.Inputs), values(n.Captures), capturing(n, before)
		g.Nodes = append(g.Nodes, &m)
		from = append(from, int32(i))
	}
	g.Outputs = values(s.g.Outputs)
	g.Link()
	plain = s.v.newScope(g, s.kind, s.where)
	plain.originals = before
	plain.share()
	for i := range plain.Storages {
		if of := s.storageOf[plain.origins[i].tensors[0]]; of != none {
			plain.Storages[i].Resident = s.Storages[of].Resident
		}
	}
	for i, id := range from {
		plain.Work[i] = s.Work[id]
	}
	return plain, from
}

// capturing returns the attributes of a node, whose bodies capture the originals of what they
// capture.
func capturing(n *graph.Node, original []graph.TensorID) []*graph.Attr {
	if len(n.Bodies()) == 0 {
		return n.Attrs
	}
	body := func(g *graph.Graph) *graph.Graph {
		if g == nil {
			return nil
		}
		h := *g
		h.Captures = slices.Clone(g.Captures)
		for i := range h.Captures {
			h.Captures[i].Outer = original[h.Captures[i].Outer]
		}
		return &h
	}
	attrs := slices.Clone(n.Attrs)
	for i, a := range attrs {
		b := *a
		b.Graph, b.Graphs = body(a.Graph), slices.Clone(a.Graphs)
		for k, g := range b.Graphs {
			b.Graphs[k] = body(g)
		}
		attrs[i] = &b
	}
	return attrs
}

// limit checks the plan's figures about its limit against the steps.
func (v *verifier) limit(s *scope, again []graph.NodeID, sum *plan.Summary) {
	claim := v.p.Summary.Limited
	if claim == nil {
		if again != nil || v.added != nil && len(v.p.Tiers()) == 0 {
			v.fault(CodeLimit, "summary: limit_bytes is missing: expected it if nodes run again or tensors are swapped out")
		}
		return
	}
	l := *claim
	l.RecomputedNodes, l.SwappedBuffers, l.SwappedBytes = 0, 0, 0
	for i := range s.Storages {
		if s.Storages[i].Host {
			l.SwappedBuffers++
			l.SwappedBytes = v.add(l.SwappedBytes, s.Storages[i].Bytes)
		}
	}
	plain, extra := 0.0, 0.0
	for i := range min(len(v.p.Steps), len(s.g.Nodes)) {
		cost := v.p.Steps[i].CostNS
		if cost > 0 {
			v.claim("steps.cost_ns")
		}
		if cost > 0 && s.g.Nodes[i].IsSwap() {
			v.fault(CodeLimit, "steps: step %d: cost_ns: expected none of a transfer, found %d", i, cost)
		}
		if again != nil && again[i] != none {
			l.RecomputedNodes++
			extra += float64(cost)
			continue
		}
		plain += float64(cost)
	}
	waiting := 0.0
	if l.HostLink > 0 {
		waiting = float64(s.waiting(func(i int) int64 {
			if i >= len(v.p.Steps) {
				return 0
			}
			return min(max(v.p.Steps[i].CostNS, 0), math.MaxInt64>>24)
		}, l.HostLink))
	}
	if l.ExtraCostPercent, l.WaitingPercent = 0, 0; plain > 0 {
		l.WaitingPercent = 100 * waiting / plain
		l.ExtraCostPercent = 100 * (extra + waiting) / plain
	}
	held, what := sum.PeakBytes, "peak"
	if l.LimitArena {
		held, what = sum.ArenaBytes, "arena"
	}
	switch {
	case held > l.LimitBytes:
		v.fault(CodeLimit, "summary: limit_bytes: expected at least the %s, %d, found %d", what, held, l.LimitBytes)
	case l.HostLink < 0:
		v.fault(CodeLimit, "summary: host_link_bytes_per_second: expected a figure >= 0, found %d", l.HostLink)
	case math.Abs(claim.WaitingPercent-l.WaitingPercent) > rounding*(1+l.WaitingPercent):
		v.fault(CodeLimit, "summary: waiting_percent: expected %v, by the costs of the steps and the link, found %v", l.WaitingPercent, claim.WaitingPercent)
	case math.Abs(claim.ExtraCostPercent-l.ExtraCostPercent) > rounding*(1+l.ExtraCostPercent):
		v.fault(CodeLimit, "summary: extra_cost_percent: expected %v, by the costs of the steps, found %v", l.ExtraCostPercent, claim.ExtraCostPercent)
	case l.ExtraCostBound != nil && l.HostLink > 0:
		v.fault(CodeLimit, "summary: extra_cost_lower_bound_percent: expected none if tensors may be swapped out, found %v", *l.ExtraCostBound)
	case l.ExtraCostBound != nil && *l.ExtraCostBound < 0:
		v.fault(CodeLimit, "summary: extra_cost_lower_bound_percent: expected a figure >= 0, found %v", *l.ExtraCostBound)
	case l.ExtraCostBound != nil && *l.ExtraCostBound > l.ExtraCostPercent*(1+rounding):
		v.fault(CodeLimit, "summary: extra_cost_lower_bound_percent: expected at most %v, which the plan costs, found %v", l.ExtraCostPercent, *l.ExtraCostBound)
	case claim.RecomputedNodes != l.RecomputedNodes:
		v.fault(CodeLimit, "summary: recomputed_nodes: expected %d, found %d", l.RecomputedNodes, claim.RecomputedNodes)
	case claim.SwappedBuffers != l.SwappedBuffers:
		v.fault(CodeLimit, "summary: swapped_buffers: expected %d, found %d", l.SwappedBuffers, claim.SwappedBuffers)
	case claim.SwappedBytes != l.SwappedBytes:
		v.fault(CodeLimit, "summary: swapped_bytes: expected %d, found %d", l.SwappedBytes, claim.SwappedBytes)
	default: // equal but for rounding
		l.ExtraCostPercent, l.WaitingPercent = claim.ExtraCostPercent, claim.WaitingPercent
	}
	if l.ExtraCostBound != nil && *l.ExtraCostBound > 0 {
		v.claim("extra_cost_lower_bound_percent")
	}
	if l.HostLink > 0 {
		v.claim("host_link_bytes_per_second")
	}
	v.plainPeak(&l, sum.PeakBytes)
	sum.Limited = &l
}

// plainPeak checks the plan's figure for the peak of the best order without the
// added nodes. It is at least the bytes that one node takes in every order, and
// it exceeds the limit. The plan does not contain that order.
func (v *verifier) plainPeak(l *plan.Limited, peak int64) {
	found := l.PlainPeakBytes
	if v.added == nil {
		if found != peak {
			v.fault(CodeLimit, "summary: plain_peak_bytes: expected the peak, %d, if no node runs again and nothing is swapped out, found %d", peak, found)
		}
		return
	}
	least := int64(0)
	for i := range v.plain.g.Nodes {
		least = max(least, v.plain.AtNode(int32(i)))
	}
	switch {
	case found < least:
		v.fault(CodeLimit, "summary: plain_peak_bytes: expected at least %d, which one node takes in every order, found %d", least, found)
	case !l.LimitArena && found <= l.LimitBytes:
		v.fault(CodeLimit, "summary: plain_peak_bytes: expected more than the limit, %d, if nodes run again or tensors are swapped out, found %d", l.LimitBytes, found)
	}
	v.claim("plain_peak_bytes")
}
