package kernel

import (
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// selections lists the operators that select elements, or find their indices, by value.
// The number of selected elements is known only at run time.
var selections = family{"", []Kernel{
	{Name: "NonZero", Make: makeNonZero, Half: true, Finds: true},
	{Name: "Compress", Make: makeCompress, Half: true, Finds: true},
	{Name: "OneHot", Make: makeOneHot, Half: true},
	{Name: "TopK", Make: makeTopK},
	{Name: "ArgMax", Make: argBest(true)},
	{Name: "ArgMin", Make: argBest(false)},
}}

// makeNonZero lists the coordinates of all elements that are not 0, axis by axis.
func makeNonZero(c *Invocation) (Run, error) {
	in := c.In[0]
	get, ok := reader(in.Type)
	if !ok {
		return nil, unsupported(in.Type)
	}
	return func(*work.Pool) error {
		n, found := in.Len(), 0
		for i := range n {
			if i&often == 0 {
				c.poll()
			}
			if get(in.At, i) != 0 {
				found++
			}
		}
		if err := c.Runtime.Resize(0, []int{in.rank(), found}); err != nil {
			return err
		}
		d := data[int64](c.Out[0])
		k := 0
		for i := range n {
			if i&often == 0 {
				c.poll()
			}
			if get(in.At, i) == 0 {
				continue
			}
			rest := i
			for a := in.rank() - 1; a >= 0; a-- {
				d[a*found+k] = int64(rest % in.Shape[a])
				rest /= in.Shape[a]
			}
			k++
		}
		return nil
	}, nil
}

// makeCompress keeps the slices along an axis, or the elements, for which the condition
// is true.
func makeCompress(c *Invocation) (Run, error) {
	in, cond := c.In[0], c.In[1]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	outer, n, inner := 1, in.Len(), width
	k := -1
	if a := c.Node.Attr("axis"); a != nil {
		if k, err = attr.Axis("axis", a.Int, in.rank()); err != nil {
			return nil, err
		}
		outer, n, inner = count(in.Shape[:k]), in.Shape[k], count(in.Shape[k+1:])*width
	}
	return func(*work.Pool) error {
		keep := data[uint8](cond)
		keep = keep[:min(len(keep), n)]
		found := 0
		for from, to := range c.pieces(len(keep)) {
			for _, b := range keep[from:to] {
				if b != 0 {
					found++
				}
			}
		}
		shape := []int{found}
		if k >= 0 {
			shape = slices.Clone(in.Shape)
			shape[k] = found
		}
		if err := c.Runtime.Resize(0, shape); err != nil {
			return err
		}
		if c.Out[0].Len() == 0 {
			return nil // there may be very many lines without elements
		}
		to := 0
		m := meter{c: c}
		for o := range outer {
			for i, b := range keep {
				m.add(1)
				if b != 0 {
					m.add(inner)
					copyAll(c, span[byte](unsafe.Add(c.Out[0].At, to), inner), span[byte](unsafe.Add(in.At, (o*n+i)*inner), inner))
					to += inner
				}
			}
		}
		return nil
	}, nil
}

// makeOneHot writes the second of two values at each index, and the first elsewhere.
func makeOneHot(c *Invocation) (Run, error) {
	index, values, out := c.In[0], c.In[2], c.Out[0]
	k, err := c.axis(-1, out.rank())
	if err != nil {
		return nil, err
	}
	width, err := wholeBytes(out)
	if err != nil {
		return nil, err
	}
	get, ok := reader(index.Type)
	if !ok {
		return nil, unsupported(index.Type)
	}
	depth, inner := out.Shape[k], count(out.Shape[k+1:])
	return func(*work.Pool) error {
		for from, to := range c.pieces(out.Len()) {
			moveRow(unsafe.Add(out.At, from*width), values.At, to-from, 1, 0, width)
		}
		for i := range index.Len() {
			if i&often == 0 {
				c.poll()
			}
			v := math.Trunc(get(index.At, i)) // exact for every valid index
			if v < 0 {
				v += float64(depth)
			}
			if !(v >= 0 && v < float64(depth)) { // out of range, or NaN
				continue
			}
			at := (i/inner*depth+int(v))*inner + i%inner
			moveRow(unsafe.Add(out.At, at*width), unsafe.Add(values.At, width), 1, 1, 1, width)
		}
		return nil
	}, nil
}

// argBest finds the index of the largest or smallest element along an axis. Of equal
// elements it takes the first, or the last (attribute select_last_index).
func argBest(largest bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		in := c.In[0]
		k, err := c.axis(0, max(in.rank(), 1))
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

// comparer returns a function that compares two elements of a tensor.
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

// makeTopK finds the k largest or smallest elements along an axis, in order, and their
// indices. Equal elements keep their order.
func makeTopK(c *Invocation) (Run, error) {
	in, out, places := c.In[0], c.Out[0], c.Out[1]
	a, err := c.axis(-1, in.rank())
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
