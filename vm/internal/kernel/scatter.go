package kernel

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// scattering lists the operators that write elements at given indices.
var scattering = family{"", []Kernel{
	{Name: "Scatter", Make: makeScatterElements},
	{Name: "ScatterElements", Make: makeScatterElements},
	{Name: "ScatterND", Make: makeScatterND},
	{Name: "TensorScatter", Make: makeTensorScatter, Half: true, Moves: true},
}}

// scatterJoin combines an update with an element: it replaces the element, or stores
// their sum, product, minimum or maximum.
type scatterJoin func(to, from unsafe.Pointer)

func joinOf(c *Invocation, width int) (scatterJoin, error) {
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

func arithmeticJoin(c *Invocation, kind int) (scatterJoin, error) {
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
		case 2: // as in ONNX Runtime, NaN gives way to a number, and a number to NaN
			if !(*d < s) {
				*d = s
			}
		default:
			if !(*d > s) {
				*d = s
			}
		}
	}
}

// copyFirst copies input 0 to the output, unless both have the same address.
func copyFirst(c *Invocation) {
	if c.Out[0].At != c.In[0].At {
		copyAll(c, raw(c.Out[0]), raw(c.In[0]))
	}
}

func makeScatterElements(c *Invocation) (Run, error) {
	out, index, updates := c.Out[0], c.In[1], c.In[2]
	k, err := c.Axis(0, out.Rank())
	if err != nil {
		return nil, err
	}
	width, err := form.WholeBytes(out)
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
	if out.Type == graph.Float32 && k == out.Rank()-1 && c.Str("reduction", "none") == "add" && index.Len() > 0 {
		if index.Type == graph.Int32 {
			return addAlong[int32](c), nil
		}
		return addAlong[int64](c), nil
	}
	row := plainScatter(c, width)
	if row == nil || out.Rank() == 0 {
		row = func(base, first, n, step, own int) int {
			for i := range n {
				at, ok := get(first+i, out.Shape[k])
				if !ok {
					return i
				}
				join(unsafe.Add(out.At, (base+at*step+i*own)*width), unsafe.Add(updates.At, (first+i)*width))
			}
			return n
		}
	}
	n, step, own := 1, 0, 0 // of a scalar
	if rank := out.Rank(); rank > 0 {
		n, step = index.Shape[rank-1], s[k]
		if k < rank-1 {
			own = 1
		}
	}
	return func(*work.Pool) error {
		copyFirst(c)
		m := c.Meter()
		for first := 0; first < index.Len(); first += n {
			base := replacedOffset(first, index.Shape, s, k, 0)
			for from := 0; from < n; {
				to := m.Next(from, n)
				if i := from + row(base+from*own, first+from, to-from, step, own); i < to {
					return badIndex(index, first+i, out.Shape[k])
				}
				from = to
			}
		}
		return nil
	}, nil
}

// scatterRow writes the updates [first, first+n), which lie along the last axis. An update goes to
// the element at base, step times its index further, and own times its place among them. It
// returns the place of the first index that is out of range, or n.
type scatterRow func(base, first, n, step, own int) int

// plainScatter returns the loops of ScatterElements that replace elements, or add float32; nil if
// the node does other things.
func plainScatter(c *Invocation, width int) scatterRow {
	switch reduction := c.Str("reduction", "none"); {
	case reduction == "none" && width == 1:
		return scatterOf(c, replaces[uint8])
	case reduction == "none" && width == 2:
		return scatterOf(c, replaces[uint16])
	case reduction == "none" && width == 4:
		return scatterOf(c, replaces[uint32])
	case reduction == "none" && width == 8:
		return scatterOf(c, replaces[uint64])
	case reduction == "add" && c.In[0].Type == graph.Float32:
		return scatterOf(c, func(d *float32, s float32) { *d += s })
	}
	return nil
}

func replaces[T any](d *T, s T) { *d = s }

func scatterOf[T any](c *Invocation, join func(d *T, s T)) scatterRow {
	if c.In[1].Type == graph.Int32 {
		return scatterBy[int32](c, join)
	}
	return scatterBy[int64](c, join)
}

func scatterBy[I int32 | int64, T any](c *Invocation, join func(d *T, s T)) scatterRow {
	k, _ := c.Axis(0, c.Out[0].Rank())
	return func(base, first, n, step, own int) int {
		length := c.Out[0].Shape[k]
		d := span[T](element[T](c.Out[0], base), c.Out[0].Len()-base)
		s := span[T](element[T](c.In[2], first), n)
		for i, at := range span[I](element[I](c.In[1], first), n) {
			at := int(at)
			if at < 0 {
				at += length
			}
			if uint(at) >= uint(length) {
				return i
			}
			join(&d[at*step+i*own], s[i])
		}
		return n
	}
}

// addAlong makes the kernel of ScatterElements that adds float32 along the last axis, as
// gradients of maxima do. Each row of the indices is one part, as rows of the output share
// no element.
func addAlong[I int32 | int64](c *Invocation) Run {
	out, index, updates := c.Out[0], c.In[1], c.In[2]
	k, s := out.Rank()-1, strides(out.Shape)
	n, length := index.Shape[k], out.Shape[k]
	var wrong atomic.Int64 // the first index that is out of range, or how many there are
	part := func(row, _ int) {
		d := span[float32](element[float32](out, replacedOffset(row*n, index.Shape, s, k, 0)), length)
		for from, to := range c.Pieces(n) {
			list := span[float32](element[float32](updates, row*n), n)[from:to]
			for i, at := range span[I](element[I](index, row*n), n)[from:to] {
				if at < 0 {
					at += I(length)
				}
				if uint(at) >= uint(length) {
					for i, first := int64(row*n+from+i), wrong.Load(); i < first && !wrong.CompareAndSwap(first, i); first = wrong.Load() {
					}
					return
				}
				d[at] += list[i]
			}
		}
	}
	return func(w *work.Pool) error {
		copyFirst(c)
		wrong.Store(int64(index.Len()))
		w.For(index.Len()/n, part)
		if i := int(wrong.Load()); i < index.Len() {
			return badIndex(index, i, length)
		}
		return nil
	}
}

func makeScatterND(c *Invocation) (Run, error) {
	out, index, updates := c.Out[0], c.In[1], c.In[2]
	width, err := form.WholeBytes(out)
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
	replaces := c.Str("reduction", "none") == "none"
	return func(*work.Pool) error {
		copyFirst(c)
		m := c.Meter()
		for i := range tuples {
			m.Add(depth)
			off, err := at(i)
			if err != nil {
				return err
			}
			if replaces {
				copyAll(c, span[byte](unsafe.Add(out.At, off*width), inner*width), span[byte](unsafe.Add(updates.At, i*inner*width), inner*width))
				continue
			}
			for j := range inner {
				m.Add(1)
				join(unsafe.Add(out.At, (off+j)*width), unsafe.Add(updates.At, (i*inner+j)*width))
			}
		}
		return nil
	}, nil
}

// makeTensorScatter writes new positions of a cache over old ones. Each batch element
// has its own first position.
func makeTensorScatter(c *Invocation) (Run, error) {
	past, update, out := c.In[0], c.In[1], c.Out[0]
	width, err := form.WholeBytes(past)
	if err != nil {
		return nil, err
	}
	k, err := c.Axis(-2, past.Rank())
	if err != nil {
		return nil, err
	}
	length, fresh := past.Shape[k], update.Shape[k]
	inner := count(past.Shape[k+1:]) * width
	outer := count(past.Shape[1:k])
	circular := c.Str("mode", "linear") == "circular"
	return func(*work.Pool) error {
		copyFirst(c)
		m := c.Meter()
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
				m.Add(inner)
				at := (first + i) % length
				copyAll(c, raw(out)[(p*length+at)*inner:][:inner], raw(update)[(p*fresh+i)*inner:])
			}
		}
		return nil
	}, nil
}
