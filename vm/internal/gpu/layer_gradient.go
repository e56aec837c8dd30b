package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// layerRows shares the rows of a LayerNormalization out, and its columns. It fails with
// ErrUnsupported where the nodes' sums are those of other kernels than the ones that
// kernels/layer_gradient.cu follows.
func (g *NormGradient) layerRows() (*channels, *columns, error) {
	rows := g.Inverse.Len()
	size := g.X.Len() / max(rows, 1)
	c, ok := channelsOf(1, rows, size)
	if !ok || rows == 0 {
		return nil, nil, unsupportedf("the gradient of %d rows of %d elements", rows, size)
	}
	s, ok := columnsOf(rows, size)
	if !ok {
		return nil, nil, unsupportedf("the gradient of %d rows of %d elements", rows, size)
	}
	return c, s, nil
}

// layerTableBytes is the size of the parts of both sums.
func (g *NormGradient) layerTableBytes() (int64, error) {
	_, s, err := g.layerRows()
	if err != nil {
		return 0, err
	}
	const sums = 2
	return 4 * sums * int64(s.parts) * int64(s.count), nil
}

// prepareLayerGradient is PrepareNormGradient of a LayerNormalization.
func (k *Kernels) prepareLayerGradient(g *NormGradient, w Workspace) (runs NormGradientRuns, err error) {
	c, s, err := g.layerRows()
	if err != nil {
		return runs, err
	}
	bytes, err := g.layerTableBytes()
	if err != nil {
		return runs, err
	}
	first, last := &Node{k: k, space: w.aligned()}, &Node{k: k}
	at, err := first.addresses(g.X, g.D, g.Scale, g.Out, g.Sums, g.Products, g.Inverse, g.Scaled)
	if err != nil {
		return runs, err
	}
	x, d, scale, out, sums, products, inverse, scaled := at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]
	parts := any(g.Table)
	if !g.Late {
		parts, runs.Scratch = first.scratch(bytes), bytes+scratchAlign-1
	}
	named := func(name string) cuda.Kernel { return first.kernel("layer_gradient.cu", name) }
	totals := func(n *Node, sums, products driver.Ptr) form.Run {
		grid, block := finishOf(s.count)
		grid.Y = 2
		if err == nil {
			err = n.launch3(named("totals"), grid, block, 0, sums, products, parts, int32(s.parts), int32(s.count))
		}
		return n.run
	}
	packed := int32(1)
	if x%16 != 0 || d%16 != 0 {
		packed = 0
	}
	err = first.launch3(named("columns"), s.grid, s.block, 0, parts, x, d, int32(s.rows), int32(s.count), int32(s.part), packed)
	if g.Late {
		runs.Sums, runs.Products = totals(&Node{k: k}, sums, 0), totals(&Node{k: k}, 0, products)
	} else {
		totals(first, sums, products)
	}
	if scaled != 0 {
		d, scale = scaled, 0
	}
	if err == nil {
		whole := c.grid
		whole.Y = 1 // a team has all parts of its row
		err = last.launch3(named("rows"), whole, c.block, 0, out, x, d, scale, inverse, int32(c.parts), c.at(x, d, scale, out).param)
	}
	runs.Measure, runs.Write = first.run, last.run
	return runs, err
}
