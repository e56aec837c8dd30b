package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// In a step of 16 bits, the gradient of a BatchNormalization is computed in float32 between Casts
// of the image, of the gradient of its result, and of the gradient of the image. The kernel takes
// these in: it widens planes as it reads them, and rounds those that it writes.

// casted lists the chain with as many of these Casts as it can have, and with fewer: where the
// plan leaves an image of 16 bits no longer than its Cast needs it, the Cast runs by itself.
func (g *normGradient) casted() (list []*normGradient) {
	if g.f.Site.GPU != nil {
		return []*normGradient{g}
	}
	for _, with := range []struct{ x, d, result bool }{
		{true, true, true},
		{false, true, true},
		{true, false, true},
		{false, false, true},
		{true, true, false},
		{false, true, false},
		{true, false, false},
		{},
	} {
		c := *g.chain
		c.nodes = make(map[graph.NodeID]bool, len(g.nodes)+3)
		for id := range g.nodes {
			c.nodes[id] = true
		}
		v := *g
		v.chain = &c
		ok := (!with.x || v.widens(&v.x)) && (!with.d || v.widens(&v.d)) && (!with.result || v.narrows())
		if ok {
			list = append(list, &v)
		}
	}
	return list
}

// widens takes in the Cast that makes a tensor of 16 bits, which only the chain reads. It reports
// false if there is none.
func (g *normGradient) widens(t *graph.TensorID) bool {
	m := g.f.Graph.Tensors[*t].Maker
	if m < 0 || !g.inner(*t) || !g.f.casts(m) {
		return false
	}
	from := g.f.Graph.Nodes[m].Inputs[0]
	if !form.IsHalf(&g.f.Tensors[from].Tensor) {
		return false
	}
	g.nodes[m], *t = true, from
	return true
}

// narrows takes in the Cast of the result to 16 bits, if nobody else reads the result.
func (g *normGradient) narrows() bool {
	made := g.f.Graph.Tensors[g.result]
	if made.Output || len(made.Readers) != 1 || !g.f.casts(made.Readers[0]) {
		return false
	}
	to := g.f.Graph.Nodes[made.Readers[0]].Outputs[0]
	if !form.IsHalf(&g.f.Tensors[to].Tensor) || g.f.Tensors[to].Room == 0 {
		return false
	}
	g.nodes[made.Readers[0]], g.result = true, to
	return true
}

// casts reports whether a node is a Cast between tensors whose shapes are known.
func (f *Frame) casts(id graph.NodeID) bool {
	n, st := f.Graph.Nodes[id], f.Steps[id]
	return ops.Casts(n) && n.Semantics.Call == nil && st.Exact() && f.untaken(id) != nil && st.In[0] != nil && st.Out[0] != nil
}

// vacant reports whether a kernel may write a result of the chain at a step before that of its
// node: until then no other node has its place, nor a body its workspace there, and it lies apart
// from what the kernel reads, or exactly on it.
func (g *normGradient) vacant(step int) bool {
	if !g.alone(g.result, step) {
		return false
	}
	out := g.f.Tensors[g.result]
	for _, t := range []graph.TensorID{g.x, g.d, g.mask} {
		if t < 0 {
			continue
		}
		on := g.f.Tensors[t]
		exact := on.At == out.At && on.Bytes() == out.Bytes() && t != g.mask
		if !exact && values.Overlap(on, out) {
			return false
		}
	}
	return !slices.ContainsFunc(g.order[step:g.made(g.result)], func(id graph.NodeID) bool {
		n := g.f.Graph.Nodes[id]
		return n.Semantics.Call != nil || len(n.Bodies()) > 0
	})
}
