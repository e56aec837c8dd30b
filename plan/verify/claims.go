package verify

import (
	"container/heap"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/lossless"
)

// Claims lists all possible entries of Report.Claimed, in their order.
var Claims = []string{
	"tool", "model.file", "source", "source.file", "dims", "ranges", "ranges.refusal", "ranges.sizes", "keeps_random_order",
	"lower_bound_bytes", "schedule_optimal", "placement_optimal", "placement_claimed_by",
	"plain_peak_bytes", "extra_cost_lower_bound_percent", "host_link_bytes_per_second",
	"steps.cost_ns", "traversal.best_peak_bytes", "program_order", "kv", "certificates", "subgraphs.dynamic.reason", "dynamic.reason", "folded", "folded.unfolded_peak_bytes", "folded.unfolded_total_bytes", "slices", "unsliced_peak_bytes", "unsliced_lower_bound_bytes", "any_count_lower_bound_bytes", "any_slices_lower_bound_bytes", "slice_cost_percent", "slices.any_count", "slices.any_slices", "workspaces", "frontier",
}

// claim records a field of the plan that cannot be checked, because the model
// does not determine it. Fields of the summary have their own name, others their
// path.
func (v *verifier) claim(field string) {
	if !slices.Contains(v.r.Claimed, field) {
		v.r.Claimed = append(v.r.Claimed, field)
	}
}

// source compares the plan's description of its source file with that file.
func (v *verifier) source() {
	if v.p.Source == (plan.File{}) {
		return
	}
	if v.opt.Source == nil {
		v.claim("source")
		return
	}
	want := plan.SourceOf(v.opt.Source)
	if want.Bytes != v.p.Source.Bytes {
		v.fault(CodeSource, "source: expected %d bytes, found %d", want.Bytes, v.p.Source.Bytes)
	}
	if want.GraphSHA256 != v.p.Source.GraphSHA256 {
		v.fault(CodeSource, "source: graph_sha256: expected %s, found %s: the plan was made from another graph", want.GraphSHA256, graph.Short(v.p.Source.GraphSHA256))
	}
	if want.File != v.p.Source.File {
		v.claim("source.file")
	}
	if len(v.r.Violations) == 0 && !v.opt.Unwritten && !v.encodedAnew() {
		if x := lossless.Compare(v.opt.Source.Source.Bytes, v.m.Source.Bytes); x != "" {
			v.fault(CodeLossless, "%s", x)
		}
	}
}

// encodedAnew reports whether the file's graph is not the source's with changes: a training
// step of an inference model, a decoder with caches of fixed capacity, or a graph in which
// the calls of local functions were replaced.
func (v *verifier) encodedAnew() bool {
	if v.p.KV != nil {
		return true
	}
	is := func(m *graph.Model) bool {
		mode, _ := m.Prop("onnxmem.mode")
		return mode == "training"
	}
	return is(v.m) != is(v.opt.Source) || calls(v.opt.Source, v.opt.Source) && !calls(v.m, v.opt.Source)
}

// calls reports whether a node of the main graph, or of a body, calls a local function of the
// source. One that only the plan has, as those of swaps and slices, does not count; one that
// the plan of the source had does.
func calls(m, source *graph.Model) bool {
	local := map[[2]string]bool{}
	for _, f := range source.Functions {
		local[[2]string{f.Domain, f.Name}] = true
	}
	found := false
	var look func(g *graph.Graph)
	look = func(g *graph.Graph) {
		for _, n := range g.Nodes {
			found = found || local[[2]string{n.Domain, n.Op}]
			for _, a := range n.Bodies() {
				for _, body := range a.All() {
					look(body)
				}
			}
		}
	}
	look(m.Graph)
	return found
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
	if v.opt.Source == nil || v.p.Slices != nil {
		return false
	}
	// If several steps make a tensor, the last instance has its name in the
	// source, so each output of a step has all the names of its instances.
	g := v.opt.Source.Graph
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
	if v.p.Folded != nil {
		v.placeFolded(s, at, makers)
	}
	places := make([]int, len(from)) // by node of plain
	taken := make([]bool, len(g.Nodes))
	for i, id := range from {
		places[i] = at[id]
		if at[id] == none || v.p.Folded == nil && taken[at[id]] {
			return false
		}
		taken[at[id]] = true
	}
	if v.p.Folded == nil && len(from) != len(g.Nodes) {
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
		t := v.names.of(s.g)[name]
		if place, known := makers[name]; known && t != nil && t.Maker >= 0 {
			at[t.Maker] = place
		}
	}
	for _, f := range v.p.Folded.Tensors {
		if f.Subgraph == nil {
			replaces(f.Of)
		}
	}
	products := 0
	for _, f := range v.p.Folded.Products {
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
			v.fault(CodeProgram, "program_order: %s stands at position %d, before %s, which can run there and comes first in the source file: node %d, before node %d",
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

func (h firsts) Len() int           { return len(h) }
func (h firsts) Less(i, j int) bool { return h[i].place < h[j].place }
func (h firsts) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *firsts) Push(x any)        { *h = append(*h, x.(first)) }
func (h *firsts) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// claimOrder records the unchecked figures about the source's order. The plan
// does not store the order of the nodes in the source's bodies and functions.
func (v *verifier) claimOrder(s *scope, checked bool) {
	if !checked && len(v.p.ProgramOrder.Steps) > 1 {
		v.claim("program_order")
	}
	if !v.p.KeepsRandomOrder {
		return
	}
	effects := graph.Effects(s.g)
	inner := func(n *graph.Node) bool { return n.Semantics.Call != nil || len(n.Bodies()) > 0 }
	for i, n := range s.g.Nodes {
		if effects[i] && (!checked || inner(n)) {
			v.claim("keeps_random_order")
		}
	}
}
