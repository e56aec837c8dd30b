package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Prepare prepares the kernel of a node. One that does not know float16 and
// bfloat16 by itself runs in float32 between two conversions, in scratch.
func (k *Kernel) Prepare(c *Call) (Run, error) {
	if !k.Half && hasHalf(c) {
		return k.widened(c)
	}
	return k.Make(c)
}

func isHalf(t *Tensor) bool {
	return t != nil && (t.Type == graph.Float16 || t.Type == graph.BFloat16)
}

func hasHalf(c *Call) bool {
	for _, t := range c.In {
		if isHalf(t) {
			return true
		}
	}
	for _, t := range c.Out {
		if isHalf(t) {
			return true
		}
	}
	return false
}

// conversion is a tensor of 16 bits and its float32 form in scratch.
type conversion struct {
	narrow, wide *Tensor
	off          int
}

// widened makes a kernel for 16-bit tensors out of one for float32.
func (k *Kernel) widened(c *Call) (Run, error) {
	inner := *c
	inner.narrow = c.In
	inner.In, inner.Out = make([]*Tensor, len(c.In)), make([]*Tensor, len(c.Out))
	var in, out []conversion
	widen := func(t *Tensor, list *[]conversion) *Tensor {
		if !isHalf(t) {
			return t
		}
		if t.Shape == nil {
			return nil
		}
		wide := &Tensor{Type: graph.Float32, Shape: t.Shape}
		*list = append(*list, conversion{t, wide, inner.Shared(4 * t.Len())})
		return wide
	}
	for i, t := range c.In {
		inner.In[i] = widen(t, &in)
	}
	for i, t := range c.Out {
		if inner.Out[i] = widen(t, &out); t != nil && inner.Out[i] == nil {
			return nil, unsupported(t.Type) // its shape depends on data
		}
	}
	run, err := k.Make(&inner)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
	return func(w *work.Pool) error {
		for _, v := range in {
			v.wide.At = w.Shared(v.off)
			v.widen(w)
		}
		for _, v := range out {
			v.wide.At = w.Shared(v.off)
		}
		if err := run(w); err != nil {
			return err
		}
		for _, v := range out {
			v.round(w)
		}
		return nil
	}, nil
}

func (v *conversion) widen(*work.Pool) {
	widenRow(data[float32](v.wide), v.narrow.At, v.narrow.Type)
}

func (v *conversion) round(*work.Pool) {
	roundRow(v.narrow.At, v.narrow.Type, data[float32](v.wide))
}

// widenRow reads len(d) elements of 16 bits.
func widenRow(d []float32, at unsafe.Pointer, t graph.DType) {
	s := span[uint16](at, len(d))
	if t == graph.BFloat16 {
		for i, h := range s {
			d[i] = math.Float32frombits(uint32(h) << 16)
		}
		return
	}
	for i, h := range s {
		d[i] = HalfToFloat(h)
	}
}

// roundRow writes elements of 16 bits.
func roundRow(at unsafe.Pointer, t graph.DType, s []float32) {
	d := span[uint16](at, len(s))
	if t == graph.BFloat16 {
		for i, f := range s {
			d[i] = floatToBrain(f)
		}
		return
	}
	for i, f := range s {
		d[i] = FloatToHalf(f)
	}
}
