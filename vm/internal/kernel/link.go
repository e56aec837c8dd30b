package kernel

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// link computes n elements of a node's result from as many of each of its inputs. d may be
// one of the inputs if its elements have as many bytes.
type link func(d unsafe.Pointer, in [3]unsafe.Pointer, n int)

// Link says how a chain computes an operator, from inputs of which dtypes.
type Link struct {
	do     link
	in     []graph.DType // float32 stands for 16 bits, too, which a chain widens
	result graph.DType
	keeps  bool           // the result is one of the operands, or 0: if they are of 16 bits, so is it
	op     simd.Operation // which rounds its result in the same pass; or none
}

var (
	oneReal  = []graph.DType{graph.Float32}
	twoReals = []graph.DType{graph.Float32, graph.Float32}
)

// pair is the link of a binary operation on float32.
func pair(f func(d, a, b []float32)) *Link {
	return &Link{do: func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		f(span[float32](d, n), span[float32](in[0], n), span[float32](in[1], n))
	}, in: twoReals, result: graph.Float32}
}

// paired is the link of a binary operation that may round its result in the same pass.
func paired(op simd.Operation, f func(d, a, b []float32)) *Link {
	l := pair(f)
	l.op = op
	return l
}

// rounded is the link, followed by rounding to the numbers that a tensor of 16 bits has.
func (l *Link) rounded(as *Tensor) link {
	to := narrowType(as.Type)
	if op := l.op; op != simd.NoOperation {
		return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
			simd.Rounded(op, span[float32](d, n), span[float32](in[0], n), span[float32](in[1], n), to)
		}
	}
	return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		l.do(d, in, n)
		simd.RoundWide(span[float32](d, n), span[float32](d, n), to)
	}
}

// single is the link of a function of a float32.
func single(f func(d, a []float32)) *Link {
	return &Link{do: func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		f(span[float32](d, n), span[float32](in[0], n))
	}, in: oneReal, result: graph.Float32}
}

// relates is the link of a relation, with its operands swapped or not.
func relates(r simd.Relation, swapped bool) *Link {
	a, b := 0, 1
	if swapped {
		a, b = 1, 0
	}
	return &Link{do: func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		simd.Compare(span[uint8](d, n), span[float32](in[a], n), span[float32](in[b], n), r)
	}, in: twoReals, result: graph.Bool}
}

// masks is the link of an operation on truth values.
func masks(f func(d, a, b []uint8)) *Link {
	return &Link{do: func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		f(span[uint8](d, n), span[uint8](in[0], n), span[uint8](in[1], n))
	}, in: []graph.DType{graph.Bool, graph.Bool}, result: graph.Bool}
}

// Links that rows name.
var (
	linkOfRelu    = &Link{do: single(reluVectors).do, in: oneReal, result: graph.Float32, keeps: true}
	linkOfMul     = paired(simd.Multiplication, simd.Mul)
	linkOfSigmoid = single(simd.Sigmoid)
	linkOfSwish   = single(func(d, a []float32) { simd.Swish(d, a, 1) })
	linkOfIsNaN   = &Link{do: func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		nans(span[uint8](d, n), span[float32](in[0], n))
	}, in: oneReal, result: graph.Bool}
	linkOfWhere = &Link{do: func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		simd.Choose(span[uint32](d, n), span[uint8](in[0], n), span[uint32](in[1], n), span[uint32](in[2], n))
	}, in: []graph.DType{graph.Bool, graph.Float32, graph.Float32}, result: graph.Float32, keeps: true}
)

// whichever is the link of a Where whose condition is one truth value, of which it reads the first copy.
func whichever(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
	from := in[2]
	if *(*uint8)(in[0]) != 0 {
		from = in[1]
	}
	if from != d {
		copy(span[uint32](d, n), span[uint32](from, n))
	}
}

// linkOf returns the link of a node's operator; nil: it has none.
func linkOf(c *Invocation) *Link {
	if k := Lookup(c.Node.Domain, c.Node.Op); k != nil {
		return k.Link
	}
	return nil
}

// converts returns the link of a QuantizeLinear or DequantizeLinear between float32 and 8
// bits whose scale and zero point are constants, the same for all elements; nil if the node
// is none.
func converts(c *Invocation) link {
	op := c.Node.Op
	if op != "QuantizeLinear" && op != "DequantizeLinear" || c.Node.Domain != "" || !c.Has(0) || !c.Has(1) || len(c.Out) != 1 || c.Out[0] == nil {
		return nil
	}
	bytes, reals, scale := c.In[0], c.Out[0], c.In[1]
	if op == "QuantizeLinear" {
		bytes, reals = reals, bytes
	}
	signed, is := byteType(bytes.Type)
	if !is || reals.Type != graph.Float32 || scale.Type != graph.Float32 || !scale.Const || scale.Len() != 1 || c.Int("block_size", 0) != 0 || !sameShape(bytes, reals) {
		return nil
	}
	if c.Has(2) && (!c.In[2].Const || c.In[2].Len() != 1 || c.In[2].Type != bytes.Type) {
		return nil
	}
	zero := zeroPoint(c, 2)
	as := func() (float32, simd.Byte) {
		return data[float32](scale)[0], simd.Byte{Signed: signed, Zero: int32(zero(0))}
	}
	if op == "QuantizeLinear" {
		return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
			scale, to := as()
			simd.Quantize(span[byte](d, n), span[float32](in[0], n), scale, to)
		}
	}
	return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		scale, from := as()
		simd.Dequantize(span[float32](d, n), span[byte](in[0], n), scale, from)
	}
}

// recasts reports whether a node converts between reals of 32 and 16 bits.
func recasts(c *Invocation) bool {
	op := c.Node.Op
	return (op == "Cast" || op == "CastLike") && c.Node.Domain == "" && c.Has(0) && len(c.Out) == 1 && c.Out[0] != nil &&
		wideType(c.In[0]) == graph.Float32 && wideType(c.Out[0]) == graph.Float32 && c.In[0].Type != c.Out[0].Type && sameShape(c.In[0], c.Out[0])
}

// wideType is the dtype in which a chain computes with a tensor's elements.
func wideType(t *Tensor) graph.DType {
	if isHalf(t) {
		return graph.Float32
	}
	return t.Type
}

// Links reports whether a node can be a link of a chain: each input has the shape of the
// result, or is a single real of 32 or 16 bits or truth value, or the node converts reals to bytes, bytes to
// reals, or reals. The elements lie in the order in which the operator sees them, or all in
// another one.
func Links(c *Invocation) bool {
	if slices.ContainsFunc(c.In, inPlanes) || slices.ContainsFunc(c.Out, inPlanes) {
		return false
	}
	if converts(c) != nil || recasts(c) {
		return true
	}
	l := linkOf(c)
	if l == nil || len(c.In) != len(l.in) || len(c.Out) != 1 || c.Out[0] == nil || wideType(c.Out[0]) != l.result {
		return false
	}
	for i, t := range c.In {
		if t == nil || wideType(t) != l.in[i] || !sameShape(t, c.Out[0]) && (t.Len() != 1 || t.Rank() > c.Out[0].Rank() || l.in[i] != graph.Float32 && l.in[i] != graph.Bool) {
			return false
		}
	}
	return true
}

// inPlanes reports whether an image of NCHWc is held in NCHW.
func inPlanes(t *Tensor) bool { return t != nil && t.Layout == form.NCHW }

func sameShape(a, b *Tensor) bool {
	if a.Rank() != b.Rank() {
		return false
	}
	for k, n := range a.Shape {
		if n != b.Shape[k] {
			return false
		}
	}
	return true
}
