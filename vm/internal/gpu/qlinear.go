package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// Functions of kernels/qlinear.cu.
const (
	lookSame int32 = iota
	lookSigmoid
	lookLeaky
)

// scaling8 returns the scale and the zero point of a tensor of 8-bit integers, which are
// inputs i and i+1. The zero point may be nil.
func (n *Node) scaling8(t *form.Tensor, i int) (scale, zero *form.Tensor, err error) {
	if t == nil || !t.Byte() {
		return nil, nil, unsupportedf("a tensor that has no 8-bit integers")
	}
	scale, zero = n.Input(i), n.Input(i+1)
	if err := needTypes(graph.Float32, scale); err != nil {
		return nil, nil, err
	}
	if zero != nil {
		if err := needTypes(t.Type, zero); err != nil {
			return nil, nil, err
		}
	}
	if scale.Len() != 1 || zero != nil && zero.Len() != 1 {
		return nil, nil, unsupportedf("more than one scale or zero point")
	}
	return scale, zero, nil
}

// scalingIn is scaling8 as C expressions.
func (n *Node) scalingIn(e *expression, t *form.Tensor, i int) (scale, zero string, err error) {
	s, z, err := n.scaling8(t, i)
	if err != nil {
		return "", "", err
	}
	if scale, err = e.valueAs(s, []int{}); err != nil {
		return "", "", err
	}
	if z == nil {
		return scale, literal(0, t.Type), nil
	}
	zero, err = e.valueAs(z, []int{})
	return scale, zero, err
}

// realIn is the real that the element of input i stands for, as a C expression.
func (n *Node) realIn(e *expression, i int) (string, error) {
	scale, zero, err := n.scalingIn(e, n.Input(i), i+1)
	if err != nil {
		return "", err
	}
	v, err := e.value(n.In[i])
	return call("dequantized", v, scale, zero), err
}

// setQuantized sets output 0 to a real; inputs i and i+1 are its scale and zero point.
func (n *Node) setQuantized(e *expression, i int, real string) error {
	y := n.Out[0]
	scale, zero, err := n.scalingIn(e, y, i)
	if err != nil {
		return err
	}
	return e.set(y, call("quantized<"+cType[y.Type]+">", real, scale, zero))
}

// quantizedBinary makes the Element of an operation on the reals of two tensors.
func quantizedBinary(function string) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		a, err := n.realIn(e, 0)
		if err != nil {
			return err
		}
		b, err := n.realIn(e, 3)
		if err != nil {
			return err
		}
		return n.setQuantized(e, 6, call(function, a, b))
	}
}

func quantizedWhere(n *Node, e *expression) error {
	if err := needTypes(graph.Bool, n.Input(0)); err != nil {
		return err
	}
	is, err := e.value(n.In[0])
	if err != nil {
		return err
	}
	a, err := n.realIn(e, 1)
	if err != nil {
		return err
	}
	b, err := n.realIn(e, 4)
	if err != nil {
		return err
	}
	return n.setQuantized(e, 7, "("+is+" ? "+a+" : "+b+")")
}

// quantity is Quantity of kernels/quantity.cuh: where a scale and a zero point are.
type quantity struct{ Scale, Zero driver.Ptr }

// quantity returns where the scale and the zero point of a tensor are, which are inputs i
// and i+1.
func (n *Node) quantity(t *form.Tensor, i int) (q quantity, err error) {
	scale, zero, err := n.scaling8(t, i)
	if err != nil {
		return q, err
	}
	at, err := n.addresses(scale, zero)
	if err != nil {
		return q, err
	}
	return quantity{at[0], at[1]}, nil
}

// quantities returns those of x and of output 0, whose scales are inputs i and o, and a
// kernel from the one to the other.
func (n *Node) quantities(x *form.Tensor, i, o int, name string) (from, to quantity, k cuda.Kernel, err error) {
	if from, err = n.quantity(x, i); err != nil {
		return from, to, k, err
	}
	if to, err = n.quantity(n.Out[0], o); err != nil {
		return from, to, k, err
	}
	return from, to, n.kernel("qlinear.cu", name, "LEFT="+cType[x.Type], "RESULT="+cType[n.Out[0].Type]), nil
}

// lookUp appends a function of the reals of input 0.
func (n *Node) lookUp(function int32, alpha float64) error {
	from, to, k, err := n.quantities(n.Input(0), 1, 3, "look_up")
	if err != nil {
		return err
	}
	x := n.In[0]
	return n.lookUpRows(k, x, from, to, 0, x.Len(), x.Len(), function, alpha)
}

// lookUpRows appends the launch that maps rows of length bytes of a tensor to output 0,
// where they begin off bytes after the begin of a row of stride bytes.
func (n *Node) lookUpRows(k cuda.Kernel, x *form.Tensor, from, to quantity, off, length, stride int, function int32, alpha float64) error {
	words, four := x.Len(), int32(0)
	if words == 0 {
		return nil
	}
	if err := tooLarge(x); err != nil {
		return err
	}
	at, err := n.addresses(n.Out[0], x)
	if err != nil {
		return err
	}
	at[0] += driver.Ptr(off)
	if length%4 == 0 && stride%4 == 0 && at[0]%4 == 0 && at[1]%4 == 0 {
		words, length, stride, four = words/4, length/4, stride/4, 1
	}
	if stride > most {
		return unsupportedf("rows of %d bytes", stride)
	}
	return n.launch(k, blocksFor((words+3)/4), threadsPerBlock, at[0], at[1], from, to, uint32(words), unsigned(divider(length), 4), uint32(stride), four, function, alpha)
}

// makeQLinearConcat quantizes each part as the output is.
func makeQLinearConcat(n *Node) error {
	y := n.Out[0]
	axis, err := n.axis(0, len(y.Shape))
	if err != nil {
		return err
	}
	off := 0
	for i := 2; i < len(n.In); i += 3 {
		x := n.Input(i)
		from, to, k, err := n.quantities(x, i+1, 0, "look_up")
		if err != nil {
			return err
		}
		length := count(x.Shape[axis:])
		if err := n.lookUpRows(k, x, from, to, off, length, count(y.Shape[axis:]), lookSame, 0); err != nil {
			return err
		}
		off += length
	}
	return nil
}

// makeQLinearSoftmax runs along an axis or, if attribute opset is below 13, over that axis
// and all that follow.
func makeQLinearSoftmax(n *Node) error {
	from, to, k, err := n.quantities(n.Input(0), 1, 3, "softmax")
	if err != nil {
		return err
	}
	x := n.In[0]
	old, otherwise := n.Int("opset", 13) < 13, -1
	if old {
		otherwise = 1
	}
	axis, err := n.axis(otherwise, max(len(x.Shape), 1))
	if err != nil {
		return err
	}
	return n.launchTeams(k, linesOf(x.Shape, axis, old).inFours(), 0, []*form.Tensor{n.Out[0], x}, from, to)
}

// makeQLinearAveragePool averages the reals.
func makeQLinearAveragePool(n *Node) error {
	if n.Int("channels_last", 0) != 0 {
		return unsupportedf("channels that are last")
	}
	from, to, k, err := n.quantities(n.Input(0), 1, 3, "average_bytes")
	if err != nil {
		return err
	}
	s, err := poolWindow(n)
	if err != nil {
		return err
	}
	at, err := n.addresses(n.Out[0], n.In[0])
	if err != nil {
		return err
	}
	total := n.Out[0].Len()
	return n.launch(k, blocksFor(total), threadsPerBlock, at[0], at[1], s, uint32(total), int32(n.Int("count_include_pad", 0)), from, to)
}

// makeQLinearGlobalAveragePool averages channels, which come second or last.
func makeQLinearGlobalAveragePool(n *Node) error {
	from, to, k, err := n.quantities(n.Input(0), 1, 3, "channel_means")
	if err != nil {
		return err
	}
	x := n.In[0]
	l := lineSet{count: count(x.Shape[:2]), n: count(x.Shape[2:]), step: 1}
	if last := len(x.Shape) - 1; n.Int("channels_last", 0) != 0 {
		l = lineSet{count: x.Shape[0] * x.Shape[last], n: count(x.Shape[1:last]), step: x.Shape[last]}
	}
	return n.launchTeams(k, l.inFours(), 0, []*form.Tensor{n.Out[0], x}, from, to)
}
