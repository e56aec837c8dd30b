package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// upgrade brings the main graph to opset 18, in which gradients are written, if
// it is of an earlier one.
func (s *trainer) upgrade() error {
	from := s.version
	if from >= minOpset {
		return nil
	}
	for k, o := range s.opsets {
		if o.Domain == "" {
			s.opsets[k].Version = minOpset
		}
	}
	s.version = minOpset
	for i, n := range s.g.Nodes {
		if len(n.Bodies()) > 0 {
			return graph.Errorf("a body in opset %d cannot be brought to opset %d, which gradients are written in: expected opset %d or later", from, minOpset, minOpset).AtNode(s.g.Label(graph.NodeID(i)))
		}
		if n.Domain != "" {
			continue
		}
		for _, u := range upgrades {
			if slices.Contains(u.ops, n.Op) && from < u.since {
				u.change(s, n)
			}
		}
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// upgrades say what changed in an operator: the version since which it is
// written the new way. They stand in the order of these versions.
var upgrades = []struct {
	since  int64
	ops    []string
	change func(*trainer, *graph.Node)
}{
	{13, []string{"Squeeze", "Unsqueeze", "ReduceSum"}, axesToInput},
	{13, []string{"Split"}, splitToInput},
	{18, []string{"Split"}, countSplit},
	{18, []string{
		"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
	}, axesToInput},
}

// takeAttr removes a list attribute and gives its elements.
func takeAttr(n *graph.Node, name string) ([]int64, bool) {
	a := n.Attr(name)
	if a == nil {
		return nil, false
	}
	n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(b *graph.Attr) bool { return b == a })
	n.Span = graph.Span{}
	return a.Ints, true
}

// axesToInput: axes, an attribute, became input 1.
func axesToInput(s *trainer, n *graph.Node) {
	if axes, ok := takeAttr(n, "axes"); ok {
		n.Inputs = append(n.Inputs[:1:1], s.list(axes...))
	}
}

// splitToInput: split, an attribute, became input 1.
func splitToInput(s *trainer, n *graph.Node) {
	if split, ok := takeAttr(n, "split"); ok {
		n.Inputs = append(n.Inputs[:1:1], s.list(split...))
	}
}

// countSplit: a Split into equal parts says how many.
func countSplit(s *trainer, n *graph.Node) {
	if len(n.Inputs) < 2 || n.Inputs[1] == graph.None {
		n.Attrs = append(slices.Clone(n.Attrs), attrs{"num_outputs": len(n.Outputs)}.list()...)
		n.Span = graph.Span{}
	}
}
