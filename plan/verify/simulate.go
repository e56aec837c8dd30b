package verify

import "github.com/onnxmem/onnxmem/graph"

// pair is two storages of which a node may write the one over the other.
type pair struct{ result, over int32 }

// pairs gives the in-place pairs of a node that save anything: both storages of
// one size, the one that is overwritten neither resident nor outside nor a graph
// output.
func (s *scope) pairs(id graph.NodeID) []pair {
	n := s.g.Nodes[id]
	if !s.v.p.Sharing.Inplace || len(n.Meaning.Inplace) == 0 {
		return nil
	}
	var list []pair
	seen := map[pair]bool{}
	for _, a := range n.Meaning.Inplace {
		p, ok := s.pair(n, a)
		if !ok || seen[p] || !s.counts(p.result) || !s.counts(p.over) || s.storages[p.over].output {
			continue
		}
		seen[p] = true
		list = append(list, p)
	}
	return list
}

// pair gives the storages of an in-place alias, if they are of one size that is
// not 0 and the result begins a storage of its own.
func (s *scope) pair(n *graph.Node, a graph.Alias) (p pair, ok bool) {
	if a.Out >= len(n.Outputs) || a.In >= len(n.Inputs) {
		return p, false
	}
	out, in := n.Outputs[a.Out], n.Inputs[a.In]
	if out < 0 || in < 0 || s.of[out] == none || s.of[in] == none {
		return p, false
	}
	p = pair{s.of[out], s.of[in]}
	result, over := &s.storages[p.result], &s.storages[p.over]
	return p, result.tensors[0] == out && over.bytes == result.bytes && over.bytes > 0
}

// saved is the most bytes that pairs of one node save together: the weight of a
// largest matching. The two storages of a pair have one size, so pairs of
// different sizes never compete, and the matching of most pairs is the heaviest.
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
	holder := map[int32]int32{} // what is overwritten -> the result that takes it
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

// simulate runs the nodes in an order, a largest set of in-place pairs taken at
// each step, and gives the load at each and their peak. Without nodes the peak
// is what lives before any.
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
