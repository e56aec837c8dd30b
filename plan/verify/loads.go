package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// planLoads gives the load at each step: the sum of the buffers that live there,
// in pools other than resident and host.
func (s *scope) planLoads() []int64 {
	steps := len(s.g.Nodes)
	change := make([]int64, steps+1)
	if s.naive(); s.v.overflow || steps == 0 {
		return make([]int64, steps)
	}
	for k := range s.buffers {
		if p := &s.buffers[k]; p.ok && !p.resident && !p.host {
			change[p.first] += p.bytes
			change[p.last+1] -= p.bytes
		}
	}
	loads := make([]int64, steps)
	live := int64(0)
	for i := range loads {
		live += change[i]
		loads[i] = live
	}
	return loads
}

// naive is the sum of the buffers in pools other than resident and host.
func (s *scope) naive() int64 {
	sum := int64(0)
	for k := range s.buffers {
		if p := &s.buffers[k]; p.ok && !p.resident && !p.host {
			sum = s.v.add(sum, p.bytes)
		}
	}
	return sum
}

// checkSteps holds a list of steps against the nodes and their loads.
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

// programOrder checks the input file's order and gives its peak, or what the plan
// says where there is no telling. Which order that file had cannot be known: it
// must be an order of the nodes, repetitions left out, and its loads must be those
// of that order.
func (v *verifier) programOrder(s *scope, again []graph.NodeID) int64 {
	p := &v.p.ProgramOrder
	claimed := v.p.Summary.ProgramPeakBytes
	plain, from := s, s.identity()
	if v.added = v.addedNodes(s, again); v.added != nil {
		plain, from = s.without(v.added, again)
	}
	v.plain = plain
	n := len(from)
	if len(p.Steps) != n || len(p.LoadBytes) != n {
		v.fault(CodeProgram, "program_order: expected %d steps and loads, found %d and %d", n, len(p.Steps), len(p.LoadBytes))
		return claimed
	}
	to := make([]graph.NodeID, len(s.g.Nodes)) // where a node of s stands in plain
	for i := range to {
		to[i] = none
	}
	for i, id := range from {
		to[id] = graph.NodeID(i)
	}
	order := make([]graph.NodeID, n)
	place := make([]int, n)
	for i, step := range p.Steps {
		if step < 0 || step >= len(to) || to[step] == none || place[to[step]] != 0 {
			v.fault(CodeProgram, "program_order: expected each of the steps 0-%d that repeats none once, found %d at place %d", len(to)-1, step, i)
			return claimed
		}
		order[i], place[to[step]] = to[step], i+1
	}
	sorted := true
	for i, id := range order {
		plain.g.Nodes[id].Reads(func(t graph.TensorID) {
			if m := plain.g.Tensors[t].Maker; sorted && m >= 0 && place[m] > i {
				sorted = false
				v.fault(CodeProgram, "program_order: %s reads %s before %s makes it: expected a topological order", plain.g.Label(id), plain.name(t), plain.g.Label(m))
			}
		})
	}
	if !sorted {
		return claimed
	}
	if v.p.KeepsRandomOrder {
		v.checkEffects(plain, order)
	}
	v.claimOrder(s, v.checkSource(s, again))
	loads, peak := plain.simulate(order)
	for i, load := range loads {
		if p.LoadBytes[i] != load {
			v.fault(CodeProgram, "program_order: place %d, %s: expected a load of %d bytes, found %d", i, plain.g.Label(order[i]), load, p.LoadBytes[i])
		}
	}
	return peak
}

// checkEffects checks that nodes with effects run as in the input file's order.
func (v *verifier) checkEffects(s *scope, program []graph.NodeID) {
	effects, last := graph.Effects(s.g), graph.NodeID(none)
	for _, id := range program {
		if !effects[id] {
			continue
		}
		if id < last {
			v.fault(CodeProgram, "program_order: %s stands before %s: expected the order of the plan, which says that it keeps that of random operators", s.g.Label(last), s.g.Label(id))
		}
		last = max(last, id)
	}
}
