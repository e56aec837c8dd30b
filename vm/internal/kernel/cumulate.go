package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// lines lists running sums and products along an axis.
var lines = family{"", []Kernel{
	{Name: "CumSum", Make: cumulate(false)},
	{Name: "CumProd", Make: cumulate(true)},
}}

// line describes the lines of a tensor along an axis: the length of a line, the
// distance of its elements, and the number of lines.
type line struct{ n, step, lines int }

// lineOf returns the lines along axis k. A scalar is a single line of one element.
func lineOf(shape []int, k int) line {
	if len(shape) == 0 {
		return line{n: 1, step: 1, lines: 1}
	}
	l := line{n: shape[k], step: count(shape[k+1:])}
	l.lines = count(shape[:k]) * l.step
	return l
}

// at is the index of the first element of line i in a tensor whose lines have n
// elements.
func (l *line) at(i, n int) int { return i/l.step*l.step*n + i%l.step }

func cumulate(product bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		axes, err := c.Value(1)
		if err != nil {
			return nil, err
		}
		k, err := attr.Axis("axis", int64(axes[0]), c.In[0].Rank())
		if err != nil {
			return nil, err
		}
		switch c.In[0].Type {
		case graph.Float32:
			return cumulateOf[float32](c, k, product)
		case graph.Float64:
			return cumulateOf[float64](c, k, product)
		case graph.Int64:
			return cumulateOf[int64](c, k, product)
		case graph.Int32:
			return cumulateOf[int32](c, k, product)
		case graph.Uint64:
			return cumulateOf[uint64](c, k, product)
		case graph.Uint32:
			return cumulateOf[uint32](c, k, product)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

func cumulateOf[T number](c *Invocation, k int, product bool) (Run, error) {
	in, out := c.In[0], c.Out[0]
	l := lineOf(in.Shape, k)
	exclusive, reverse := c.Int("exclusive", 0) != 0, c.Int("reverse", 0) != 0
	if l.step >= 8 {
		return cumulateRows[T](c, l, product, exclusive, reverse), nil
	}
	part := func(i, _ int) {
		at := l.at(i, l.n)
		d, s := data[T](out), data[T](in)
		sum := T(0)
		if product {
			sum = 1
		}
		for j := range l.n {
			if j&form.Often == 0 {
				c.Poll()
			}
			p := at + j*l.step
			if reverse {
				p = at + (l.n-1-j)*l.step
			}
			v := s[p] // the output, written next, may overwrite it
			if exclusive {
				d[p] = sum
			}
			if product {
				sum *= v
			} else {
				sum += v
			}
			if !exclusive {
				d[p] = sum
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(l.lines, part)
		return nil
	}, nil
}

// cumulateRows is cumulateOf of lines that lie side by side: it goes through many of them at
// once, element by element.
func cumulateRows[T number](c *Invocation, l line, product, exclusive, reverse bool) Run {
	const most = 512
	in, out := c.In[0], c.Out[0]
	pieces := cuts(l.step, most)
	part := func(p, _ int) {
		from := p % pieces * most
		count := min(most, l.step-from)
		first := p/pieces*l.n*l.step + from
		var sums, next [most]T
		if product {
			fill(sums[:count], 1)
		}
		m := c.Meter()
		for j := range l.n {
			m.Add(count)
			if reverse {
				j = l.n - 1 - j
			}
			d, s := data[T](out)[first+j*l.step:][:count], data[T](in)[first+j*l.step:][:count]
			if !exclusive {
				cumulateRow(sums[:count], sums[:count], s, product)
				copy(d, sums[:])
				continue
			}
			cumulateRow(next[:count], sums[:count], s, product) // d may be s
			copy(d, sums[:])
			sums = next
		}
	}
	return func(w *work.Pool) error {
		w.For(l.lines/l.step*pieces, part)
		return nil
	}
}

// cumulateRow writes sums + row or sums·row; dst may be sums.
func cumulateRow[T number](dst, sums, row []T, product bool) {
	if f32, is := any(dst).([]float32); is {
		if product {
			simd.Mul(f32, any(sums).([]float32), any(row).([]float32))
		} else {
			simd.Add(f32, any(sums).([]float32), any(row).([]float32))
		}
		return
	}
	for i, v := range row {
		if product {
			dst[i] = sums[i] * v
		} else {
			dst[i] = sums[i] + v
		}
	}
}
