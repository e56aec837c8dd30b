package kernel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// lines are operators that run along one axis.
var lines = family{"", []Kernel{
	{Name: "CumSum", Make: cumulate(false)},
	{Name: "CumProd", Make: cumulate(true)},
	{Name: "ArgMax", Make: argBest(true)},
	{Name: "ArgMin", Make: argBest(false)},
	{Name: "Hardmax", Make: makeHardmax},
	{Name: "TopK", Make: makeTopK},
}}

// line is one line along an axis: its first element, and the distance of two.
type line struct{ n, step, lines int }

// lineOf gives the lines along axis k. A scalar is one of one element.
func lineOf(shape []int, k int) line {
	if len(shape) == 0 {
		return line{n: 1, step: 1, lines: 1}
	}
	l := line{n: shape[k], step: count(shape[k+1:])}
	l.lines = count(shape[:k]) * l.step
	return l
}

// at is the first element of line i in a tensor whose lines have n elements.
func (l *line) at(i, n int) int { return i/l.step*l.step*n + i%l.step }

func cumulate(product bool) func(*Call) (Run, error) {
	return func(c *Call) (Run, error) {
		axes, err := c.Value(1)
		if err != nil {
			return nil, err
		}
		k, err := axis(axes[0], c.In[0].rank())
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

func cumulateOf[T number](c *Call, k int, product bool) (Run, error) {
	in, out := c.In[0], c.Out[0]
	l := lineOf(in.Shape, k)
	exclusive, reverse := c.Int("exclusive", 0) != 0, c.Int("reverse", 0) != 0
	part := func(i, _ int) {
		at := l.at(i, l.n)
		d, s := data[T](out), data[T](in)
		sum := T(0)
		if product {
			sum = 1
		}
		for j := range l.n {
			if j&often == 0 {
				c.poll()
			}
			p := at + j*l.step
			if reverse {
				p = at + (l.n-1-j)*l.step
			}
			v := s[p] // before the output, which may lie over it, is written
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

// argBest gives the place of the largest or smallest element along an axis: the
// first, or the last.
func argBest(largest bool) func(*Call) (Run, error) {
	return func(c *Call) (Run, error) {
		in := c.In[0]
		k, err := axis(c.Int("axis", 0), max(in.rank(), 1))
		if err != nil {
			return nil, err
		}
		compare, ok := comparer(in)
		if !ok {
			return nil, unsupported(in.Type)
		}
		last := c.Int("select_last_index", 0) != 0
		better := -1
		if largest {
			better = 1
		}
		l := lineOf(in.Shape, k)
		part := func(i, _ int) {
			at, best := l.at(i, l.n), 0
			for j := 1; j < l.n; j++ {
				if j&often == 0 {
					c.poll()
				}
				if o := compare(at+j*l.step, at+best*l.step); o == better || last && o == 0 {
					best = j
				}
			}
			data[int64](c.Out[0])[i] = int64(best)
		}
		return func(w *work.Pool) error {
			w.For(l.lines, part)
			return nil
		}, nil
	}
}

// comparer gives the order of two elements of a tensor.
func comparer(t *Tensor) (func(i, j int) int, bool) {
	if t.Type == graph.Uint64 {
		return func(i, j int) int { return order(data[uint64](t)[i], data[uint64](t)[j]) }, true
	}
	if get, ok := intReader(t.Type); ok {
		return func(i, j int) int { return order(get(t.At, i), get(t.At, j)) }, true
	}
	get, ok := reader(t.Type)
	return func(i, j int) int { return order(get(t.At, i), get(t.At, j)) }, ok
}

// makeHardmax puts 1 at the first largest element of each line, 0 elsewhere.
func makeHardmax(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	otherwise := -1
	if c.Version < 13 {
		otherwise = 1
	}
	k := c.Int("axis", otherwise)
	if k < 0 {
		k += max(in.rank(), 1)
	}
	var l line
	if c.Version < 13 { // all axes from that one on, which may be none
		k = min(k, in.rank())
		l = line{n: count(in.Shape[k:]), step: 1, lines: count(in.Shape[:k])}
	} else {
		l = lineOf(in.Shape, k)
	}
	get, _ := reader(in.Type)
	set, ok := writer(in.Type)
	if !ok {
		return nil, unsupported(in.Type)
	}
	return func(*work.Pool) error {
		m := meter{c: c}
		for i := range l.lines {
			at, best := l.at(i, l.n), 0
			for j := 1; j < l.n; j++ {
				m.add(1)
				if get(in.At, at+j*l.step) > get(in.At, at+best*l.step) {
					best = j
				}
			}
			for j := range l.n {
				m.add(1)
				v := 0.0
				if j == best {
					v = 1
				}
				set(out.At, at+j*l.step, v)
			}
		}
		return nil
	}, nil
}

// makeTopK gives the k largest or smallest elements along an axis, in order,
// and their places; of equal ones the first comes first.
func makeTopK(c *Call) (Run, error) {
	in, out, places := c.In[0], c.Out[0], c.Out[1]
	a, err := axis(c.Int("axis", -1), in.rank())
	if err != nil {
		return nil, err
	}
	largest := c.Int("largest", 1) != 0
	l := lineOf(in.Shape, a)
	k := out.Shape[a]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	compare, ok := comparer(in)
	if !ok {
		return nil, unsupported(in.Type)
	}
	off := c.Shared(mul(8, l.n))
	return func(w *work.Pool) error {
		list := span[int64](w.Shared(off), l.n)
		m := meter{c: c}
		for i := range l.lines {
			at := l.at(i, l.n)
			for j := range list {
				m.add(1)
				list[j] = int64(j)
			}
			slices.SortStableFunc(list, func(x, y int64) int {
				m.add(8)
				o := compare(at+int(x)*l.step, at+int(y)*l.step)
				if o == unordered {
					o = 0
				}
				if largest {
					o = -o
				}
				return o
			})
			to := l.at(i, k)
			for j := range k {
				m.add(1)
				moveRow(elementAt(out, to+j*l.step, width), elementAt(in, at+int(list[j])*l.step, width), 1, 1, 1, width)
				data[int64](places)[to+j*l.step] = list[j]
			}
		}
		return nil
	}, nil
}
