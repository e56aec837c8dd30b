package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// NormGradient is the gradient of a BatchNormalization in training, which a step has as
// some twenty nodes, or, of a LayerNormalization, what eleven nodes make of its normalized
// rows, with the bits of the nodes. All tensors are of float32. Scale, Sums and Products have
// an element for each channel; of a LayerNormalization, for each element of a row.
type NormGradient struct {
	X, D, Scale *form.Tensor // the image or the normalized rows, the gradient of the result, the scale
	Out         *form.Tensor // the gradient of what was normalized, which may lie exactly on X or D
	// Inverse has the inverse of each row's standard deviation. It is nil for a
	// BatchNormalization. Scaled is the product of D and Scale, if that is there when Write
	// runs, which then reads it instead of them. It may lie under Out, too.
	Inverse, Scaled *form.Tensor
	// Sums are those of D, Products those of the products of D with the normalized image.
	// They lie on nothing else.
	Sums, Products *form.Tensor
	// Epsilon is that of a BatchNormalization. Part is the factor by which its nodes divide
	// the sums of squares, of D, and of products.
	Epsilon, Part float32
	// Table is device memory that keeps sums from the first launches to the last ones, if
	// other work may run between them; 0: they follow one another. That of a
	// LayerNormalization is for late sums alone: its Write reads none.
	Table driver.Ptr
	// Late says that the sums have their places only when NormGradientRuns.Sums and Products
	// run. It needs a table.
	Late bool
}

// NormGradientRuns put the launches of a gradient on the queue. Measure computes the sums,
// and writes them unless they are late; Sums and Products write one each, and are nil
// otherwise; Write writes the gradient of the image.
type NormGradientRuns struct {
	Measure, Sums, Products, Write form.Run
	Scratch                        int64 // bytes, as of PrepareIn
}

// gradientParam is Gradient of norm_gradient.cu.
type gradientParam struct {
	channels                                 channelParam
	terms                                    int32
	perVariance, perShift, perSlope, epsilon float32
}

// channels shares the image out. It fails with ErrUnsupported for one whose sums other
// kernels compute.
func (g *NormGradient) channels() (*channels, error) {
	shape := g.X.Shape
	c, ok := channelsOf(shape[0], shape[1], count(shape[2:]))
	if !ok {
		return nil, unsupportedf("the gradient of an image of shape %v", shape)
	}
	return c, nil
}

// TableBytes is the size of a table.
func (g *NormGradient) TableBytes() (int64, error) {
	if g.Inverse != nil {
		return g.layerTableBytes()
	}
	c, err := g.channels()
	if err != nil {
		return 0, err
	}
	const sums = 4
	return 4 * sums * int64(c.parts) * int64(c.param.count), nil
}

// PrepareNormGradient prepares the launches of a gradient, as PrepareIn does those of a node.
func (k *Kernels) PrepareNormGradient(g *NormGradient, w Workspace) (runs NormGradientRuns, err error) {
	if g.Inverse != nil {
		return k.prepareLayerGradient(g, w)
	}
	c, err := g.channels()
	if err != nil {
		return runs, err
	}
	bytes, err := g.TableBytes()
	if err != nil {
		return runs, err
	}
	first := &Node{k: k, space: w.aligned()}
	at, err := first.addresses(g.X, g.D, g.Scale, g.Out, g.Sums, g.Products)
	if err != nil {
		return runs, err
	}
	x, d, scale, out, sums, products := at[0], at[1], at[2], at[3], at[4], at[5]
	p := gradientParam{
		channels: c.at(x, d, out).param, terms: int32(c.all),
		perVariance: g.Part, perShift: g.Part, perSlope: g.Part, epsilon: g.Epsilon,
	}
	parts := any(g.Table)
	if g.Table == 0 {
		parts, runs.Scratch = first.scratch(bytes), bytes+scratchAlign-1
	}
	named := func(name string) cuda.Kernel { return first.kernel("norm_gradient.cu", name) }
	measure := func(name string, params ...any) {
		if err == nil {
			err = first.launch3(named(name), c.grid, c.block, 0, append(params, parts, p)...)
		}
	}
	totals := func(n *Node, sums, products driver.Ptr) form.Run {
		const threads = 64
		if err == nil {
			err = n.launch(named("totals"), cuts(int(p.channels.count), threads), threads, sums, products, parts, int32(c.parts), p)
		}
		return n.run
	}
	measure("mean", x)
	measure("squares", x)
	measure("products", x, d)
	switch {
	case g.Late:
		runs.Sums, runs.Products = totals(&Node{k: k}, sums, 0), totals(&Node{k: k}, 0, products)
	case g.Table != 0:
		totals(first, sums, products)
	}
	if g.Table != 0 {
		sums, products = 0, 0
	}
	last := &Node{k: k}
	if err == nil {
		err = last.launch3(named("apply"), c.grid, c.block, 0, out, sums, products, x, d, scale, parts, p)
	}
	runs.Measure, runs.Write = first.run, last.run
	return runs, err
}
