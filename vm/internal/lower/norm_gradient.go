package lower

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// The gradient of a BatchNormalization in training is some twenty nodes, of which ten pass
// over the whole image. One kernel computes them all, with the same bits. It computes the
// sums at the first step at which all that they read is there. It computes the gradient of
// the image then or later, as soon as its planned place belongs to the nodes that compute it
// in place. The sums that others read as well wait in a table for their own steps. What is in
// between is never written.

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
	f, order := l.f, l.order
	list := f.findNormGradients(order)
	if l.s.GPU != nil {
		for _, g := range list { // tables serve one after the other
			l.joinNormGradient(g)
		}
		return nil
	}
	channels := 0
	for _, g := range list {
		channels = max(channels, g.kernel.X.Shape[1])
	}
	type table struct {
		at   unsafe.Pointer
		ends int // the last step that reads it
	}
	var tables []table // as many as are in use at once
	for _, g := range list {
		i := slices.IndexFunc(tables, func(t table) bool { return t.ends < g.first })
		if i < 0 {
			at, err := f.Steps[order[g.first]].Table(int64(channels * kernel.NormGradientBytes))
			if err != nil {
				continue // the nodes run one by one, without a table
			}
			i = len(tables)
			tables = append(tables, table{at: at})
		}
		tables[i].ends, g.kernel.Table = g.end(), tables[i].at
		g.join()
	}
	return nil
}

// normGradientWay is the algorithm of the steps at which kernels of a gradient run.
const normGradientWay = "gradient of a normalization"

// normGradient is a chain that computes the gradient of a BatchNormalization.
type normGradient struct {
	*chain
	kernel         kernel.NormGradient
	x, d, mask     graph.TensorID // mask may be None
	scale          graph.TensorID
	sums, products graph.NodeID
	result         graph.TensorID
	first, second  int  // the steps at which the kernel measures, and writes the result
	late           bool // on a device: both sums are written at their own steps

	// Of a LayerNormalization: what the rows were multiplied by, and the gradient times the
	// scale, if other kernels compute that; else None.
	inverse, scaled graph.TensorID
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
	part, known := c.number(of["part"])
	epsilon, is := c.number(of["epsilon"])
	if !known || !is || !c.encloses(of["result"], of["sums"], of["products"]) {
		return nil
	}
	g := &normGradient{chain: c, x: of["x"], d: of["d"], scale: of["scale"], result: of["result"], mask: graph.None, inverse: graph.None, scaled: graph.None}
	g.sums, g.products = c.f.Graph.Tensors[of["sums"]].Maker, c.f.Graph.Tensors[of["products"]].Maker
	k := &g.kernel
	k.Epsilon, k.Part = epsilon, part
	if c.f.Site.GPU != nil {
		return g.placedOnDevice()
	}
	k.X, k.D, k.Scale, k.Out = &c.f.Tensors[g.x].Tensor, &c.f.Tensors[g.d].Tensor, &c.f.Tensors[g.scale].Tensor, &c.f.Tensors[g.result].Tensor
	return g.placed(g.scale)
}

// placed finds the steps at which the kernel runs; nil if there are none.
func (g *normGradient) placed(scale graph.TensorID) *normGradient {
	read := []graph.TensorID{g.x, g.d, scale}
	if slices.ContainsFunc(read, g.swapped) {
		return nil
	}
	if with := g.choose(); with != nil && !with.swapped(with.mask) {
		// All of it at one step, since the result takes the place of the masked gradient.
		if with.first = with.after(with.x, with.d, with.mask, scale); with.fits(with.first, with.x, with.d, with.mask, scale) && with.at(g.result) != with.at(g.x) {
			with.second = with.first
			return with
		}
	}
	if g.first = g.after(read...); !g.holds(scale, g.first) {
		return nil
	}
	for g.second = g.first; g.second <= g.made(g.result); g.second++ {
		if g.nodes[g.order[g.second]] && g.fits(g.second, g.x, g.d) {
			return g
		}
	}
	return nil
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

// fits reports whether the result can be written at a step, from tensors that must still be
// there, and no sum is wanted before it is known.
func (g *normGradient) fits(step int, read ...graph.TensorID) bool {
	held := !slices.ContainsFunc(read, func(t graph.TensorID) bool { return !g.holds(t, step) })
	return held && g.place[g.sums] >= g.first && g.place[g.products] >= g.first && g.free(g.result, step) && g.alone(g.result, step)
}

// choose returns the chain with the node that sets the gradient to 0 where an activation did
// not pass the image on; nil if there is none, or others read its result.
func (g *normGradient) choose() *normGradient {
	m := g.f.Graph.Tensors[g.d].Maker
	if m < 0 {
		return nil
	}
	n := g.f.Graph.Nodes[m]
	if n.Op != "Where" || n.Domain != "" || n.Semantics.Call != nil || !g.f.Steps[m].Exact() || !g.inner(g.d) {
		return nil
	}
	otherwise, ok := g.number(n.Inputs[2])
	mask, d := g.f.Tensors[n.Inputs[0]], g.f.Tensors[n.Inputs[1]]
	if !ok || mask.Type != graph.Bool || !slices.Equal(mask.Shape, g.kernel.D.Shape) || !slices.Equal(d.Shape, g.kernel.D.Shape) {
		return nil
	}
	with, c := *g, *g.chain
	with.chain, c.nodes = &c, maps.Clone(c.nodes)
	c.nodes[m] = true
	with.mask, with.d = n.Inputs[0], n.Inputs[1]
	with.kernel.Mask, with.kernel.D, with.kernel.Otherwise = &mask.Tensor, &d.Tensor, otherwise
	return &with
}

// end is the last step that needs the table.
func (g *normGradient) end() int {
	return max(g.place[g.sums], g.place[g.products], g.second)
}

// gradientRuns are the kernels of a gradient. On the CPU measure and write are one if they run at
// one step, and write is nil. sums and products put sums that wait in a table into their places; nil
// if measure has done that.
type gradientRuns struct {
	measure, write, sums, products kernel.Run
}

// join gives the kernel to the steps at which it runs.
func (g *normGradient) join() {
	k, leader, writer := &g.kernel, g.f.Steps[g.order[g.first]], g.f.Steps[g.order[g.second]]
	var runs gradientRuns
	if leader == writer {
		runs.measure = k.Whole(leader.Call())
	} else {
		runs.measure, runs.write = k.Measure(leader.Call()), k.Write(writer.Call())
	}
	runs.sums, runs.products = g.copies(g.sums, k.Sums()), g.copies(g.products, k.Products())
	measured, written := []graph.TensorID{g.x, g.d, g.scale}, []graph.TensorID{g.x, g.d}
	if g.mask >= 0 {
		measured = append(measured, g.mask)
	}
	leader.takes(nil, g.steps(), nil, nil)
	g.give(runs, measured, written, nil)
}

// copies returns a kernel that copies sums from the table to their place.
func (g *normGradient) copies(sums graph.NodeID, from []float32) kernel.Run {
	out := g.f.Steps[sums].Out[0]
	return func(*work.Pool) error {
		copy(unsafe.Slice((*float32)(out.At), len(from)), from)
		return nil
	}
}

// give gives kernels to the steps at which they run: they read and write tensors. stores are those
// that measure writes.
func (g *normGradient) give(runs gradientRuns, measured, written []graph.TensorID, stores []*values.Tensor) {
	leader, writer := g.f.Steps[g.order[g.first]], g.f.Steps[g.order[g.second]]
	leader.Way, writer.Way = normGradientWay, normGradientWay
	result := []*values.Tensor{g.f.Tensors[g.result]}
	if runs.write == nil {
		stores = append(stores, result...)
	}
	leader.takes(runs.measure, nil, g.f.listed(measured), stores)
	for _, sums := range []struct {
		at  graph.NodeID
		run kernel.Run
	}{{g.sums, runs.sums}, {g.products, runs.products}} {
		if st := g.f.Steps[sums.at]; sums.run != nil {
			st.takes(sums.run, nil, nil, st.Out)
		}
	}
	if runs.write != nil {
		writer.takes(runs.write, nil, g.f.listed(written), result)
	}
}
