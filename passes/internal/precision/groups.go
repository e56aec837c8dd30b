package precision

import (
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// member says that a node spells out, with others, one operator, which computes in float32
// from its operand to its result.
type member struct {
	what string
	x    graph.TensorID // the operand
	last bool           // the node makes the result, which has the type of the operand
}

// findGroups finds the nodes of operators that exporters spell out. A kernel of one such
// operator computes in float32 whatever its operand is, and rounds its result alone; in 16
// bits, each of the nodes would.
func findGroups(c *caster, nodes []*graph.Node) map[*graph.Node]member {
	found := map[*graph.Node]member{}
	for _, g := range autodiff.Groups(c.g, c.opsets, c.values, nodes) {
		op := ops.Lookup(g.Domain, g.Op)
		if len(g.Nodes) < 3 && !c.opt.Trains {
			continue // two nodes round once more, and the buffer between them may be half of a peak
		}
		if op == nil || op.Precision == ops.Half || op.Class != ops.Elementwise && op.Class != ops.Norm {
			continue
		}
		for i, n := range g.Nodes {
			found[n] = member{g.Op, g.X, i == len(g.Nodes)-1 && op.Precision == ops.Widest}
		}
	}
	return found
}
