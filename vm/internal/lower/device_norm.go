package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// On a device, few kernels compute the gradient of a BatchNormalization, or of a
// LayerNormalization, at the step at which both of its sums are made, with the bits of the nodes.

// placedOnDevice is placed on a device. Sums are written to their own places: both at once, when
// both have one, if nobody has read the other by then; else each at its own step.
func (g *normGradient) placedOnDevice() *normGradient {
	for m := g.f.Graph.Tensors[g.scale].Maker; m >= 0 && g.f.Steps[m].Views(); m = g.f.Graph.Tensors[g.scale].Maker {
		g.scale = g.f.Graph.Nodes[m].Inputs[0] // a parameter, which its update reads later
	}
	measured, written := g.reads()
	if slices.ContainsFunc(slices.Concat(measured, written), g.swapped) {
		return nil
	}
	holds := func(list []graph.TensorID, step int) bool {
		return !slices.ContainsFunc(list, func(t graph.TensorID) bool { return g.made(t) >= step || !g.holds(t, step) })
	}
	ready := g.after(measured...)
	g.first = max(g.place[g.sums], g.place[g.products])
	if ready > g.first {
		return nil
	}
	for _, n := range []graph.NodeID{g.sums, g.products} {
		t := g.f.Graph.Nodes[n].Outputs[0]
		g.late = g.late || g.f.Graph.Tensors[t].Output || g.readBefore(t, g.first)
	}
	if g.late {
		if g.first = ready; g.first > min(g.place[g.sums], g.place[g.products]) {
			return nil
		}
	}
	if !holds(measured, g.first) {
		return nil
	}
	for g.second = g.first; g.second <= g.made(g.result); g.second++ {
		if g.nodes[g.order[g.second]] && holds(written, g.second) && g.free(g.result, g.second) && g.alone(g.result, g.second) && g.clear(g.sums) && g.clear(g.products) {
			return g
		}
	}
	return nil
}

// reads lists what the sums are computed from, and what the result is.
func (g *normGradient) reads() (sums, result []graph.TensorID) {
	switch {
	case g.inverse < 0:
		sums = []graph.TensorID{g.x, g.d, g.scale}
		return sums, sums
	case g.scaled < 0:
		return []graph.TensorID{g.x, g.d}, []graph.TensorID{g.x, g.d, g.scale, g.inverse}
	}
	return []graph.TensorID{g.x, g.d}, []graph.TensorID{g.x, g.scaled, g.inverse}
}

// clear reports whether the result does not lie on a sum of its gradient, or is written when
// the sum was written and read. Who reads the sum in another shape is not alone.
func (g *normGradient) clear(sum graph.NodeID) bool {
	t, written := g.f.Graph.Nodes[sum].Outputs[0], g.first
	if g.late {
		written = g.place[sum]
	}
	return !values.Overlap(g.f.Tensors[g.result], g.f.Tensors[t]) || written < g.second && g.last(t, true) < g.second
}

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

// joinNormGradient gives the work of a gradient's nodes to one or two of its steps, if their
// tensors lie apart.
func (l *lowering) joinNormGradient(n *normGradient) {
	g := l.s.GPU
	f := n.f
	x, d, scale, result := f.Tensors[n.x], f.Tensors[n.d], f.Tensors[n.scale], f.Tensors[n.result]
	sums, products := f.Steps[n.sums].Out[0], f.Steps[n.products].Out[0]
	k := gpu.NormGradient{
		X: &x.Tensor, D: &d.Tensor, Scale: &scale.Tensor, Out: &result.Tensor, Sums: &sums.Tensor, Products: &products.Tensor,
		Epsilon: n.kernel.Epsilon, Part: n.kernel.Part, Late: n.late,
	}
	whole, small := []*values.Tensor{x, d}, []*values.Tensor{scale}
	ids := []graph.TensorID{n.x, n.d, n.scaled} // of those in whole
	if n.inverse >= 0 {
		inverse := f.Tensors[n.inverse]
		k.Inverse, small = &inverse.Tensor, append(small, inverse)
	}
	if n.scaled >= 0 {
		scaled := f.Tensors[n.scaled]
		k.Scaled, whole, small = &scaled.Tensor, append(whole, scaled), small[1:]
	}
	for i, s := range []*values.Tensor{sums, products, result} {
		if i == 1 && !n.late && values.Overlap(s, sums) || slices.ContainsFunc(small, func(t *values.Tensor) bool { return values.Overlap(s, t) }) {
			return
		}
		for j, t := range whole {
			exact := s == result && t.At == s.At
			apart := n.late && s != result && n.apartInTime([]graph.NodeID{n.sums, n.products}[i], ids[j])
			if !exact && !apart && values.Overlap(s, t) {
				return
			}
		}
	}
	leader, writer := f.Steps[n.order[n.first]], f.Steps[n.order[n.second]]
	if n.late || n.inverse < 0 && leader != writer {
		bytes, err := k.TableBytes()
		if err == nil {
			k.Table, err = g.Table(bytes, n.first, max(n.second, n.place[n.sums], n.place[n.products]))
		}
		if err != nil {
			return // the nodes run one by one
		}
	}
	w := l.workspaceOf(leader.ID)
	runs, err := g.Kernels.PrepareNormGradient(&k, w.Space)
	if err != nil {
		return
	}
	g.Took(w, runs.Scratch)
	for id := range n.nodes {
		st := f.Steps[id]
		st.Kernel = kernel.Lookup(st.Node().Domain, st.Node().Op)
	}
	writer.takes(nil, n.steps(), nil, nil)
	made, stores := gradientRuns{measure: runs.Measure, write: runs.Write}, []*values.Tensor(nil)
	at := []*Step{leader, writer}
	if n.late {
		made.sums, made.products = runs.Sums, runs.Products
		at = append(at, f.Steps[n.sums], f.Steps[n.products])
	} else {
		stores = []*values.Tensor{sums, products}
		for _, id := range []graph.NodeID{n.sums, n.products} { // where they are is known now
			stores = append(stores, n.viewsBefore(f.Graph.Nodes[id].Outputs[0], n.first)...)
		}
	}
	for _, st := range at {
		st.Device = true
	}
	measured, written := n.reads()
	n.give(made, measured, written, stores)
}

// listed returns tensors of a frame.
func (f *Frame) listed(ids []graph.TensorID) (list []*values.Tensor) {
	for _, id := range ids {
		list = append(list, f.Tensors[id])
	}
	return list
}
