package kernel

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// indexing lists the operators that read elements at given indices.
var indexing = family{"", []Kernel{
	{Name: "Gather", Make: makeGather, Half: true, Moves: true},
	{Name: "GatherElements", Make: makeGatherElements, Half: true, Moves: true},
	{Name: "GatherND", Make: makeGatherND, Half: true, Moves: true},
	{Name: "ReverseSequence", Make: makeReverseSequence, Half: true, Moves: true},
}}

// indexReader returns a function that reads index i, which may count from the end,
// and converts it to [0, n). It returns false for an index out of range.
func indexReader(t *Tensor) (func(i, n int) (int, bool), error) {
	at := func(v, n int) (int, bool) {
		if v < 0 {
			v += n
		}
		return v, v >= 0 && v < n
	}
	switch t.Type {
	case graph.Int64:
		return func(i, n int) (int, bool) { return at(int(*(*int64)(unsafe.Add(t.At, 8*i))), n) }, nil
	case graph.Int32:
		return func(i, n int) (int, bool) { return at(int(*(*int32)(unsafe.Add(t.At, 4*i))), n) }, nil
	}
	return nil, unsupported(t.Type)
}

// badIndex is the error for element i of the indices, which lies outside an axis of
// length n.
func badIndex(t *Tensor, i, n int) error {
	v, _ := form.IntReader(t.Type)
	return fmt.Errorf("index %d (element %d of the indices): expected one in [%d, %d)", v(t.At, i), i, -n, n)
}

// checkIndices fails at the first index that is out of range.
func checkIndices(c *Invocation, t *Tensor, n int) error {
	get, err := indexReader(t)
	if err != nil {
		return err
	}
	for i := range t.Len() {
		if i&form.Often == 0 {
			c.Poll()
		}
		if _, ok := get(i, n); !ok {
			return badIndex(t, i, n)
		}
	}
	return nil
}

// gatherArgs returns the axis, the bytes of an element and the index reader of a
// Gather or GatherElements.
func gatherArgs(c *Invocation) (k, width int, get func(i, n int) (int, bool), err error) {
	if k, err = c.Axis(0, c.In[0].Rank()); err != nil {
		return 0, 0, nil, err
	}
	if width, err = form.WholeBytes(c.In[0]); err != nil {
		return 0, 0, nil, err
	}
	get, err = indexReader(c.In[1])
	return k, width, get, err
}

// makeGather copies the slice at each index along an axis.
func makeGather(c *Invocation) (Run, error) {
	in, index, out := c.In[0], c.In[1], c.Out[0]
	k, width, get, err := gatherArgs(c)
	if err != nil {
		return nil, err
	}
	n, inner, outer, many := in.Shape[k], count(in.Shape[k+1:])*width, count(in.Shape[:k]), index.Len()
	rows := outer * many
	group := max(1, 4*grain/max(inner, 1))
	part := func(p, _ int) {
		for r := p * group; r < min((p+1)*group, rows); r++ {
			i, _ := get(r%many, n)
			copyAll(c, span[byte](unsafe.Add(out.At, r*inner), inner), span[byte](unsafe.Add(in.At, (r/many*n+i)*inner), inner))
		}
	}
	return func(w *work.Pool) error {
		if err := checkIndices(c, index, n); err != nil {
			return err
		}
		w.For(cuts(rows, group), part)
		return nil
	}, nil
}

// makeGatherElements copies, for each output element, the input element at the same
// coordinates, except for the coordinate along an axis, which is the index.
func makeGatherElements(c *Invocation) (Run, error) {
	in, index, out := c.In[0], c.In[1], c.Out[0]
	k, width, get, err := gatherArgs(c)
	if err != nil {
		return nil, err
	}
	s := strides(in.Shape)
	row := gatheringRow(in, index, out, width, get)
	return func(*work.Pool) error {
		last := len(s) - 1
		n := index.Shape[last]
		each, per := s[k], 1 // elements from one index to the next, and from one place of a row to the next
		if k == last {
			per = 0
		}
		for i := 0; i < out.Len(); i += n {
			base := replacedOffset(i, index.Shape, s, k, 0)
			for from := 0; from < n; from += form.Often {
				c.Poll()
				m := min(form.Often, n-from)
				if bad := row(i+from, m, base+from*per, in.Shape[k], per, each); bad < m {
					return badIndex(index, i+from+bad, in.Shape[k])
				}
			}
		}
		return nil
	}, nil
}

// gatheringRow returns the loop of GatherElements over m outputs of a row, from output i on.
// From the place base in the input on, they are per elements apart, and the indices, below n,
// count steps of each elements. It returns the number of outputs before the first bad index.
func gatheringRow(in, index, out *Tensor, width int, get func(i, n int) (int, bool)) func(i, m, base, n, per, each int) int {
	switch wide := index.Type == graph.Int64; {
	case wide && width == 4:
		return gatherRow[int64, uint32](in, index, out)
	case wide && width == 8:
		return gatherRow[int64, uint64](in, index, out)
	case !wide && width == 4:
		return gatherRow[int32, uint32](in, index, out)
	case !wide && width == 8:
		return gatherRow[int32, uint64](in, index, out)
	}
	return func(i, m, base, n, per, each int) int {
		for j := range m {
			at, ok := get(i+j, n)
			if !ok {
				return j
			}
			copy(span[byte](unsafe.Add(out.At, (i+j)*width), width), span[byte](unsafe.Add(in.At, (base+j*per+at*each)*width), width))
		}
		return m
	}
}

func gatherRow[I int64 | int32, E uint64 | uint32](in, index, out *Tensor) func(i, m, base, n, per, each int) int {
	return func(i, m, base, n, per, each int) int {
		from, places, to := span[E](in.At, in.Len()), span[I](element[I](index, i), m), span[E](element[E](out, i), m)
		for j, place := range places {
			at := int(place)
			if at < 0 {
				at += n
			}
			if at < 0 || at >= n {
				return j
			}
			to[j] = from[base+j*per+at*each]
		}
		return m
	}
}

// makeReverseSequence turns round the first elements of each sequence, as many as its
// length says.
func makeReverseSequence(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	if c.In[1].Type != graph.Int64 {
		return nil, unsupported(c.In[1].Type)
	}
	batch := c.Int("batch_axis", 1)
	long, columns, inner := in.Shape[1-batch], in.Shape[1], count(in.Shape[2:])*width
	rows := in.Shape[0] * columns
	group := max(1, 4*grain/max(inner, 1))
	part := func(p, _ int) {
		lengths := data[int64](c.In[1])
		for r := p * group; r < min((p+1)*group, rows); r++ {
			at := [2]int{r / columns, r % columns}
			if n := int(lengths[at[batch]]); at[1-batch] < n {
				at[1-batch] = n - 1 - at[1-batch]
			}
			copyAll(c, span[byte](unsafe.Add(out.At, r*inner), inner), span[byte](unsafe.Add(in.At, (at[0]*columns+at[1])*inner), inner))
		}
	}
	return func(w *work.Pool) error {
		for i, n := range data[int64](c.In[1]) {
			if i&form.Often == 0 {
				c.Poll()
			}
			if n < 0 || n > int64(long) {
				return fmt.Errorf("sequence %d has length %d, expected one in [0, %d]", i, n, long)
			}
		}
		w.For(cuts(rows, group), part)
		return nil
	}, nil
}

// replacedOffset is the offset, in a tensor with the given strides, of the coordinates
// of element i of a shape, with coordinate k replaced by at.
func replacedOffset(i int, shape, strides []int, k, at int) int {
	off := 0
	for a := len(shape) - 1; a >= 0; a-- {
		p := i % shape[a]
		i /= shape[a]
		if a == k {
			p = at
		}
		off += p * strides[a]
	}
	return off
}

// tupleReader returns a function that converts index tuple i to an offset in in, after
// batch leading axes. depth is the length of a tuple.
func tupleReader(in, index *Tensor, batch int) (depth int, at func(i int) (int, error), err error) {
	get, err := indexReader(index)
	if err != nil {
		return 0, nil, err
	}
	depth = index.Shape[index.Rank()-1]
	s := strides(in.Shape)
	return depth, func(i int) (int, error) {
		off := 0
		for a := range depth {
			n := in.Shape[batch+a]
			v, ok := get(i*depth+a, n)
			if !ok {
				return 0, badIndex(index, i*depth+a, n)
			}
			off += v * s[batch+a]
		}
		return off, nil
	}, nil
}

func makeGatherND(c *Invocation) (Run, error) {
	in, index, out := c.In[0], c.In[1], c.Out[0]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	batch := c.Int("batch_dims", 0)
	depth, at, err := tupleReader(in, index, batch)
	if err != nil {
		return nil, err
	}
	inner := count(in.Shape[batch+depth:])
	tuples := index.Len() / depth
	batches := count(index.Shape[:batch])
	whole := count(in.Shape[batch:])
	return func(*work.Pool) error {
		m := c.Meter()
		for i := range tuples {
			m.Add(inner)
			off, err := at(i)
			if err != nil {
				return err
			}
			off += i / (tuples / batches) * whole
			copyAll(c, span[byte](unsafe.Add(out.At, i*inner*width), inner*width), span[byte](unsafe.Add(in.At, off*width), inner*width))
		}
		return nil
	}, nil
}
