package models

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// conv holds the parameters of a convolution, and window those of a pooling. A
// list of one number applies to all axes; an empty list means strides of 1 and
// padding of 0.
type conv struct {
	out                 int64
	kernel, stride, pad []int64
	same                bool        // in place of pad: as many outputs as strides, see samePads
	groups              int64       // 0: one
	weights             initializer // nil: kaimingNormal
	bias                initializer // nil: no bias
}

type window struct {
	kernel, stride, pad []int64
	ceil                bool // a window that extends beyond the end counts
}

// all returns a list of one number, which applies to all axes.
func all(n int64) []int64 { return []int64{n} }

// conv adds a convolution over channels and the axes after them.
func (b *builder) conv(x value, name string, c conv) value {
	axes := len(x.shape) - 2
	groups := max(c.groups, 1)
	kernel, stride, pads := spread(c.kernel, axes, 1), spread(c.stride, axes, 1), bothSides(spread(c.pad, axes, 0))
	if c.same {
		pads = samePads(x.shape[2:], kernel, stride)
	}
	attrs := list(
		attrInt("group", groups),
		attrInts("kernel_shape", kernel),
		attrInts("pads", pads),
		attrInts("strides", stride),
	)
	if c.weights == nil {
		c.weights = kaimingNormal
	}
	per := x.shape[1] / groups
	f := fan{per * elements(kernel), c.out / groups * elements(kernel)}
	inputs := []value{x, b.weight(name+".weight", c.weights, f, append([]int64{c.out, per}, kernel...)...)}
	if c.bias != nil {
		inputs = append(inputs, b.weight(name+".bias", c.bias, f, c.out))
	}
	shape := b.slide(x, name, c.out, kernel, stride, pads, false)
	return b.node("Conv", name, shape, attrs, inputs...)
}

// batchNorm adds a BatchNormalization in inference form. Its running statistics have
// their values before training, 0 and 1.
func (b *builder) batchNorm(x value, name string, epsilon float32) value {
	c := x.shape[1]
	return b.node("BatchNormalization", name, x.shape, list(attrFloat("epsilon", epsilon)), x,
		b.weight(name+".weight", ones, fan{}, c),
		b.weight(name+".bias", zeros, fan{}, c),
		b.untrained(name+".running_mean", zeros, fan{}, c),
		b.untrained(name+".running_var", ones, fan{}, c))
}

// linear adds a fully connected layer on [rows, columns].
func (b *builder) linear(x value, name string, out int64, weights, bias initializer) value {
	in := x.shape[1]
	f := fan{in, out}
	return b.node("Gemm", name, []int64{x.shape[0], out}, list(attrInt("transB", 1)), x,
		b.weight(name+".weight", weights, f, out, in),
		b.weight(name+".bias", bias, f, out))
}

func (b *builder) maxPool(x value, name string, w window) value { return b.pool("MaxPool", x, name, w) }

// pool adds a pooling.
func (b *builder) pool(op string, x value, name string, w window) value {
	axes := len(x.shape) - 2
	kernel, stride, pads := spread(w.kernel, axes, 1), spread(w.stride, axes, 1), bothSides(spread(w.pad, axes, 0))
	attrs := list(
		attrInts("kernel_shape", kernel),
		attrInts("pads", pads),
		attrInts("strides", stride),
	)
	if w.ceil {
		attrs = append(attrs, attrInt("ceil_mode", 1))
	}
	return b.node(op, name, b.slide(x, name, x.shape[1], kernel, stride, pads, w.ceil), attrs, x)
}

// globalAveragePool averages each channel; the spatial axes keep length 1.
func (b *builder) globalAveragePool(x value, name string) value {
	shape := slices.Clone(x.shape)
	for i := range shape[2:] {
		shape[2+i] = 1
	}
	return b.node("GlobalAveragePool", name, shape, nil, x)
}

func (b *builder) relu(x value) value    { return b.node("Relu", "relu", x.shape, nil, x) }
func (b *builder) sigmoid(x value) value { return b.node("Sigmoid", "sigmoid", x.shape, nil, x) }

// relu6 clips x to [0, 6].
func (b *builder) relu6(x value) value {
	return b.node("Clip", "relu6", x.shape, nil, x, b.scalar(0), b.scalar(6))
}

// silu is x·sigmoid(x), also known as Swish.
func (b *builder) silu(x value) value { return b.binary("Mul", "silu", x, b.sigmoid(x)) }

func (b *builder) add(name string, x, y value) value { return b.binary("Add", name, x, y) }

// binary adds an operator that works element by element.
func (b *builder) binary(op, name string, x, y value) value {
	return b.node(op, name, b.broadcast(x.shape, y.shape), nil, x, y)
}

// slide returns the shape of the result when a window slides over x. The pads are
// those of ONNX: in front on each axis, then behind.
func (b *builder) slide(x value, name string, channels int64, kernel, stride, pads []int64, ceil bool) []int64 {
	shape := []int64{x.shape[0], channels}
	for i, n := range x.shape[2:] {
		front, behind := pads[i], pads[len(kernel)+i]
		room := n + front + behind - kernel[i]
		if room < 0 {
			b.fail("the input is too small: %q needs %d elements along an axis, it has %d", b.scope+name, kernel[i]-front-behind, n)
		}
		if ceil && (room+stride[i]-1)/stride[i]*stride[i] < n+front {
			room += stride[i] - 1
		}
		shape = append(shape, max(room/stride[i]+1, 1))
	}
	return shape
}

// bothSides returns pads that are equal in front and behind.
func bothSides(pad []int64) []int64 { return slices.Concat(pad, pad) }

// samePads returns the pads with which a window begins at every stride-th element of
// the axes, as padding "same" of Keras does: the odd one of an axis stands behind.
func samePads(lengths, kernel, stride []int64) []int64 {
	pads := make([]int64, 2*len(lengths))
	for i, n := range lengths {
		outputs := (n + stride[i] - 1) / stride[i]
		total := max((outputs-1)*stride[i]+kernel[i]-n, 0)
		pads[i], pads[len(lengths)+i] = total/2, total-total/2
	}
	return pads
}

// spread gives every axis its number.
func spread(list []int64, axes int, none int64) []int64 {
	switch len(list) {
	case axes:
		return list
	case 0:
		return slices.Repeat(all(none), axes)
	}
	return slices.Repeat(list, axes)
}

// imageInput is the input of a network that classifies images.
func (b *builder) imageInput() value {
	size := b.whole("size")
	return b.input("image", graph.Float32, b.dim("batch"), 3, size, size)
}

// channels is c times the width setting.
func (b *builder) channels(c int64) int64 { return divisible(float64(c) * b.real("width")) }

// divisible is the nearest multiple of 8 that is at least 8, and at least 90 %
// of c (Howard et al. 2017 as released).
func divisible(c float64) int64 {
	n := max(8, int64(c+4)/8*8)
	if float64(n) < 0.9*c {
		n += 8
	}
	return n
}
