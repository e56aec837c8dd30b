package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// keepRuntime leaves to the nodes of the model what the plan's runtime shares. The rows
// are those of ops; the rules, which do not depend on the operator, are written here once
// more, from those of ONNX Runtime's planner:
//
//   - No view is a graph output, no result that is one is written over an input, and nothing
//     is written over one.
//   - No result is written over bytes of a graph input, of a tensor of an outer graph or of
//     a constant, nor over bytes that its node reads by two of its inputs.
//   - A result has the shape and the element size of what it is written over.
func (v *verifier) keepRuntime() {
	name := v.Plan.Sharing.Runtime
	if name == "" {
		return
	}
	r := ops.LookupRuntime(name)
	if r == nil {
		v.Fault(CodeFormat, "sharing.runtime: no runtime %q", graph.Short(name))
		return
	}
	keepShared(v.Model.Graph, r, map[*graph.Graph]bool{})
}

// keepShared edits a graph and those within it. seen holds those that are done: several calls
// of a function may have one body.
func keepShared(g *graph.Graph, r *ops.Runtime, seen map[*graph.Graph]bool) {
	if seen[g] {
		return
	}
	seen[g] = true
	order, err := g.Topological()
	if err != nil {
		return // inference refuses it
	}
	output := make(map[graph.TensorID]bool, len(g.Outputs))
	for _, t := range g.Outputs {
		output[t] = true
	}
	base := map[graph.TensorID]graph.TensorID{} // of views: the tensor that is none
	baseOf := func(t graph.TensorID) graph.TensorID {
		if b, ok := base[t]; ok {
			return b
		}
		return t
	}
	for _, id := range order {
		n := g.Nodes[id]
		var views, inplace []graph.Alias
		possible := append(append([]graph.Alias(nil), n.Semantics.Views...), n.Semantics.Inplace...)
		row := r.Row(n.Domain, n.Op)
		for k, a := range possible {
			if row == nil || n.Semantics.Call != nil || output[n.Outputs[a.Out]] {
				continue
			}
			in, out := n.Inputs[a.In], n.Outputs[a.Out]
			switch {
			case k < len(n.Semantics.Views) && slices.Contains(row.Views, a):
				base[out] = baseOf(in)
				views = append(views, a)
			case !slices.Contains(row.Inplace, a) || slices.Contains(inplace, a):
			case sameElements(g.Tensors[in].Type, g.Tensors[out].Type) && owned(g, baseOf(in)) && !output[baseOf(in)] && readings(n, baseOf(in), baseOf) == 1:
				inplace = append(inplace, a)
			}
		}
		n.Semantics.Views, n.Semantics.Inplace, n.Semantics.Ranges = views, inplace, nil
		for _, a := range n.Attrs {
			for _, body := range a.All() {
				keepShared(body, r, seen)
			}
		}
		if c := n.Semantics.Call; c != nil && c.Body != nil {
			keepShared(c.Body, r, seen)
		}
	}
}

// owned reports whether a run of the graph makes a tensor itself.
func owned(g *graph.Graph, t graph.TensorID) bool {
	m := g.Tensors[t].Maker
	return m >= 0 && !ops.IsConstant(g.Nodes[m])
}

// readings is the number of inputs, and of tensors that bodies capture, in which a node
// reads the bytes of a tensor.
func readings(n *graph.Node, base graph.TensorID, baseOf func(graph.TensorID) graph.TensorID) (count int) {
	for _, list := range [][]graph.TensorID{n.Inputs, n.Captures} {
		for _, t := range list {
			if t >= 0 && baseOf(t) == base {
				count++
			}
		}
	}
	return count
}

// sameElements reports whether two types have one shape and elements of one size.
func sameElements(a, b graph.Type) bool {
	return a.Elem.Bits() == b.Elem.Bits() && slices.Equal(a.Shape, b.Shape)
}
