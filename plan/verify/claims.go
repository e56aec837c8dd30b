package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Claims lists all possible entries of Report.Claimed, in their order.
var Claims = []string{
	"tool", "model.file", "source", "source.file", "dims", "keeps_random_order",
	"lower_bound_bytes", "schedule_optimal", "placement_optimal",
	"plain_peak_bytes", "extra_cost_lower_bound_percent", "host_link_bytes_per_second",
	"steps.cost_ns", "program_order", "certificates", "subgraphs.dynamic.reason", "dynamic.reason", "folded", "folded.unfolded_peak_bytes", "folded.unfolded_total_bytes", "frontier",
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
}

// checkSource compares the program order with the nodes of the source file. It
// reports whether it could: the source must be available and have the same nodes,
// which is not the case for inlined functions and for a training step made from
// an inference model.
func (v *verifier) checkSource(s *scope, again []graph.NodeID) bool {
	if v.opt.Source == nil {
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
	steps := v.p.ProgramOrder.Steps
	if v.p.Folded != nil {
		return v.checkFoldedSource(s, at, makers)
	}
	if len(steps) != len(g.Nodes) || slices.ContainsFunc(steps, func(step int) bool { return at[step] == none }) {
		return false
	}
	for i, step := range steps {
		if at[step] != i {
			v.fault(CodeProgram, "program_order: expected %s at position %d, found it at position %d: in the source file it is node %d", s.g.Label(graph.NodeID(step)), at[step], i, at[step])
			break
		}
	}
	return true
}

// checkFoldedSource is checkSource for a source of which some nodes were computed from
// constants: the others must follow each other as in the source. A view of a result
// stands where the node was that made it.
func (v *verifier) checkFoldedSource(s *scope, at []int, makers map[string]int) bool {
	for _, f := range v.p.Folded.Tensors {
		if place, known := makers[f.Of]; known && f.Subgraph == nil {
			if t := find(s.g, f.Of); t != nil && t.Maker >= 0 {
				at[t.Maker] = place
			}
		}
	}
	// A product stands where it stood in the source, among nodes that the plan added.
	if s.g != nil && len(v.p.Folded.Products) > 0 {
		for _, f := range v.p.Folded.Products {
			if t := find(s.g, f.Tensor); t != nil && t.Maker >= 0 {
				if place, known := makers[f.Tensor]; known {
					at[t.Maker] = place
				}
			}
		}
	}
	last := none
	for i, step := range v.p.ProgramOrder.Steps {
		if at[step] == none && len(v.p.Folded.Products) > 0 {
			continue
		}
		if at[step] == none {
			return false
		}
		if at[step] < last {
			v.fault(CodeProgram, "program_order: %s stands at position %d, after a node that follows it in the source file", s.g.Label(graph.NodeID(step)), i)
			break
		}
		last = at[step]
	}
	return true
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
