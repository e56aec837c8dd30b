package kernel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Prepare prepares the kernel of a node. A kernel that does not handle float16 and
// bfloat16 itself runs in float32 between two conversions, in scratch.
func (k *Kernel) Prepare(c *Invocation) (run Run, err error) {
	defer func() {
		if r := recover(); r != nil {
			if run, err = nil, form.Refused(r); err == nil {
				panic(r)
			}
		}
	}()
	c.Taken, c.Packed, c.Way = false, c.Packed[:0], ""
	if c.nothing() {
		return func(*work.Pool) error { return nil }, nil
	}
	if k.Moves && hasPacked(c) {
		return k.unpacked(c)
	}
	if !k.Half && hasHalf(c) {
		if f, inputs := k.row(c); f != nil {
			return narrowRows(c, f, inputs), nil
		}
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

// row returns the float32 function of an elementwise kernel whose inputs are 16-bit
// tensors of the output's shape, or nil, and the number of these inputs. b is nil for a
// function of one input.
func (k *Kernel) row(c *Invocation) (f func(d, a, b []float32), inputs int) {
	inputs = 2
	if k.Row == nil {
		inputs = 1
	}
	if len(c.Out) != 1 || !isHalf(c.Out[0]) || c.Out[0].Shape == nil || len(c.In) < inputs {
		return nil, 0
	}
	for _, t := range c.In[:inputs] {
		if !isHalf(t) || t.Shape == nil || !slices.Equal(t.Shape, c.Out[0].Shape) {
			return nil, 0
		}
	}
	if k.Row != nil || k.Finish == nil {
		return k.Row, inputs
	}
	finish := k.Finish(c)
	if finish == nil {
		return nil, 0
	}
	return func(d, _, _ []float32) { finish.Row(d) }, inputs
}

// narrowGrain is the number of elements that narrowRows converts at once: they stay in
// the first-level cache.
const narrowGrain = 1 << 11

// narrowRows makes the kernel of an elementwise function of 16-bit tensors. It widens,
// computes and rounds piece by piece; f writes to its first input.
func narrowRows(c *Invocation, f func(d, a, b []float32), inputs int) Run {
	out := c.Out[0]
	n := out.Len()
	each := c.Each(mul(4, narrowGrain, inputs))
	var pool *work.Pool
	part := func(p, worker int) {
		var rows [2][]float32
		for from := p * grain; from < min((p+1)*grain, n); from += narrowGrain {
			m := min(narrowGrain, n-from)
			for i, t := range c.In[:inputs] {
				rows[i] = span[float32](pool.Each(worker, each+4*i*narrowGrain), m)
				simd.Widen(rows[i], span[uint16](element[uint16](t, from), m), narrowType(t.Type))
			}
			f(rows[0], rows[0], rows[1])
			simd.Round(span[uint16](element[uint16](out, from), m), rows[0], narrowType(out.Type))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(cuts(n, grain), part)
		return nil
	}
}

// conversion is a 16-bit tensor and its float32 form in scratch.
type conversion struct {
	narrow, wide *Tensor
	off          int
}

// widened makes a kernel for 16-bit tensors from one for float32.
func (k *Kernel) widened(c *Invocation) (Run, error) {
	inner := *c
	inner.Narrow = &c.Call
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
		wide := &Tensor{Type: graph.Float32, Shape: t.Shape, Layout: t.Layout}
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
	if c.Way = "in float32"; inner.Way != "" {
		c.Way = inner.Way + ", in float32" // no node that is prepared at every step has one
	}
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
