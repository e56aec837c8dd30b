package vm

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// constantNode is the elements of a Constant node, nil where it holds something
// else than a tensor.
func constantNode(n *graph.Node, name string) *graph.Data {
	for _, a := range n.Attrs {
		if a.Name == "value" && a.Tensor != nil {
			return a.Tensor
		}
	}
	return scalarConstant(n, name)
}

// control prepares a node that holds graphs or calls a local function. special
// is false for all other nodes.
func (b *builder) control(st *step, opsets []graph.Opset, a *area) (special bool, err error) {
	n := st.call.Node
	if n.Meaning.Call != nil || len(n.Bodies()) > 0 {
		b.skip(n)
		return true, fmt.Errorf("no kernel for operators with bodies")
	}
	return false, nil
}

// skip passes by the plan's entries for the bodies of a node.
func (b *builder) skip(n *graph.Node) {
	for _, at := range n.Bodies() {
		for _, g := range at.All() {
			b.next++
			for _, m := range g.Nodes {
				b.skip(m)
			}
		}
	}
}
