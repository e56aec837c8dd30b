package lower

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// The gradient of a BatchNormalization in training is some twenty nodes, of which ten pass
// over the whole image. One kernel computes them all, on a device few, with the same bits. The
// sums are computed at a step at which all that they read is there. The gradient of the image
// is written then or later, as soon as its planned place belongs to the nodes that compute it
// in place. Sums that others read as well may wait in a table for their own steps. What is in
// between is never written. Where that is does not depend on where a session runs
// ([normGradient.placed]); the kernels do (onCPU, onDevice).

// findNormGradients lists the gradients of BatchNormalization that the marks of the file name,
// and on a device those of LayerNormalization, those first whose kernels run first. A mark names
// nodes, and says nothing of their shapes, or of what their plan leaves them.
func (f *Frame) findNormGradients(order []graph.NodeID) (list []*normGradient) {
	place := placesOf(order)
	for _, m := range f.Site.Program.Groups {
		c := f.chainOf(m.Nodes, order, place)
		if c == nil {
			continue
		}
		var g *normGradient
		switch {
		case m.Group == marks.BatchNormGradient:
			g = c.batchNormGradient(m.Of)
		case m.Group == marks.LayerNormGradient && f.Site.GPU != nil:
			g = c.layerNormGradient(m.Of)
		}
		if g != nil {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *normGradient) int { return a.first - b.first })
	return list
}

// chainOf returns a chain of nodes; nil if the shapes of some are not known, or functions stand
// for them.
func (f *Frame) chainOf(nodes, order []graph.NodeID, place []int) *chain {
	c := &chain{f: f, order: order, place: place, nodes: map[graph.NodeID]bool{}}
	for _, id := range nodes {
		if st := f.Steps[id]; !st.Exact() || st.Node().Semantics.Call != nil {
			return nil
		}
		c.nodes[id] = true
	}
	return c
}

// are reports whether some tensors of a group are of float32 and have a shape. Axes of length 1
// in front may be missing.
func (c *chain) are(of map[string]graph.TensorID, shape []int, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		t := c.f.Tensors[of[name]]
		return t == nil || t.Type != graph.Float32 || !t.Exact || len(t.Shape) > len(shape) || !slices.Equal(padded(t.Shape, len(shape)), shape)
	})
}

// padded is a shape with axes of length 1 in front, up to a rank.
func padded(shape []int, rank int) []int {
	return append(slices.Repeat([]int{1}, rank-len(shape)), shape...)
}

// joinNormGradients gives each gradient of a BatchNormalization to one kernel, and on a device
// that of a LayerNormalization to few.
func (l *lowering) joinNormGradients() error {
	list := l.f.findNormGradients(l.order)
	kernels := l.onDevice
	if l.s.GPU == nil {
		kernels = newGradientTables(l.f, list).onCPU
	}
	for _, g := range list { // tables serve one after the other
		if runs, ok := kernels(g); ok {
			g.give(runs)
		}
	}
	return nil
}

// normGradientWay is the algorithm of the steps at which kernels of a gradient run.
const normGradientWay = "gradient of a normalization"

// normGradient is a chain that computes the gradient of a normalization.
type normGradient struct {
	*chain
	x, d, scale, result graph.TensorID
	epsilon, part       float32
	sums, products      graph.NodeID

	// On the CPU: where the gradient of the result counts, which else is otherwise; or None.
	mask      graph.TensorID
	otherwise float32

	// Of a LayerNormalization: what the rows were multiplied by, and the gradient times the
	// scale, if other kernels compute that; else None.
	inverse, scaled graph.TensorID

	first, second int  // the steps at which the kernels measure, and write the result
	late          bool // both sums are written at their own steps
}

// newNormGradient returns the chain of a gradient, with the tensors that all have.
func (c *chain) newNormGradient(of map[string]graph.TensorID, x string) *normGradient {
	maker := func(name string) graph.NodeID { return c.f.Graph.Tensors[of[name]].Maker }
	return &normGradient{
		chain: c, x: of[x], d: of["d"], scale: of["scale"], result: of["result"], sums: maker("sums"), products: maker("products"),
		mask: graph.None, inverse: graph.None, scaled: graph.None,
	}
}

// batchNormGradient returns the gradient of a BatchNormalization, by the names of its table, if
// the kernel takes it: its shapes say that the reductions leave the channels alone, and add up
// planes of several elements.
func (c *chain) batchNormGradient(of map[string]graph.TensorID) *normGradient {
	image := c.f.Tensors[of["x"]].Shape
	if len(image) < 3 || image[0] == 0 || image[1] < 2 {
		return nil
	}
	channels := slices.Repeat([]int{1}, len(image))
	channels[1] = image[1]
	if plane := image[2:]; slices.Equal(plane, channels[2:]) || slices.Contains(plane, 0) ||
		!c.are(of, image, "x", "d", "result") || !c.are(of, channels, "scale", "mean", "squares", "sums", "products") {
		return nil
	}
	g, known, is := c.newNormGradient(of, "x"), false, false
	if g.part, known = c.number(of["part"]); !known {
		return nil
	}
	if g.epsilon, is = c.number(of["epsilon"]); !is || !c.encloses(of["result"], of["sums"], of["products"]) {
		return nil
	}
	for _, v := range g.casted() {
		if with := v.choose(); with != nil && with.placed() {
			return with
		}
		if v.placed() {
			return v
		}
	}
	return nil
}

// placed finds the steps at which the kernels run. It reports false if there are none. On the CPU
// the sums always wait in a table for their own steps. On a device they are written to their
// places, both at once, when both have one, if nobody has read the other by then.
func (g *normGradient) placed() bool {
	for m := g.f.Graph.Tensors[g.scale].Maker; m >= 0 && g.f.Steps[m].Views(); m = g.f.Graph.Tensors[g.scale].Maker {
		g.scale = g.f.Graph.Nodes[m].Inputs[0] // a parameter, which its update reads later
	}
	measured, written := g.reads()
	if slices.ContainsFunc(slices.Concat(measured, written), g.swapped) {
		return false
	}
	held := func(list []graph.TensorID, step int) bool {
		return !slices.ContainsFunc(list, func(t graph.TensorID) bool { return g.made(t) >= step || !g.holds(t, step) })
	}
	ready := g.after(measured...)
	g.first, g.late = max(g.place[g.sums], g.place[g.products]), g.f.Site.GPU == nil
	if ready > g.first {
		return false
	}
	for _, n := range []graph.NodeID{g.sums, g.products} {
		t := g.f.Graph.Nodes[n].Outputs[0]
		g.late = g.late || g.f.Graph.Tensors[t].Output || g.readBefore(t, g.first)
	}
	if g.late {
		if g.first = ready; g.first > min(g.place[g.sums], g.place[g.products]) {
			return false
		}
	}
	if !held(measured, g.first) {
		return false
	}
	last := g.made(g.result)
	if g.mask != graph.None { // the result takes the place of the masked gradient
		last = g.first
	}
	for g.second = g.first; g.second <= last; g.second++ {
		if g.nodes[g.order[g.second]] && held(written, g.second) && g.own(g.second) && g.clear(g.sums) && g.clear(g.products) {
			return true
		}
	}
	return false
}

// own reports whether the kernel may write the result at a step.
func (g *normGradient) own(step int) bool {
	if form.IsHalf(&g.f.Tensors[g.result].Tensor) {
		return g.vacant(step)
	}
	return g.free(g.result, step) && g.alone(g.result, step)
}

// reads lists what the sums are computed from, and what the result is.
func (g *normGradient) reads() (sums, result []graph.TensorID) {
	switch {
	case g.inverse >= 0 && g.scaled >= 0:
		return []graph.TensorID{g.x, g.d}, []graph.TensorID{g.x, g.scaled, g.inverse}
	case g.inverse >= 0:
		return []graph.TensorID{g.x, g.d}, []graph.TensorID{g.x, g.d, g.scale, g.inverse}
	}
	sums = []graph.TensorID{g.x, g.d, g.scale}
	switch {
	case g.f.Site.GPU != nil:
		return sums, sums
	case g.mask >= 0:
		return append(sums, g.mask), sums[:2]
	}
	return sums, sums[:2] // the table has the rest
}

// swapped reports whether a tensor is copied in the background.
func (c *chain) swapped(t graph.TensorID) bool {
	m := c.f.Graph.Tensors[t].Maker
	return m >= 0 && c.f.Graph.Nodes[m].IsSwap() || slices.ContainsFunc(c.f.Graph.Tensors[t].Readers, func(r graph.NodeID) bool { return c.f.Graph.Nodes[r].IsSwap() })
}

// after is the first step of the chain at which all of some tensors are there.
func (c *chain) after(list ...graph.TensorID) int {
	ready := -1
	for _, t := range list {
		ready = max(ready, c.made(t))
	}
	first := len(c.order)
	for id := range c.nodes {
		if p := c.place[id]; p > ready {
			first = min(first, p)
		}
	}
	return first
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

// choose returns the chain with the node that sets the gradient to 0 where an activation did
// not pass the image on; nil if there is none, others read its result, or no kernel takes it:
// that of the CPU does, unless the masked gradient has no place but that of the image.
func (g *normGradient) choose() *normGradient {
	m := g.f.Graph.Tensors[g.d].Maker
	if m < 0 || g.f.Site.GPU != nil {
		return nil
	}
	n := g.f.Graph.Nodes[m]
	if n.Op != "Where" || n.Domain != "" || n.Semantics.Call != nil || !g.f.Steps[m].Exact() || !g.inner(g.d) {
		return nil
	}
	otherwise, ok := g.number(n.Inputs[2])
	mask, d, whole := g.f.Tensors[n.Inputs[0]], g.f.Tensors[n.Inputs[1]], g.f.Tensors[g.d].Shape
	switch half := form.IsHalf(&g.f.Tensors[g.result].Tensor); {
	case half && d.Type == graph.Float32: // the result has no room for it
		return nil
	case !form.IsHalf(&d.Tensor) && g.at(g.result) == g.at(g.x):
		return nil
	}
	if !ok || mask.Type != graph.Bool || !slices.Equal(mask.Shape, whole) || !slices.Equal(d.Shape, whole) {
		return nil
	}
	with, c := *g, *g.chain
	with.chain, c.nodes = &c, maps.Clone(c.nodes)
	c.nodes[m] = true
	with.mask, with.d, with.otherwise = n.Inputs[0], n.Inputs[1], otherwise
	return &with
}

// end is the last step that needs a table.
func (g *normGradient) end() int {
	return max(g.place[g.sums], g.place[g.products], g.second)
}

// gradientRuns are the kernels of a gradient. measure and write may be one, if they run at one
// step: write is nil then. sums and products put sums that wait in a table into their places; nil
// if measure has done that.
type gradientRuns struct {
	measure, write, sums, products kernel.Run
}

// give gives kernels to the steps at which they run.
func (g *normGradient) give(runs gradientRuns) {
	f := g.f
	leader, writer := f.Steps[g.order[g.first]], f.Steps[g.order[g.second]]
	measured, written := g.reads()
	result, stores := []*values.Tensor{f.Tensors[g.result]}, []*values.Tensor(nil)
	leader.Way, writer.Way = normGradientWay, normGradientWay
	for _, id := range []graph.NodeID{g.sums, g.products} {
		if st := f.Steps[id]; !g.late { // where its views are is known now
			stores = append(append(stores, st.Out[0]), g.viewsBefore(st.Node().Outputs[0], g.first)...)
		}
	}
	if runs.write == nil {
		stores = append(stores, result...)
	}
	writer.takes(nil, g.steps(), nil, nil)
	leader.takes(runs.measure, nil, f.listed(measured), stores)
	if runs.sums != nil {
		for _, late := range []struct {
			at  graph.NodeID
			run kernel.Run
		}{{g.sums, runs.sums}, {g.products, runs.products}} {
			st := f.Steps[late.at]
			st.takes(late.run, nil, nil, st.Out)
		}
	}
	if runs.write != nil {
		writer.takes(runs.write, nil, f.listed(written), result)
	}
}

// listed returns tensors of a frame.
func (f *Frame) listed(ids []graph.TensorID) (list []*values.Tensor) {
	for _, id := range ids {
		list = append(list, f.Tensors[id])
	}
	return list
}
