package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// normRules cover operators that shift and scale by statistics of their input.
var normRules = []Rule{
	{Op: "BatchNormalization", Inputs: []int{0, 1, 2}, Fused: true, Grad: batchNormGrad},
	{Op: "LayerNormalization", Suffixes: []string{1: ".mean", 2: ".inv_std"}, Fused: true, Grad: layerNormGrad},
	{Op: "SimplifiedLayerNormalization", Fused: true, Grad: rmsNormGrad},
	{Op: "RMSNormalization", Fused: true, Grad: rmsNormGrad},
	{Op: "GroupNormalization", Fused: true, Grad: groupNormGrad},
	{Op: "InstanceNormalization", Fused: true, Grad: groupNormGrad},
	{Op: "LRN", Fused: true, Grad: lrnGrad},
	{Op: "LpNormalization", Fused: true, Grad: lpNormGrad},
	{Op: "MeanVarianceNormalization", Fused: true, Grad: meanVarianceGrad},
}

// normalised is inv·(d - mean(d) - xh·mean(d·xh)), the gradient of the input of a
// normalisation whose result is xh. Means are taken over the axes in over.
func (c *Backward) normalised(d, xh, inv ID, over []int64) ID {
	mean := func(t ID) ID { return c.reduce("ReduceMean", t, over, true) }
	return c.mul(inv, c.sub(c.sub(d, mean(d)), c.mul(xh, mean(c.mul(d, xh)))))
}

// inverseDeviation is 1/sqrt(variance + epsilon).
func (c *Backward) inverseDeviation(variance ID, otherwise float64) ID {
	return c.op("Reciprocal", c.op("Sqrt", c.plus(variance, c.Float("epsilon", otherwise))))
}

// batchNormGrad has one form for training, and one for statistics that are given.
func batchNormGrad(c *Backward) {
	x := c.X(0)
	shape := c.shape(x)
	if c.err != nil {
		return
	}
	over := concat([]int64{0}, axes(2, len(shape)-2))
	channel := concat([]int64{1, shape[1]}, filled(1, len(shape)-2))
	scale := c.reshape(c.X(1), channel)
	if c.Int("training_mode", 0) == 1 {
		c.batchNormTraining(scale, over)
		return
	}
	inv := c.castLike(c.inverseDeviation(c.reshape(c.X(4), channel), 1e-5), x)
	factor := c.mul(c.castLike(scale, x), inv)
	if c.Needs(1) {
		xh := c.mul(c.sub(x, c.castLike(c.reshape(c.X(3), channel), x)), inv)
		dBias := c.sum(c.D(0), over, true)
		dScale := c.sum(c.mul(c.D(0), xh), over, true)
		if c.Needs(0) {
			c.Set(0, c.mul(c.D(0), factor))
		}
		c.setChannels(1, dScale)
		c.setChannels(2, dBias)
		return
	}
	c.Set(0, c.mul(c.D(0), factor))
	if c.Needs(2) {
		c.setChannels(2, c.sum(c.D(0), over, true))
	}
}

// setChannels sets the gradient of input i, which has one element for each channel.
func (c *Backward) setChannels(i int, d ID) {
	if c.Needs(i) {
		c.Set(i, c.castLike(c.reshape(d, c.shape(c.X(i))), c.X(i)))
	}
}

// batchNormTraining recomputes the statistics of the batch, since the operator does not return
// them. Those of an image of 16 bits are of float32, as is what lies between the image and its
// gradient: a float16 holds no sum of the squares of a large plane.
func (c *Backward) batchNormTraining(scale ID, over []int64) {
	x, shape := c.X(0), c.shape(c.X(0))
	m := float64(elements(shape) / shape[1])
	g := c.marked(marks.BatchNormGradient, operands{"x": c.widened(x), "d": c.widened(c.D(0)), "scale": c.widened(scale), "axes": over, "part": 1 / m, "epsilon": c.Float("epsilon", 1e-5)})
	if c.Needs(0) {
		c.Set(0, c.castLike(g.make("result"), x))
	}
	c.setChannels(1, g.make("products"))
	c.setChannels(2, g.make("sums"))
}

// layerNormGrad reads the mean and the inverse deviation, which are small.
func layerNormGrad(c *Backward) {
	x := c.X(0)
	axis := c.Axis("axis", -1, 0)
	over := axes(axis, c.rank(x)-axis)
	mean, inv := c.castLike(c.Y(1), x), c.castLike(c.Y(2), x)
	if !c.Needs(0) && !c.Needs(1) {
		c.setUnbroadcast(2, c.D(0))
		return
	}
	rows := c.repeated(x, c.X(1))
	xh := c.mul(c.sub(x, mean), inv)
	g := c.marked(marks.LayerNormGradient, operands{"normal": xh, "d": c.D(0), "scale": c.X(1), "inverse": inv, "axes": over, "rows": rows})
	if c.Needs(0) {
		c.Set(0, g.make("result"))
	}
	switch {
	case !c.Needs(1):
	case len(rows) == 0: // a single row
		c.Set(1, g.make("product"))
	default:
		c.Set(1, c.reshape(g.make("products"), c.shape(c.X(1))))
	}
	switch {
	case !c.Needs(2):
	case len(rows) == 0 || !slices.Equal(rows, c.repeated(x, c.X(2))):
		c.setUnbroadcast(2, c.D(0))
	default:
		c.Set(2, c.reshape(g.make("sums"), c.shape(c.X(2))))
	}
}

// rmsNormGrad is inv·(d·s - xh·mean(d·s·xh)).
func rmsNormGrad(c *Backward) {
	x := c.X(0)
	axis := c.Axis("axis", -1, 0)
	over := axes(axis, c.rank(x)-axis)
	square := c.reduce("ReduceMean", c.mul(x, x), over, true)
	inv := c.inverseDeviation(square, 1e-5)
	xh := c.mul(x, inv)
	if c.Needs(0) {
		ds := c.mul(c.D(0), c.X(1))
		mean := c.reduce("ReduceMean", c.mul(ds, xh), over, true)
		c.Set(0, c.mul(inv, c.sub(ds, c.mul(xh, mean))))
	}
	if c.Needs(1) {
		c.setUnbroadcast(1, c.mul(c.D(0), xh))
	}
}

// groupNormGrad works on [batch, groups, rest]; InstanceNormalization has one
// group per channel. Up to opset 20 there is one scale and bias per group,
// afterwards one per channel.
func groupNormGrad(c *Backward) {
	x := c.X(0)
	shape := c.shape(x)
	if c.err != nil {
		return
	}
	groups := c.Int("num_groups", shape[1])
	flat := []int64{shape[0], groups, elements(shape) / (shape[0] * groups)}
	perChannel := c.shape(c.X(1))[0] == shape[1]
	scaleShape := []int64{1, groups, 1}
	if perChannel {
		scaleShape = concat([]int64{1, shape[1]}, filled(1, len(shape)-2))
	}
	t := c.reshape(x, flat)
	over := []int64{2}
	centred := c.sub(t, c.reduce("ReduceMean", t, over, true))
	inv := c.inverseDeviation(c.reduce("ReduceMean", c.mul(centred, centred), over, true), 1e-5)
	xh := c.mul(centred, inv)
	wide := func(t ID) ID { // in the shape to which scale and bias broadcast
		if perChannel {
			return c.reshape(t, shape)
		}
		return t
	}
	d := c.D(0)
	if !perChannel {
		d = c.reshape(d, flat)
	}
	scale := c.reshape(c.X(1), scaleShape)
	if c.Needs(0) {
		ds := c.reshape(c.mul(d, scale), flat)
		c.Set(0, c.reshape(c.normalised(ds, xh, inv, over), shape))
	}
	if c.Needs(1) {
		c.Set(1, c.reshape(c.unbroadcast(c.mul(d, wide(xh)), scale), c.shape(c.X(1))))
	}
	if c.Needs(2) {
		c.Set(2, c.reshape(c.unbroadcast(d, scale), c.shape(c.X(2))))
	}
}

// lrnGrad: with s = bias + alpha/n·window(x²), it is d·s^-beta -
// 2·alpha·beta/n·x·window'(d·y/s). The window over channels is an AveragePool;
// window' is its mirror image, which differs for even n.
func lrnGrad(c *Backward) {
	x, y := c.X(0), c.Y(0)
	shape := c.shape(x)
	if c.err != nil {
		return
	}
	n := c.Int("size", 1)
	alpha, beta, bias := c.Float("alpha", 1e-4), c.Float("beta", 0.75), c.Float("bias", 1)
	flat := []int64{shape[0], 1, shape[1], elements(shape[2:])}
	window := func(t ID, before, after int64) ID {
		a := attrs{"kernel_shape": []int64{n, 1}, "pads": []int64{before, 0, after, 0}, "count_include_pad": 1}
		return c.times(c.reshape(c.with("AveragePool", a, c.reshape(t, flat)), shape), float64(n))
	}
	before, after := (n-1)/2, n/2
	s := c.plus(c.times(window(c.mul(x, x), before, after), alpha/float64(n)), bias)
	first := c.mul(c.D(0), c.op("Pow", s, c.scalar(s, -beta)))
	rest := window(c.div(c.mul(c.D(0), y), s), after, before)
	c.Set(0, c.sub(first, c.mul(c.times(x, 2*alpha*beta/float64(n)), rest)))
}

// lpNormGrad: y = x/n, where n is the norm along an axis: (d - s·sum(d·y))/n,
// where s, the slope of the norm, is sign(x) for p = 1 and y for p = 2. It is 0
// where n is 0.
func lpNormGrad(c *Backward) {
	over := []int64{int64(c.Axis("axis", -1, 0))}
	op, slope := "ReduceL2", c.Y(0)
	if c.Int("p", 2) == 1 {
		op, slope = "ReduceL1", c.op("Sign", c.X(0))
	}
	n := c.reduce(op, c.X(0), over, true)
	zero := c.scalar(n, 0)
	inv := c.where(c.op("Equal", n, zero), zero, c.op("Reciprocal", n))
	t := c.sum(c.mul(c.D(0), c.Y(0)), over, true)
	c.Set(0, c.mul(c.sub(c.D(0), c.mul(slope, t)), inv))
}

// meanVarianceGrad ignores the 1e-9 that the operator adds to the deviation: its
// effect on the slope is negligible.
func meanVarianceGrad(c *Backward) {
	x := c.X(0)
	list, err := attr.AxesOr(c.Node, "axes", c.rank(x), 0, 2, 3)
	if err != nil {
		c.Failf("%w", err)
		return
	}
	over := toInt64s(list)
	centred := c.sub(x, c.reduce("ReduceMean", x, over, true))
	deviation := c.op("Sqrt", c.reduce("ReduceMean", c.mul(centred, centred), over, true))
	inv := c.op("Reciprocal", c.plus(deviation, 1e-9))
	c.Set(0, c.normalised(c.D(0), c.Y(0), inv, over))
}
