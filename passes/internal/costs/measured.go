package costs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// Measured carries the measured costs of nodes ([Model].Given) over to what slices run
// in their place. A copy of a node takes what the device's model says of it, times what the
// node took when it was measured for what the model says of the node. Nodes that have no
// counterpart, as those that take rows, do so by what all measured nodes took together.
type Measured struct {
	names   map[string]bool    // of all nodes of the graph without slices
	byName  map[string]float64 // by the name of a node of the graph without slices
	byKind  map[string]float64 // by operator and types: of all nodes that are alike
	typical float64            // of all nodes
}

// has reports whether a node of that name was there before the slices.
func (m *Measured) has(name string) bool { return m != nil && m.names[name] }

// of returns what the time of a node is, as a multiple of its estimate; known is false if
// the estimate stands.
func (m *Measured) of(n *graph.Node) (factor float64, known bool) {
	if m == nil {
		return 1, false
	}
	for name := n.Name; ; {
		if f, ok := m.byName[name]; ok {
			return f, true
		}
		match := copiedNode.FindStringSubmatch(name)
		if match == nil {
			break
		}
		name = match[1]
	}
	if _, sliced := n.Prop(slicing.Prop); sliced {
		return m.typical, true
	}
	return 1, false
}

// kindOf identifies nodes that do the same work: those of repeated blocks.
func kindOf(g *graph.Graph, n *graph.Node) string {
	var b strings.Builder
	b.WriteString(n.OpName())
	for _, list := range [][]graph.TensorID{n.Inputs, n.Outputs} {
		b.WriteByte('|')
		for _, t := range list {
			if t >= 0 {
				fmt.Fprint(&b, g.Tensors[t].Type, g.Tensors[t].Data != nil)
			}
			b.WriteByte(',')
		}
	}
	return b.String()
}

// copiedNode matches the name of a node that stands for one of the graph without slices:
// in a slice, for one reader, or for some of its columns.
var copiedNode = regexp.MustCompile(`^(.+)/(?:s|for|part)\d+(?:\.\d+)?$`)
