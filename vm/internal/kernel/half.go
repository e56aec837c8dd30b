package kernel

import (
	"slices"
	"unsafe"

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
		if k.Narrow != nil {
			if run := k.Narrow(c); run != nil {
				return run, nil
			}
		}
		if run := k.halfPairs(c); run != nil {
			return run, nil
		}
		if f, inputs := k.row(c); f != nil {
			return narrowRows(c, f, inputs), nil
		}
		if Links(c) {
			return NewChain([]*Invocation{c}).Make(c), nil
		}
		if run := k.narrowPairs(c); run != nil {
			return run, nil
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
// tensors of the output's shape, or of its last axes, or nil, and the number of these inputs. b is
// nil for a function of one input.
func (k *Kernel) row(c *Invocation) (f func(d, a, b []float32), inputs int) {
	inputs = 2
	if k.Row == nil {
		inputs = 1
	}
	if len(c.Out) != 1 || !isHalf(c.Out[0]) || c.Out[0].Shape == nil || len(c.In) < inputs {
		return nil, 0
	}
	repeats := followsItself
	if c.Version != 0 && c.Version < 7 { // an attribute says which axes are the last (legacy)
		repeats = slices.Equal[[]int]
	}
	for _, t := range c.In[:inputs] {
		if !isHalf(t) || t.Shape == nil || !repeats(t.Shape, c.Out[0].Shape) {
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

// followsItself reports whether a tensor of a shape broadcasts to whole by following itself.
func followsItself(shape, whole []int) bool {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return len(shape) <= len(whole) && slices.Equal(shape, whole[len(whole)-len(shape):])
}

// widenRepeated widens the elements from one on of a tensor that follows itself.
func widenRepeated(dst []float32, t *Tensor, from int) {
	all, to := data[uint16](t), narrowType(t.Type)
	from %= len(all)
	once := min(len(dst), len(all))
	end := min(once, len(all)-from)
	simd.Widen(dst[:end], all[from:from+end], to)
	simd.Widen(dst[end:once], all[:once-end], to)
	for done := once; done < len(dst); done *= 2 {
		copy(dst[done:], dst[:done])
	}
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
				widenRepeated(rows[i], t, from)
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

// narrowPairs is narrowRows for operands that are broadcast otherwise: a number stands for a row,
// such as that of a channel for its plane. It returns nil for others.
func (k *Kernel) narrowPairs(c *Invocation) Run {
	s := halfRows(c)
	if k.Row == nil || s == nil {
		return nil
	}
	out := c.Out[0]
	each := c.Each(2 * 4 * narrowGrain)
	var pool *work.Pool
	sweeps := s.each(func(row, from, to, worker int) {
		var wide [2][]float32
		for ; from < to; from += narrowGrain {
			m := min(narrowGrain, to-from)
			for i, t := range c.In {
				wide[i] = span[float32](pool.Each(worker, each+4*i*narrowGrain), m)
				at := element[uint16](t, s.at(row, i)+from*s.inner[i])
				if s.inner[i] == 1 {
					simd.Widen(wide[i], span[uint16](at, m), narrowType(t.Type))
					continue
				}
				repeat(wide[i], narrowType(t.Type).Wide(*(*uint16)(at)))
			}
			k.Row(wide[0], wide[0], wide[1])
			simd.Round(span[uint16](element[uint16](out, row*s.n+from), m), wide[0], narrowType(out.Type))
		}
	})
	return func(w *work.Pool) error {
		pool = w
		return sweeps(w)
	}
}

// shortestPair is the least length of rows for which narrowPairs takes less time than conversions
// of whole tensors.
const shortestPair = 16

// conversion is a 16-bit tensor and its float32 form in scratch.
type conversion struct {
	narrow, wide *Tensor
	off          int
	part         func(p, worker int) // converts grain elements
}

// run converts with all workers.
func (v *conversion) run(w *work.Pool) { w.For(cuts(v.wide.Len(), grain), v.part) }

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
		v := conversion{narrow: t, wide: wide, off: inner.Shared(4 * t.Len())}
		v.part = func(p, _ int) {
			d, s := data[float32](wide), data[uint16](t)
			from, to := p*grain, min((p+1)*grain, len(d))
			if list == &in {
				simd.Widen(d[from:to], s[from:to], narrowType(t.Type))
			} else {
				simd.Round(s[from:to], d[from:to], narrowType(t.Type))
			}
		}
		*list = append(*list, v)
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
		for i := range in {
			v := &in[i]
			v.wide.At = w.Shared(v.off)
			v.run(w)
		}
		for _, v := range out {
			v.wide.At = w.Shared(v.off)
		}
		if err := run(w); err != nil {
			return err
		}
		for i := range out {
			out[i].run(w)
		}
		return nil
	}, nil
}

// widenAll converts a 16-bit tensor to float32.
func widenAll(w *work.Pool, wide, narrow *Tensor) {
	d, s := data[float32](wide), data[uint16](narrow)
	w.Steps(len(d), func(from, to int) { simd.Widen(d[from:to], s[from:to], narrowType(narrow.Type)) })
}

// realsAt returns where n elements of a tensor lie as float32, from the given one on: those of a
// 16-bit tensor are widened at room.
func realsAt(room unsafe.Pointer, t *Tensor, from, n int) unsafe.Pointer {
	if !isHalf(t) {
		return element[float32](t, from)
	}
	simd.Widen(span[float32](room, n), span[uint16](element[uint16](t, from), n), narrowType(t.Type))
	return room
}

// realAt is an element of a tensor of float32 or of 16 bits.
func realAt(t *Tensor, i int) float32 {
	var one float32
	return *(*float32)(realsAt(unsafe.Pointer(&one), t, i, 1))
}

// plane is a piece of an output that is computed as float32: in place, or in scratch if the output
// has 16 bits.
type plane struct {
	out  *Tensor
	each int // of the scratch
}

func newPlane(c *Invocation, n int) plane {
	p := plane{out: c.Out[0]}
	if isHalf(p.out) {
		p.each = c.Each(mul(4, n))
	}
	return p
}

// at is where the elements from the given one on are computed.
func (p *plane) at(w *work.Pool, worker, from int) unsafe.Pointer {
	if isHalf(p.out) {
		return w.Each(worker, p.each)
	}
	return element[float32](p.out, from)
}

// finish rounds n elements from the given one on.
func (p *plane) finish(w *work.Pool, worker, from, n int) {
	if isHalf(p.out) {
		simd.Round(span[uint16](element[uint16](p.out, from), n), span[float32](w.Each(worker, p.each), n), narrowType(p.out.Type))
	}
}

// roomFor is scratch of each worker for n elements of a tensor that realsAt reads.
func roomFor(c *Invocation, t *Tensor, n int) int {
	if !isHalf(t) {
		return 0
	}
	return c.Each(mul(4, n))
}

// narrowType returns package simd's name of a 16-bit dtype.
func narrowType(d graph.DType) simd.Narrow {
	if d == graph.BFloat16 {
		return simd.BFloat16
	}
	return simd.Float16
}
