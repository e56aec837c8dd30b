package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Elements of fewer than 8 bits have no address, so a kernel that moves elements by their
// addresses (Kernel.Moves) cannot move them. It runs on bytes, one for each element, between
// two conversions in scratch. That is several times the work of a kernel of their own; such
// tensors are weights, which Transpose and Pad move once, since they are folded.

// sharesByte reports whether several elements share a byte.
func sharesByte(t *Tensor) bool {
	return t != nil && t.Type != graph.String && form.ElementBits(t.Type) < 8 && form.ElementBits(t.Type) > 0
}

func hasPacked(c *Invocation) bool {
	for _, list := range [][]*Tensor{c.In, c.Out} {
		for _, t := range list {
			if sharesByte(t) {
				return true
			}
		}
	}
	return false
}

// unpacked makes a kernel for packed elements from one that moves elements.
func (k *Kernel) unpacked(c *Invocation) (Run, error) {
	inner := *c
	inner.In, inner.Out = make([]*Tensor, len(c.In)), make([]*Tensor, len(c.Out))
	type twin struct {
		narrow, wide *Tensor
		off          int
	}
	var in, out []twin
	widen := func(t *Tensor, list *[]twin) (*Tensor, error) {
		if !sharesByte(t) {
			return t, nil
		}
		if t.Shape == nil {
			return nil, unsupported(t.Type) // scratch cannot depend on data
		}
		wide := &Tensor{Type: graph.Uint8, Shape: t.Shape}
		*list = append(*list, twin{t, wide, inner.Shared(t.Len())})
		return wide, nil
	}
	var err error
	for i, t := range c.In {
		if inner.In[i], err = widen(t, &in); err != nil {
			return nil, err
		}
	}
	for i, t := range c.Out {
		if inner.Out[i], err = widen(t, &out); err != nil {
			return nil, err
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
			d, s, bits := data[uint8](v.wide), raw(v.narrow), form.ElementBits(v.narrow.Type)
			w.Steps(len(d), func(from, to int) { unpackAll(d, s, from, to, bits) })
		}
		for _, v := range out {
			v.wide.At = w.Shared(v.off)
		}
		if err := run(w); err != nil {
			return err
		}
		for _, v := range out {
			d, s, bits := raw(v.narrow), data[uint8](v.wide), form.ElementBits(v.narrow.Type)
			// By bytes of the result, so that no two parts write the same one.
			w.Steps(len(d), func(from, to int) { packAll(d, s, from, to, bits) })
		}
		return nil
	}, nil
}

// unpackAll writes elements [from, to) of the given bits to a byte each. The first of those
// that share a byte has its low bits.
func unpackAll(d, s []byte, from, to, bits int) {
	each := 8 / bits
	for i := from; i < to; i++ {
		d[i] = s[i/each] >> (i % each * bits) & (1<<bits - 1)
	}
}

// packAll writes bytes [from, to) of packed elements, which have a byte each in s.
func packAll(d, s []byte, from, to, bits int) {
	each := 8 / bits
	for i := from; i < to; i++ {
		var b byte
		for k, v := range s[i*each : min((i+1)*each, len(s))] {
			b |= v << (k * bits)
		}
		d[i] = b
	}
}
