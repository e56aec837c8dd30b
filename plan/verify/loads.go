package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// planLoads returns the load at each step: the sum of the live buffers in pools
// other than resident and host.
func (s *scope) planLoads() []int64 {
	steps := len(s.g.Nodes)
	change := make([]int64, steps+1)
	if s.naive(); s.v.overflow || steps == 0 {
		return make([]int64, steps)
	}
	for k := range s.buffers {
		if p := &s.buffers[k]; p.known && !p.resident && !p.host {
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
		if p := &s.buffers[k]; p.known && !p.resident && !p.host {
			sum = s.v.add(sum, p.bytes)
		}
	}
	return sum
}

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
	plain, from := s.withoutAliases(), s.identity()
	if v.added = v.addedNodes(s, again); v.added != nil {
		plain, from = s.without(v.added, again)
	}
	v.plain = plain
	n := len(from)
	if len(p.Steps) != n || len(p.LoadBytes) != n {
		v.fault(CodeProgram, "program_order: expected %d steps and loads, found %d and %d", n, len(p.Steps), len(p.LoadBytes))
		return claimed
	}
	to := make([]graph.NodeID, len(s.g.Nodes)) // position in plain of each node of s
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
	v.claimOrder(s, v.checkSource(s, plain, from, order, again))
	loads, peak := plain.simulate(order)
	for i, load := range loads {
		if p.LoadBytes[i] != load {
			v.fault(CodeProgram, "program_order: position %d, %s: expected a load of %d bytes, found %d", i, plain.g.Label(order[i]), load, p.LoadBytes[i])
		}
	}
	return peak
}

// checkEffects checks that nodes with effects run in the order of the input file.
func (v *verifier) checkEffects(s *scope, program []graph.NodeID) {
	effects, last := graph.Effects(s.g), graph.NodeID(none)
	for _, id := range program {
		if !effects[id] {
			continue
		}
		if id < last {
			v.fault(CodeProgram, "program_order: %s runs before %s: expected the order of the plan, which claims to keep the order of random operators", s.g.Label(last), s.g.Label(id))
		}
		last = max(last, id)
	}
}

// pair is two storages, one of which a node may overwrite with the other.
type pair struct{ result, over int32 }

// pairs returns the in-place pairs of a node that save bytes: both storages have
// one size, and the overwritten one is not resident, not outside and no graph
// output.
func (s *scope) pairs(id graph.NodeID) []pair {
	if s.pairsOf != nil {
		return s.pairsOf[id]
	}
	n := s.g.Nodes[id]
	if !s.v.p.Sharing.Inplace || len(n.Semantics.Inplace) == 0 {
		return nil
	}
	var list []pair
	seen := map[pair]bool{}
	for _, a := range n.Semantics.Inplace {
		p, ok := s.pair(n, a)
		if !ok || seen[p] || s.storages[p.over].bytes == 0 || !s.counts(p.result) || !s.counts(p.over) || s.storages[p.over].output {
			continue
		}
		seen[p] = true
		list = append(list, p)
	}
	return list
}

// pair returns the storages of an in-place alias, if they have the same size and the
// result is the first tensor of its storage. The size may be 0: a parameter without
// elements is updated in place like any other, and nothing is written there.
func (s *scope) pair(n *graph.Node, a graph.Alias) (p pair, ok bool) {
	if a.Out >= len(n.Outputs) || a.In >= len(n.Inputs) {
		return p, false
	}
	out, in := n.Outputs[a.Out], n.Inputs[a.In]
	if out < 0 || in < 0 || s.storageOf[out] == none || s.storageOf[in] == none {
		return p, false
	}
	results, overs := s.partsOf(s.storageOf[out]), s.partsOf(s.storageOf[in])
	if len(results) != 1 || len(overs) != 1 {
		return p, false
	}
	p = pair{results[0], overs[0]}
	result, over := &s.storages[p.result], &s.storages[p.over]
	return p, result.tensors[0] == out && over.bytes == result.bytes
}

// saved is the largest number of bytes that pairs of one node save together: the
// weight of a largest matching. Both storages of a pair have the same size, so
// pairs of different sizes never compete, and a matching with the most pairs is
// the heaviest.
func (s *scope) saved(pairs []pair) int64 {
	if len(pairs) == 1 {
		return s.storages[pairs[0].over].bytes
	}
	options := map[int32][]int32{}
	var results []int32
	for _, p := range pairs {
		if options[p.result] == nil {
			results = append(results, p.result)
		}
		options[p.result] = append(options[p.result], p.over)
	}
	holder := map[int32]int32{} // from an overwritten storage to the result that overwrites it
	var take func(result int32, tried map[int32]bool) bool
	take = func(result int32, tried map[int32]bool) bool {
		for _, over := range options[result] {
			if tried[over] {
				continue
			}
			tried[over] = true
			if other, held := holder[over]; !held || take(other, tried) {
				holder[over] = result
				return true
			}
		}
		return false
	}
	for _, result := range results {
		take(result, map[int32]bool{})
	}
	sum := int64(0)
	for over := range holder {
		sum += s.storages[over].bytes
	}
	return sum
}

// simulate runs the nodes in an order, with a largest matching of in-place pairs
// at each step, and returns the loads and their peak. Without nodes the peak is
// the bytes of the inputs.
func (s *scope) simulate(order []graph.NodeID) (loads []int64, peak int64) {
	pos := positions(order)
	change := make([]int64, len(order)+1)
	last := make([]int, len(s.storages))
	total := int64(0)
	for i := range s.storages {
		if !s.counts(int32(i)) {
			continue
		}
		bytes := s.storages[i].bytes
		if total = s.v.add(total, bytes); s.v.overflow {
			return make([]int64, len(order)), 0
		}
		if len(order) == 0 {
			continue
		}
		var first int
		first, last[i] = s.lifetime(int32(i), pos)
		change[first] += bytes
		change[last[i]+1] -= bytes
	}
	if len(order) == 0 {
		return []int64{}, total
	}
	loads = make([]int64, len(order))
	live := int64(0)
	for step, n := range order {
		live += change[step]
		var free []pair
		for _, p := range s.pairs(n) {
			if last[p.over] == step {
				free = append(free, p)
			}
		}
		load := live
		if len(free) > 0 {
			load -= s.saved(free)
		}
		loads[step] = s.v.add(load, s.work[n])
		peak = max(peak, loads[step])
	}
	return loads, peak
}
