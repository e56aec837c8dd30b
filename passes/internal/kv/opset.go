package kv

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// scatterOpset is the first opset with TensorScatter and Attention's number of keys.
const scatterOpset = 24

// leastOpset is the first opset whose operators, but for those of changes, mean in opset 24
// what they meant.
const leastOpset = 13

// changes are operators whose attributes and inputs changed since opset 13: those of a class,
// or those named. An operator's changes are history, of which package ops keeps signatures
// alone, and those do not say what an attribute means.
var changes = []struct {
	class  ops.Class
	ops    []string
	before int64
	change func(r *rewriter, n *graph.Node) error
}{
	{ops.Reduce, nil, 18, axesInput},
	{0, []string{"Split"}, 18, splitEvenly},
	{0, []string{"Resize", "Pad", "DFT", "GridSample", "AveragePool", "LpPool"}, 20, refuseOld},
	{0, []string{"GroupNormalization"}, 21, refuseOld},
}

// upgrade raises the model's opset to 24, if it is lower, and changes the nodes that mean
// something else there. Bodies and functions with such nodes are refused.
func (r *rewriter) upgrade() error {
	at := slices.IndexFunc(r.m.Opsets, func(o graph.Opset) bool { return o.Domain == "" })
	if at < 0 || r.m.Opsets[at].Version >= scatterOpset {
		return nil
	}
	from := r.m.Opsets[at].Version
	if from < leastOpset {
		return graph.Errorf("is of opset %d: expected opset %d or later, for TensorScatter of opset %d", from, leastOpset, scatterOpset)
	}
	if err := r.upgradeNodes(r.g, from); err != nil {
		return err
	}
	r.m.Opsets[at].Version = scatterOpset
	return nil
}

func (r *rewriter) upgradeNodes(g *graph.Graph, from int64) error {
	for i, n := range g.Nodes[:len(g.Nodes):len(g.Nodes)] {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				if err := r.upgradeNodes(b, from); err != nil {
					return err
				}
			}
		}
		if n.Domain != "" {
			continue
		}
		for _, c := range changes {
			if from >= c.before || ops.ClassOf(n) != c.class && !slices.Contains(c.ops, n.Op) {
				continue
			}
			change := c.change
			if g != r.g {
				change = refuseOld
			}
			if err := change(r, n); err != nil {
				return asError(err).AtNode(g.Label(graph.NodeID(i)))
			}
		}
	}
	return nil
}

func refuseOld(r *rewriter, n *graph.Node) error {
	return graph.Errorf("means something else in opset %d, which TensorScatter needs: expected a model of that opset (onnx.version_converter)", scatterOpset)
}

// axesInput makes an input of the attribute axes, if a node has it.
func axesInput(r *rewriter, n *graph.Node) error {
	k := slices.IndexFunc(n.Attrs, func(a *graph.Attr) bool { return a.Name == "axes" })
	if k < 0 {
		return nil
	}
	n.Inputs = append(n.Inputs[:1], r.edit.ints(n.Attrs[k].Ints...))
	n.Attrs = slices.Delete(n.Attrs, k, k+1)
	n.Span = graph.Span{}
	return nil
}

// splitEvenly says into how many parts, where no input does.
func splitEvenly(r *rewriter, n *graph.Node) error {
	if input(n, 1) < 0 && n.Attr("num_outputs") == nil {
		n.Inputs = n.Inputs[:1]
		n.Attrs = append(n.Attrs, intAttr("num_outputs", int64(len(n.Outputs))))
		n.Span = graph.Span{}
	}
	return nil
}
