package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Prepare prepares the kernel of a node. A kernel that does not handle float16 and
// bfloat16 itself runs in float32 between two conversions, in scratch.
func (k *Kernel) Prepare(c *Invocation) (run Run, err error) {
	defer func() {
		if r := recover(); r != nil {
			if run, err = nil, Refused(r); err == nil {
				panic(r)
			}
		}
	}()
	c.Taken, c.Packed = false, c.Packed[:0]
	if c.nothing() {
		return func(*work.Pool) error { return nil }, nil
	}
	if !k.Half && hasHalf(c) {
		return k.widened(c)
	}
	return k.Make(c)
}

// nothing reports whether no output has an element. There is nothing to compute then,
// however long the other axes are.
func (c *Invocation) nothing() bool {
	for _, t := range c.Out {
		if t != nil && (t.Shape == nil || t.Len() > 0) {
			return false
		}
	}
	return len(c.Out) > 0
}

func isHalf(t *Tensor) bool {
	return t != nil && (t.Type == graph.Float16 || t.Type == graph.BFloat16)
}

func hasHalf(c *Invocation) bool {
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

// conversion is a 16-bit tensor and its float32 form in scratch.
type conversion struct {
	narrow, wide *Tensor
	off          int
}

// widened makes a kernel for 16-bit tensors from one for float32.
func (k *Kernel) widened(c *Invocation) (Run, error) {
	inner := *c
	inner.narrow = c.In
	if inner.Then != nil && !inner.Then.Clamps {
		inner.Then = nil // the activation's input is the rounded result
	}
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
			return nil, unsupported(t.Type) // scratch cannot depend on data
		}
	}
	run, err := k.Make(&inner)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes, c.Taken = inner.SharedBytes, inner.EachBytes, inner.Taken
	return func(w *work.Pool) error {
		for _, v := range in {
			v.wide.At = w.Shared(v.off)
			widenAll(w, v.wide, v.narrow)
		}
		for _, v := range out {
			v.wide.At = w.Shared(v.off)
		}
		if err := run(w); err != nil {
			return err
		}
		for _, v := range out {
			roundAll(w, v.narrow, v.wide)
		}
		return nil
	}, nil
}

// widenAll converts a 16-bit tensor to float32.
func widenAll(w *work.Pool, wide, narrow *Tensor) {
	d, s := data[float32](wide), data[uint16](narrow)
	w.Steps(len(d), func(from, to int) { simd.Widen(d[from:to], s[from:to], narrowType(narrow.Type)) })
}

// roundAll rounds a float32 tensor to 16 bits.
func roundAll(w *work.Pool, narrow, wide *Tensor) {
	d, s := data[uint16](narrow), data[float32](wide)
	w.Steps(len(d), func(from, to int) { simd.Round(d[from:to], s[from:to], narrowType(narrow.Type)) })
}

// narrowType returns package simd's name of a 16-bit dtype.
func narrowType(d graph.DType) simd.Narrow {
	if d == graph.BFloat16 {
		return simd.BFloat16
	}
	return simd.Float16
}

// HalfToFloat converts a float16 to a float32, exactly.
func HalfToFloat(h uint16) float32 { return simd.FromHalf(h) }

// FloatToHalf rounds a float32 to the nearest float16, ties to even.
func FloatToHalf(f float32) uint16 { return simd.ToHalf(f) }
