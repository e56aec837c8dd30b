package verify

import (
	"container/heap"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// programOrder checks the input file's order, but where a plan for ranges is checked at the
// corner alone: the sharing that this order may use is that of all points.
func (v *verifier) programOrder() bool {
	if v.onlyCorner() {
		v.Claim("program_order")
		v.added = v.addedNodes(v.main, v.again)
		v.sum.ProgramPeakBytes = v.Plan.Summary.ProgramPeakBytes
	} else {
		v.sum.ProgramPeakBytes = v.programPeak(v.main, v.again)
	}
	return true
}

// programPeak checks the input file's order and returns its peak, or the plan's
// figure if it cannot be checked. The planned file does not contain the input
// file's order, so the list only has to be an order of the nodes without
// repetitions, with the loads of that order.
func (v *verifier) programPeak(s *scope, again []graph.NodeID) int64 {
	p := &v.Plan.ProgramOrder
	claimed := v.Plan.Summary.ProgramPeakBytes
	plain, from := s.withoutAliases(), s.Identity()
	if v.added = v.addedNodes(s, again); v.added != nil {
		plain, from = s.without(v.added, again)
	}
	v.plain = plain
	n := len(from)
	if len(p.Steps) != n || len(p.LoadBytes) != n {
		v.Fault(CodeProgram, "program_order: expected %d steps and loads, found %d and %d", n, len(p.Steps), len(p.LoadBytes))
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
			v.Fault(CodeProgram, "program_order: expected each of the steps 0-%d that is no repetition once, found %d at position %d", len(to)-1, step, i)
			return claimed
		}
		order[i], place[to[step]] = to[step], i+1
	}
	sorted := true
	for i, id := range order {
		plain.g.Nodes[id].Reads(func(t graph.TensorID) {
			if m := plain.g.Tensors[t].Maker; sorted && m >= 0 && place[m] > i {
				sorted = false
				v.Fault(CodeProgram, "program_order: %s reads %s before %s makes it: expected a topological order", plain.g.Label(graph.NodeID(id)), plain.name(t), plain.g.Label(m))
			}
		})
	}
	if !sorted {
		return claimed
	}
	if v.Plan.KeepsRandomOrder {
		v.checkEffects(plain, order)
	}
	v.claimOrder(s, v.checkSource(s, plain, from, order, again))
	loads, peak := plain.simulate(order)
	for i, load := range loads {
		if p.LoadBytes[i] != load {
			v.Fault(CodeProgram, "program_order: position %d, %s: expected a load of %d bytes, found %d", i, plain.g.Label(graph.NodeID(order[i])), load, p.LoadBytes[i])
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
			v.Fault(CodeProgram, "program_order: %s runs before %s: expected the order of the plan, which claims to keep the order of random operators", s.g.Label(graph.NodeID(last)), s.g.Label(graph.NodeID(id)))
		}
		last = max(last, id)
	}
}

// checkSource compares the program order with the source file. The program order is the
// file's order if that is topological; else repeatedly the first node of the file whose
// inputs are there. order is that of plain, whose node i is node from[i] of s.
//
// checkSource reports whether it could compare. The source must be available and have the
// same nodes, apart from those that were computed from constants. It has others if functions
// were inlined, or if the plan is of a training step made from it. With slices, what a region
// reads runs before its first slice, wherever it stands in the source.
func (v *verifier) checkSource(s, plain *scope, from, order []int32, again []graph.NodeID) bool {
	if v.Source == nil || v.Plan.Slices != nil {
		return false
	}
	// If several steps make a tensor, the last instance has its name in the
	// source, so each output of a step has all the names of its instances.
	g := v.Source.Graph
	makers := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				makers[g.Tensors[t].Name] = i
			}
		}
	}
	at := make([]int, len(s.g.Nodes)) // position of each step in the source
	for i := range at {
		at[i] = none
	}
	for i, n := range s.g.Nodes {
		first := i
		if again != nil && again[i] != none {
			first = int(again[i])
		}
		for _, t := range n.Outputs {
			if t < 0 {
				continue
			}
			if place, known := makers[s.g.Tensors[t].Name]; known && plan.OpName(g.Nodes[place]) == plan.OpName(n) {
				at[first] = place
			}
		}
	}
	if v.Plan.Folded != nil {
		v.placeFolded(s, at, makers)
	}
	places := make([]int, len(from)) // by node of plain
	taken := make([]bool, len(g.Nodes))
	for i, id := range from {
		places[i] = at[id]
		if at[id] == none || v.Plan.Folded == nil && taken[at[id]] {
			return false
		}
		taken[at[id]] = true
	}
	if v.Plan.Folded == nil && len(from) != len(g.Nodes) {
		return false
	}
	v.checkFirstReady(plain, order, places)
	return true
}

// placeFolded sets the positions in the source of what replaces its nodes: a view of a
// folded constant stands where the node was that made it, and the nodes of a product
// stand where the product was.
func (v *verifier) placeFolded(s *scope, at []int, makers map[string]int) {
	replaces := func(name string) {
		t := v.Tensors(s.g)[name]
		if place, known := makers[name]; known && t != nil && t.Maker >= 0 {
			at[t.Maker] = place
		}
	}
	for _, f := range v.Plan.Folded.Tensors {
		if f.Subgraph == nil {
			replaces(f.Of)
		}
	}
	products := 0
	for _, f := range v.Plan.Folded.Products {
		if f.Subgraph == nil {
			replaces(f.Tensor)
			products++
		}
	}
	if products == 0 {
		return
	}
	for i := len(s.g.Nodes) - 1; i >= 0; i-- {
		for _, t := range s.g.Nodes[i].Outputs {
			if t < 0 || at[i] != none {
				continue
			}
			for _, r := range s.g.Tensors[t].Readers {
				at[i] = max(at[i], at[r])
			}
		}
	}
}

// checkFirstReady checks that an order always runs a node whose place is the least of
// those that can run.
func (v *verifier) checkFirstReady(s *scope, order []int32, places []int) {
	ran := make([]bool, len(order))
	waiting := make([]int, len(order)) // tensors that have not been made
	for _, t := range s.g.Tensors {
		if t.Maker >= 0 {
			for _, r := range t.Readers {
				waiting[r]++
			}
		}
	}
	var ready firsts
	become := func(i int) { heap.Push(&ready, first{places[i], graph.NodeID(i)}) }
	for i, n := range waiting {
		if n == 0 {
			become(i)
		}
	}
	for i, id := range order {
		for ran[ready[0].node] {
			heap.Pop(&ready)
		}
		if next := ready[0]; next.place < places[id] {
			v.Fault(CodeProgram, "program_order: %s stands at position %d, before %s, which can run there and comes first in the source file: node %d, before node %d",
				s.g.Label(graph.NodeID(id)), i, s.g.Label(next.node), next.place, places[id])
			return
		}
		ran[id] = true
		for _, t := range s.g.Nodes[id].Outputs {
			if t < 0 {
				continue
			}
			for _, r := range s.g.Tensors[t].Readers {
				if waiting[r]--; waiting[r] == 0 {
					become(int(r))
				}
			}
		}
	}
}

// first is a node that can run, with its place in the source file.
type first struct {
	place int
	node  graph.NodeID
}

// firsts is a heap of nodes, the first in the source file on top.
type firsts []first

func (h firsts) Len() int { return len(h) }

func (h firsts) Less(i, j int) bool { return h[i].place < h[j].place }

func (h firsts) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *firsts) Push(x any) { *h = append(*h, x.(first)) }

func (h *firsts) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// claimOrder records the unchecked figures about the source's order. The plan
// does not store the order of the nodes in the source's bodies and functions.
func (v *verifier) claimOrder(s *scope, checked bool) {
	if !checked && len(v.Plan.ProgramOrder.Steps) > 1 {
		v.Claim("program_order")
	}
	if !v.Plan.KeepsRandomOrder {
		return
	}
	effects := graph.Effects(s.g)
	inner := func(n *graph.Node) bool { return n.Semantics.Call != nil || len(n.Bodies()) > 0 }
	for i, n := range s.g.Nodes {
		if effects[i] && (!checked || inner(n)) {
			v.Claim("keeps_random_order")
		}
	}
}
