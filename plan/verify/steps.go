package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// steps compares the steps with the nodes and their loads, and computes the summary's figures.
func (v *verifier) steps() bool {
	loads := v.main.Loads(v.main.buffers)
	v.main.checkSteps("steps", v.Plan.Steps, loads)
	v.sum = v.summarize(v.main, loads)
	return true
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

// summarize computes the figures that follow from the plan's buffers and order.
func (v *verifier) summarize(s *scope, loads []int64) plan.Summary {
	sum := plan.Summary{Nodes: len(s.g.Nodes), NaiveBytes: s.Naive(s.buffers), ArenaBytes: s.top(plan.Arena)}
	for _, t := range v.Plan.Tiers() {
		sum.ArenaBytes = v.add(sum.ArenaBytes, s.top(t.Name))
	}
	for _, t := range s.g.Tensors {
		if t.Maker >= 0 || t.Input && t.Data == nil {
			sum.Tensors++
			if t.Dynamic != "" {
				sum.Dynamic++
			}
		}
	}
	for _, s := range v.scopes {
		for k := range s.buffers {
			if p := &s.buffers[k]; p.Known && p.Resident {
				sum.ResidentBytes = v.add(sum.ResidentBytes, p.Bytes)
			}
		}
	}
	sum.TotalBytes = v.add(sum.ArenaBytes, sum.ResidentBytes)
	for i, load := range loads {
		if load > sum.PeakBytes {
			sum.PeakBytes, sum.PeakStep = load, i
		}
	}
	if len(loads) == 0 {
		sum.PeakBytes = sum.NaiveBytes
	}
	if sum.ArenaBytes != sum.PeakBytes && v.Plan.Summary.PlacementOptimal {
		sum.PlacementClaimedBy = v.Plan.Summary.PlacementClaimedBy
	}
	sum.PlacementOptimal = sum.ArenaBytes == sum.PeakBytes || v.Plan.Summary.PlacementOptimal
	return sum
}
