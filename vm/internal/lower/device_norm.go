package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// On a device, few kernels compute the gradient of a BatchNormalization, or of a
// LayerNormalization, at the step at which both of its sums are made, with the bits of the nodes.

// viewsBefore returns what nodes before a step make of a tensor in place: its other shapes.
func (c *chain) viewsBefore(t graph.TensorID, step int) (list []*values.Tensor) {
	for _, r := range c.f.Graph.Tensors[t].Readers {
		if st := c.f.Steps[r]; !c.nodes[r] && c.place[r] < step && st.Views() {
			list = append(list, st.Out[0])
			list = append(list, c.viewsBefore(st.Node().Outputs[0], step)...)
		}
	}
	return list
}

// apartInTime reports whether a sum that is written at its own step may lie where what the
// kernels read lies: they have read it before that step, or nobody reads the sum any more
// when it is made.
func (g *normGradient) apartInTime(sum graph.NodeID, read graph.TensorID) bool {
	return g.place[sum] > max(g.first, g.second) || max(g.place[sum], g.lastOfViews(g.f.Graph.Nodes[sum].Outputs[0])) < g.begun(read)
}

// lastOfViews is the last step that reads a tensor in any shape; that after the end if the
// graph returns it.
func (c *chain) lastOfViews(t graph.TensorID) int {
	if c.f.Graph.Tensors[t].Output {
		return len(c.order)
	}
	last := c.last(t, false)
	for _, r := range c.f.Graph.Tensors[t].Readers {
		if c.reshapes(r) {
			last = max(last, c.lastOfViews(c.f.Graph.Nodes[r].Outputs[0]))
		}
	}
	return last
}

// begun is the step that writes the bytes of a tensor, perhaps in another shape.
func (c *chain) begun(t graph.TensorID) int {
	for m := c.f.Graph.Tensors[t].Maker; m >= 0 && c.reshapes(m); m = c.f.Graph.Tensors[t].Maker {
		t = c.f.Graph.Nodes[m].Inputs[0]
	}
	return c.made(t)
}

// reshapes reports whether what a node makes lies where its input lies, as its view.
func (c *chain) reshapes(id graph.NodeID) bool {
	st := c.f.Steps[id]
	return len(st.Node().Semantics.Views) > 0 && len(st.Out) == 1 && st.Out[0] != nil && st.In[0] != nil && st.Out[0].At == st.In[0].At
}

// readBefore reports whether a node outside of the chain reads a tensor before a step. A node
// that only gives it another shape, in place, does not.
func (c *chain) readBefore(t graph.TensorID, step int) bool {
	return slices.ContainsFunc(c.f.Graph.Tensors[t].Readers, func(r graph.NodeID) bool {
		switch st := c.f.Steps[r]; {
		case c.nodes[r] || c.place[r] > step:
			return false
		case st.Views():
			view := st.Node().Outputs[0]
			return c.f.Graph.Tensors[view].Output || c.readBefore(view, step)
		}
		return true
	})
}

// onDevice returns the kernels of a gradient for one or two of its steps, and those for late sums.
// It reports false if its tensors do not lie apart, or no kernel takes them.
func (l *lowering) onDevice(n *normGradient) (made gradientRuns, ok bool) {
	f := n.f
	if !n.apart() {
		return made, false
	}
	of := func(id graph.TensorID) *form.Tensor {
		if id < 0 {
			return nil
		}
		return &f.Tensors[id].Tensor
	}
	k := gpu.NormGradient{
		X: of(n.x), D: of(n.d), Scale: of(n.scale), Inverse: of(n.inverse), Scaled: of(n.scaled), Out: of(n.result),
		Sums: &f.Steps[n.sums].Out[0].Tensor, Products: &f.Steps[n.products].Out[0].Tensor,
		Epsilon: n.epsilon, Part: n.part, Late: n.late,
	}
	leader, writer := f.Steps[n.order[n.first]], f.Steps[n.order[n.second]]
	if n.late || n.inverse < 0 && leader != writer {
		bytes, err := k.TableBytes()
		if err == nil {
			k.Table, err = l.s.GPU.Table(bytes, n.first, n.end())
		}
		if err != nil {
			return made, false // the nodes run one by one
		}
	}
	w := l.workspaceOf(leader.ID)
	runs, err := l.s.GPU.Kernels.PrepareNormGradient(&k, w.Space)
	if err != nil {
		return made, false
	}
	l.s.GPU.Took(w, runs.Scratch)
	for id := range n.nodes {
		st := f.Steps[id]
		st.Kernel = kernel.Lookup(st.Node().Domain, st.Node().Op)
	}
	leader.Device, writer.Device = true, true
	made = gradientRuns{measure: runs.Measure, write: runs.Write}
	if n.late {
		made.sums, made.products = runs.Sums, runs.Products
		f.Steps[n.sums].Device, f.Steps[n.products].Device = true, true
	}
	return made, true
}

// apart reports whether what the kernels of a device write lies apart from what they read and
// write in any order. The result may lie exactly on an image that it is computed from.
func (n *normGradient) apart() bool {
	small, whole := []graph.TensorID{n.scale, n.inverse}, []graph.TensorID{n.x, n.d, n.scaled}
	if n.scaled >= 0 {
		small = small[1:]
	}
	sums, products, result := n.f.Steps[n.sums].Out[0], n.f.Steps[n.products].Out[0], n.f.Tensors[n.result]
	if !n.late && values.Overlap(sums, products) {
		return false
	}
	for i, s := range []*values.Tensor{sums, products, result} {
		for _, id := range small {
			if id >= 0 && values.Overlap(s, n.f.Tensors[id]) {
				return false
			}
		}
		for _, id := range whole {
			if id < 0 || !values.Overlap(s, n.f.Tensors[id]) || s == result && n.f.Tensors[id].At == s.At {
				continue
			}
			if !n.late || s == result || !n.apartInTime([]graph.NodeID{n.sums, n.products}[i], id) {
				return false
			}
		}
	}
	return true
}
