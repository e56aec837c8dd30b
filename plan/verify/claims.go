package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Claims lists all that may stand in Report.Claimed, in that order.
var Claims = []string{
	"tool", "model.file", "source", "source.file", "dims", "keeps_random_order",
	"lower_bound_bytes", "schedule_optimal", "placement_optimal",
	"plain_peak_bytes", "extra_cost_lower_bound_percent", "host_link_bytes_per_second",
	"steps.cost_ns", "program_order", "certificates", "subgraphs.dynamic.reason", "dynamic.reason", "frontier",
}

// claim notes a field of the plan that was not checked: there is nothing to compute
// it from. Fields of the summary go by their own name, others by their path.
func (v *verifier) claim(field string) {
	if !slices.Contains(v.r.Claimed, field) {
		v.r.Claimed = append(v.r.Claimed, field)
	}
}

// source holds what the plan says of the file that it was made from against that
// file.
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
		v.fault(CodeSource, "source: graph_sha256: expected %s, found %s: the plan was made of another graph", want.GraphSHA256, graph.Short(v.p.Source.GraphSHA256))
	}
	if want.File != v.p.Source.File {
		v.claim("source.file")
	}
}

// checkSource holds program order against the nodes of the source file, where that
// is at hand and has the same nodes: functions that were inlined, and the step of
// training that was made of a model, have not. It reports whether it could.
func (v *verifier) checkSource(s *scope, again []graph.NodeID) bool {
	if v.opt.Source == nil {
		return false
	}
	// Of a tensor that several steps make the last one has the name that it has in
	// the source: each output of a step goes by all the names that its instances have.
	g := v.opt.Source.Graph
	makers := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				makers[g.Tensors[t].Name] = i
			}
		}
	}
	at := make([]int, len(s.g.Nodes)) // where a step stands in the source
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
	if len(steps) != len(g.Nodes) || slices.ContainsFunc(steps, func(step int) bool { return at[step] == none }) {
		return false
	}
	for i, step := range steps {
		if at[step] != i {
			v.fault(CodeProgram, "program_order: expected %s at place %d, found it at place %d: in the source file it is node %d", s.g.Label(graph.NodeID(step)), at[step], i, at[step])
			break
		}
	}
	return true
}

// claimOrder notes what is said of the source's order where its file is not at hand.
// Which order the bodies and functions of the source had stands nowhere in the plan.
func (v *verifier) claimOrder(s *scope, checked bool) {
	if !checked && len(v.p.ProgramOrder.Steps) > 1 {
		v.claim("program_order")
	}
	if !v.p.KeepsRandomOrder {
		return
	}
	effects := graph.Effects(s.g)
	inner := func(n *graph.Node) bool { return n.Meaning.Call != nil || len(n.Bodies()) > 0 }
	for i, n := range s.g.Nodes {
		if effects[i] && (!checked || inner(n)) {
			v.claim("keeps_random_order")
		}
	}
}
