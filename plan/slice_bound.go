package plan

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
)

// mostBoundNamed is the largest number of nodes or tensors that Text names.
const mostBoundNamed = 4

// Text says in one clause what the bound is and what it consists of.
func (b SliceBound) Text() string {
	names := func(list []string) (text string) {
		for i, name := range list {
			if i == mostBoundNamed {
				return text + fmt.Sprintf(" and %d more", len(list)-mostBoundNamed)
			}
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf("%q", graph.Short(name))
		}
		return text
	}
	text := ""
	switch b.Why {
	case BoundInputs:
		text = fmt.Sprintf("whatever runs in slices, the graph's inputs take %s at the first step", units.Bytes(b.Bytes))
	case BoundOutputs:
		text = fmt.Sprintf("whatever runs in slices, the graph's outputs take %s at the last step", units.Bytes(b.Bytes))
	case BoundNode:
		node := "a node"
		if len(b.Nodes) > 0 {
			node = graph.Short(b.Nodes[0])
		}
		text = fmt.Sprintf("whatever runs in slices, %s cannot, and needs %s", node, units.Bytes(b.Bytes))
	default:
		text = fmt.Sprintf("without recomputation, these regions need at least %s in any number of slices", units.Bytes(b.Bytes))
	}
	if len(b.Tensors) > 0 {
		text += ", for " + names(b.Tensors)
	}
	return text
}
