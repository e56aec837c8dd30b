package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// indexing reads or writes elements at given places.
var indexing = family{"", []Kernel{
	{Name: "Gather", Make: makeGather, Half: true},
	{Name: "GatherElements", Make: makeGatherElements, Half: true},
	{Name: "GatherND", Make: makeGatherND, Half: true},
	{Name: "Scatter", Make: makeScatterElements},
	{Name: "ScatterElements", Make: makeScatterElements},
	{Name: "ScatterND", Make: makeScatterND},
	{Name: "TensorScatter", Make: makeTensorScatter, Half: true},
	{Name: "OneHot", Make: makeOneHot, Half: true},
	{Name: "Where", Make: makeWhere, Half: true},
}}

// indexReader reads an index and brings it into [0, n).
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

// badIndex says that element i of some indices lies outside an axis of length n.
func badIndex(t *Tensor, i, n int) error {
	v, _ := intReader(t.Type)
	return fmt.Errorf("index %d (element %d of the indices): expected one in [%d, %d)", v(t.At, i), i, -n, n)
}

// checkIndices fails at the first index that lies outside.
func checkIndices(c *Call, t *Tensor, n int) error {
	get, err := indexReader(t)
	if err != nil {
		return err
	}
	for i := range t.Len() {
		if i&often == 0 {
			c.poll()
		}
		if _, ok := get(i, n); !ok {
			return badIndex(t, i, n)
		}
	}
	return nil
}

// makeGather copies, for each index, what lies there along an axis.
func makeGather(c *Call) (Run, error) {
	in, index, out := c.In[0], c.In[1], c.Out[0]
	k, err := axis(c.Int("axis", 0), in.rank())
	if err != nil {
		return nil, err
	}
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	get, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	n, inner, outer, many := in.Shape[k], count(in.Shape[k+1:])*width, count(in.Shape[:k]), index.Len()
	rows := outer * many
	group := max(1, 4*grain/max(inner, 1))
	part := func(p, _ int) {
		for r := p * group; r < min((p+1)*group, rows); r++ {
			i, _ := get(r%many, n)
			c.copy(span[byte](unsafe.Add(out.At, r*inner), inner), span[byte](unsafe.Add(in.At, (r/many*n+i)*inner), inner))
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

// makeGatherElements takes for each element of the output the one at its place,
// but along an axis at its index.
func makeGatherElements(c *Call) (Run, error) {
	in, index, out := c.In[0], c.In[1], c.Out[0]
	k, err := axis(c.Int("axis", 0), in.rank())
	if err != nil {
		return nil, err
	}
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	get, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	s := strides(in.Shape)
	return func(*work.Pool) error {
		for i := range out.Len() {
			if i&often == 0 {
				c.poll()
			}
			at, ok := get(i, in.Shape[k])
			if !ok {
				return badIndex(index, i, in.Shape[k])
			}
			off := elsewhere(i, index.Shape, s, k, at)
			moveRow(unsafe.Add(out.At, i*width), unsafe.Add(in.At, off*width), 1, 1, 1, width)
		}
		return nil
	}, nil
}

// elsewhere is where element i of a shape lies in another tensor, but at place
// at along an axis.
func elsewhere(i int, shape, strides []int, k, at int) int {
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

// tupleReader gives the element of in that tuple i of the indices names, behind
// batch leading axes.
func tupleReader(in, index *Tensor, batch int) (depth int, at func(i int) (int, error), err error) {
	get, err := indexReader(index)
	if err != nil {
		return 0, nil, err
	}
	depth = index.Shape[index.rank()-1]
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

func makeGatherND(c *Call) (Run, error) {
	in, index, out := c.In[0], c.In[1], c.Out[0]
	width, err := wholeBytes(in)
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
		m := meter{c: c}
		for i := range tuples {
			m.add(inner)
			off, err := at(i)
			if err != nil {
				return err
			}
			off += i / (tuples / batches) * whole
			c.copy(span[byte](unsafe.Add(out.At, i*inner*width), inner*width), span[byte](unsafe.Add(in.At, off*width), inner*width))
		}
		return nil
	}, nil
}

// scatterJoin writes an update: it replaces, or is added, multiplied, or the
// lesser or greater stays.
type scatterJoin func(to, from unsafe.Pointer)

func joinOf(c *Call, width int) (scatterJoin, error) {
	switch c.Str("reduction", "none") {
	case "none":
		return func(to, from unsafe.Pointer) { moveRow(to, from, 1, 1, 1, width) }, nil
	case "add":
		return arithmeticJoin(c, 0)
	case "mul":
		return arithmeticJoin(c, 1)
	case "min":
		return arithmeticJoin(c, 2)
	case "max":
		return arithmeticJoin(c, 3)
	}
	return nil, unsupportedf("reduction %q", c.Str("reduction", "none"))
}

func arithmeticJoin(c *Call, kind int) (scatterJoin, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return joinAs[float32](kind), nil
	case graph.Float64:
		return joinAs[float64](kind), nil
	case graph.Int64:
		return joinAs[int64](kind), nil
	case graph.Int32:
		return joinAs[int32](kind), nil
	case graph.Uint8:
		return joinAs[uint8](kind), nil
	case graph.Int8:
		return joinAs[int8](kind), nil
	}
	return nil, unsupported(c.In[0].Type)
}

func joinAs[T number](kind int) scatterJoin {
	return func(to, from unsafe.Pointer) {
		d, s := (*T)(to), *(*T)(from)
		switch kind {
		case 0:
			*d += s
		case 1:
			*d *= s
		case 2:
			*d = min(*d, s)
		default:
			*d = max(*d, s)
		}
	}
}

// copyFirst copies input 0 to the output unless it lies over it.
func copyFirst(c *Call) {
	if c.Out[0].At != c.In[0].At {
		c.copy(raw(c.Out[0]), raw(c.In[0]))
	}
}

func makeScatterElements(c *Call) (Run, error) {
	out, index, updates := c.Out[0], c.In[1], c.In[2]
	k, err := axis(c.Int("axis", 0), out.rank())
	if err != nil {
		return nil, err
	}
	width, err := wholeBytes(out)
	if err != nil {
		return nil, err
	}
	join, err := joinOf(c, width)
	if err != nil {
		return nil, err
	}
	get, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	s := strides(out.Shape)
	return func(*work.Pool) error {
		copyFirst(c)
		for i := range index.Len() {
			if i&often == 0 {
				c.poll()
			}
			at, ok := get(i, out.Shape[k])
			if !ok {
				return badIndex(index, i, out.Shape[k])
			}
			join(unsafe.Add(out.At, elsewhere(i, index.Shape, s, k, at)*width), unsafe.Add(updates.At, i*width))
		}
		return nil
	}, nil
}

func makeScatterND(c *Call) (Run, error) {
	out, index, updates := c.Out[0], c.In[1], c.In[2]
	width, err := wholeBytes(out)
	if err != nil {
		return nil, err
	}
	join, err := joinOf(c, width)
	if err != nil {
		return nil, err
	}
	depth, at, err := tupleReader(out, index, 0)
	if err != nil {
		return nil, err
	}
	inner := count(out.Shape[depth:])
	tuples := index.Len() / depth
	return func(*work.Pool) error {
		copyFirst(c)
		m := meter{c: c}
		for i := range tuples {
			m.add(depth)
			off, err := at(i)
			if err != nil {
				return err
			}
			for j := range inner {
				m.add(1)
				join(unsafe.Add(out.At, (off+j)*width), unsafe.Add(updates.At, (i*inner+j)*width))
			}
		}
		return nil
	}, nil
}

// makeOneHot writes the second of two values where an index points, the first
// elsewhere.
func makeOneHot(c *Call) (Run, error) {
	index, values, out := c.In[0], c.In[2], c.Out[0]
	k, err := axis(c.Int("axis", -1), out.rank())
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
			v := math.Trunc(get(index.At, i)) // exact where it can point at a place
			if v < 0 {
				v += float64(depth)
			}
			if !(v >= 0 && v < float64(depth)) { // or it is NaN
				continue
			}
			at := (i/inner*depth+int(v))*inner + i%inner
			moveRow(unsafe.Add(out.At, at*width), unsafe.Add(values.At, width), 1, 1, 1, width)
		}
		return nil
	}, nil
}

// makeWhere takes input 1 or 2, as the condition says.
func makeWhere(c *Call) (Run, error) {
	switch c.Out[0].width() {
	case 1:
		return where[uint8](c)
	case 2:
		return where[uint16](c)
	case 4:
		return where[uint32](c)
	case 8:
		return where[uint64](c)
	}
	return nil, unsupported(c.Out[0].Type)
}

func where[T any](c *Call) (Run, error) {
	cond, x, y, out := c.In[0], c.In[1], c.In[2], c.Out[0]
	s, err := newSweep(out.Shape, cond.Shape, x.Shape, y.Shape)
	if err != nil {
		return nil, err
	}
	return s.each(func(row, from, to, _ int) {
		d := span[T](element[T](out, row*s.n+from), to-from)
		p := unsafe.Add(cond.At, s.at(row, 0)+from*s.inner[0])
		a, b := element[T](x, s.at(row, 1)+from*s.inner[1]), element[T](y, s.at(row, 2)+from*s.inner[2])
		var zero T
		size := int(unsafe.Sizeof(zero))
		for i := range d {
			if *(*uint8)(unsafe.Add(p, i*s.inner[0])) != 0 {
				d[i] = *(*T)(unsafe.Add(a, i*s.inner[1]*size))
			} else {
				d[i] = *(*T)(unsafe.Add(b, i*s.inner[2]*size))
			}
		}
	}), nil
}

// makeTensorScatter writes new places of a cache over old ones, in each element
// of the batch from a place of its own on.
func makeTensorScatter(c *Call) (Run, error) {
	past, update, out := c.In[0], c.In[1], c.Out[0]
	width, err := wholeBytes(past)
	if err != nil {
		return nil, err
	}
	k, err := axis(c.Int("axis", -2), past.rank())
	if err != nil {
		return nil, err
	}
	length, fresh := past.Shape[k], update.Shape[k]
	inner := count(past.Shape[k+1:]) * width
	outer := count(past.Shape[1:k])
	circular := c.Str("mode", "linear") == "circular"
	return func(*work.Pool) error {
		copyFirst(c)
		m := meter{c: c}
		for p := range past.Shape[0] * outer {
			first := 0
			if c.Has(2) {
				first = int(data[int64](c.In[2])[p/outer])
			}
			if circular {
				first = (first%length + length) % length
			} else if first < 0 || first > length-fresh {
				return fmt.Errorf("write index %d (element %d): expected one in [0, %d], so that %d places fit a cache of %d", first, p/outer, length-fresh, fresh, length)
			}
			for i := range fresh {
				m.add(inner)
				at := (first + i) % length
				c.copy(raw(out)[(p*length+at)*inner:][:inner], raw(update)[(p*fresh+i)*inner:])
			}
		}
		return nil
	}, nil
}
