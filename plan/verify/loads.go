package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// checkSteps compares a list of steps with the nodes and their loads.
func (s *scope) checkSteps(what string, steps []plan.Step, loads []int64) {
	if len(steps) != len(s.g.Nodes) {
		s.fault(CodeOrder, "%s: expected one per node, %d, found %d", what, len(s.g.Nodes), len(steps))
	}
	for i := range min(len(steps), len(s.g.Nodes)) {
		n, st := s.g.Nodes[i], &steps[i]
		if st.Name != n.Name || st.Op != plan.OpName(n) {
			s.fault(CodeOrder, "%s: step %d: expected %q (%s), node %d of the file, found %q (%s)",
				what, i, graph.Short(n.Name), plan.OpName(n), i, graph.Short(st.Name), graph.Short(st.Op))
		}
		if st.LoadBytes != loads[i] {
			s.fault(CodeLoad, "%s: step %d, %s: expected a load of %d bytes, found %d", what, i, s.g.Label(graph.NodeID(i)), loads[i], st.LoadBytes)
		}
	}
}

// programOrder checks the input file's order and returns its peak, or the plan's
// figure if it cannot be checked. The planned file does not contain the input
// file's order, so the list only has to be an order of the nodes without
// repetitions, with the loads of that order.
func (v *verifier) programOrder(s *scope, again []graph.NodeID) int64 {
	p := &v.p.ProgramOrder
	claimed := v.p.Summary.ProgramPeakBytes
	plain, from := s.withoutAliases(), s.Identity()
	if v.added = v.addedNodes(s, again); v.added != nil {
		plain, from = s.without(v.added, again)
	}
	v.plain = plain
	n := len(from)
	if len(p.Steps) != n || len(p.LoadBytes) != n {
		v.fault(CodeProgram, "program_order: expected %d steps and loads, found %d and %d", n, len(p.Steps), len(p.LoadBytes))
		return claimed
	}
	to := make([]int32, len(s.g.Nodes)) // position in plain of each node of s
	for i := range to {
		to[i] = none
	}
	for i, id := range from {
		to[id] = int32(i)
	}
	order := make([]int32, n)
	place := make([]int, n)
	for i, step := range p.Steps {
		if step < 0 || step >= len(to) || to[step] == none || place[to[step]] != 0 {
			v.fault(CodeProgram, "program_order: expected each of the steps 0-%d that is no repetition once, found %d at position %d", len(to)-1, step, i)
			return claimed
		}
		order[i], place[to[step]] = to[step], i+1
	}
	sorted := true
	for i, id := range order {
		plain.g.Nodes[id].Reads(func(t graph.TensorID) {
			if m := plain.g.Tensors[t].Maker; sorted && m >= 0 && place[m] > i {
				sorted = false
				v.fault(CodeProgram, "program_order: %s reads %s before %s makes it: expected a topological order", plain.g.Label(graph.NodeID(id)), plain.name(t), plain.g.Label(m))
			}
		})
	}
	if !sorted {
		return claimed
	}
	if v.p.KeepsRandomOrder {
		v.checkEffects(plain, order)
	}
	v.claimOrder(s, v.checkSource(s, plain, from, order, again))
	loads, peak := plain.Simulate(order)
	for i, load := range loads {
		if p.LoadBytes[i] != load {
			v.fault(CodeProgram, "program_order: position %d, %s: expected a load of %d bytes, found %d", i, plain.g.Label(graph.NodeID(order[i])), load, p.LoadBytes[i])
		}
	}
	return peak
}

// checkEffects checks that nodes with effects run in the order of the input file.
func (v *verifier) checkEffects(s *scope, program []int32) {
	effects, last := graph.Effects(s.g), int32(none)
	for _, id := range program {
		if !effects[id] {
			continue
		}
		if id < last {
			v.fault(CodeProgram, "program_order: %s runs before %s: expected the order of the plan, which claims to keep the order of random operators", s.g.Label(graph.NodeID(last)), s.g.Label(graph.NodeID(id)))
		}
		last = max(last, id)
	}
}
