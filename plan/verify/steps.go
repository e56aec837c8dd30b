package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// steps compares the steps with the nodes and their loads, and computes the summary's figures.
func (v *verifier) steps() bool {
	loads := v.main.Loads(v.main.buffers)
	v.main.checkSteps("steps", v.p.Steps, loads)
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
