package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// halfPairs makes the kernel of an operation that vectors compute between numbers of 16 bits at
// once, of operands in rows: a number may stand for a row, such as that of a channel for its plane.
// It returns nil for others.
func (k *Kernel) halfPairs(c *Invocation) Run {
	if k.Op == simd.NoOperation {
		return nil
	}
	s := halfRows(c)
	if s == nil {
		return nil
	}
	out, as := c.Out[0], narrowType(c.Out[0].Type)
	each := c.Each(2 * 2 * narrowGrain)
	var pool *work.Pool
	sweeps := s.each(func(row, from, to, worker int) {
		var repeated [2][]uint16
		for i, t := range c.In {
			if s.inner[i] == 0 {
				repeated[i] = span[uint16](pool.Each(worker, each+2*i*narrowGrain), min(narrowGrain, to-from))
				repeat(repeated[i], *(*uint16)(element[uint16](t, s.at(row, i))))
			}
		}
		for ; from < to; from += narrowGrain {
			m := min(narrowGrain, to-from)
			var rows [2][]uint16
			for i, t := range c.In {
				if rows[i] = repeated[i]; s.inner[i] == 1 {
					rows[i] = span[uint16](element[uint16](t, s.at(row, i)+from), m)
				}
			}
			simd.Halves(k.Op, span[uint16](element[uint16](out, row*s.n+from), m), rows[0], rows[1], as)
		}
	})
	return func(w *work.Pool) error {
		pool = w
		return sweeps(w)
	}
}

// halfRows goes through two operands of 16 bits and their result row by row; nil if they have
// another form, or rows so short that conversions of whole tensors take less time.
func halfRows(c *Invocation) *sweep {
	if len(c.In) != 2 || len(c.Out) != 1 || c.Version != 0 && c.Version < 7 {
		return nil
	}
	for _, t := range []*Tensor{c.In[0], c.In[1], c.Out[0]} {
		if !isHalf(t) || t.Shape == nil || t.Layout != form.Plain {
			return nil
		}
	}
	s, err := newSweep(c.Out[0].Shape, c.In[0].Shape, c.In[1].Shape)
	if err != nil || min(s.inner[0], s.inner[1]) < 0 || s.n < shortestPair {
		return nil
	}
	return s
}

// repeat fills a row with one number.
func repeat[T any](d []T, v T) {
	if len(d) == 0 {
		return
	}
	d[0] = v
	for done := 1; done < len(d); done *= 2 {
		copy(d[done:], d[:done])
	}
}
