package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// intList is a list of integers, as far as it is known.
type intList struct {
	elems   []Scalar
	stated  bool // it is given
	counted bool // its length is known and equals len(elems)
}

// ints returns the integers if all are known.
func (l intList) ints() ([]int64, bool) {
	if !l.counted || !allKnown(l.elems) {
		return nil, false
	}
	v := make([]int64, len(l.elems))
	for i, e := range l.elems {
		v[i] = e.I
	}
	return v, true
}

// list reads a list of integers that is an attribute in old opsets and an input
// in new ones. An input of known length whose elements are unknown has hidden
// elements. No attribute: "", no input: -1.
func (c *Call) list(attr string, input int) (intList, error) {
	if a := c.Node.Attr(attr); a != nil && attr != "" {
		if a.Type != graph.AttrInts && a.Type != graph.AttrUndefined {
			return intList{}, c.Errf("attribute %s is of another type, expected a list of integers", attr)
		}
		l := intList{make([]Scalar, len(a.Ints)), true, true}
		for i, v := range a.Ints {
			l.elems[i].I = v
		}
		return l, nil
	}
	if input < 0 || !c.Has(input) {
		return intList{counted: true}, nil
	}
	in := c.In[input]
	if in.Elem != graph.Undefined && !in.Elem.Integer() && !in.Elem.Floating() {
		return intList{}, c.Errf("input %d%s has element type %v, expected integers", input, c.inputName(input), in.Elem)
	}
	switch {
	case in.Ranked && len(in.Shape) > 1:
		return intList{}, c.BadInput(input, "a list (rank 1)")
	case in.Value != nil:
		l := intList{slices.Clone(in.Value.Elems), true, true}
		for i, e := range l.elems {
			var err error
			if l.elems[i], err = c.integer(input, e); err != nil {
				return intList{}, err
			}
		}
		return l, nil
	case !in.Ranked || len(in.Shape) == 1 && (!in.Shape[0].Exact() || in.Shape[0] > FoldLimit):
		return intList{stated: true}, nil
	}
	n := graph.Dim(1)
	if len(in.Shape) == 1 {
		n = in.Shape[0]
	}
	l := intList{make([]Scalar, n), true, true}
	for i := range l.elems {
		l.elems[i].State = Hidden
	}
	return l, nil
}

// scalar returns the only element of a numeric input, of rank 0 or, in some
// opsets, of rank 1.
func (c *Call) scalar(input int) (Scalar, error) {
	in := c.In[input]
	if n, ok := in.Elements(); ok && n != 1 {
		return Scalar{}, c.BadInput(input, "one element")
	}
	if in.Value == nil || len(in.Value.Elems) != 1 {
		return hiddenScalar, nil
	}
	return c.integer(input, in.Value.Elems[0])
}

// integer is an element of an input as an integer, rounded towards zero. NaN, and
// a number that is too large, is an error.
func (c *Call) integer(input int, e Scalar) (Scalar, error) {
	if !c.In[input].Elem.Floating() || e.State != Known {
		return e, nil
	}
	if !(math.Abs(e.F) < 1<<62) {
		return Scalar{}, c.Errf("input %d%s is %v, expected an integer", input, c.inputName(input), e.F)
	}
	return Scalar{I: int64(e.F)}, nil
}

// times is MulDims, but fails if a product of exact lengths overflows. Equal products have
// the same identity.
func (c *Call) times(a, b graph.Dim) (graph.Dim, error) {
	n := MulDims(a, b)
	if n == graph.Unknown && a.Exact() && b.Exact() {
		return 0, c.Errf("length %v × %v: %w", a, b, graph.ErrTooLarge)
	}
	return c.multiplied(n, a, b), nil
}

// product is Product, but fails if a product of exact lengths overflows.
func (c *Call) product(shape []graph.Dim) (graph.Dim, error) {
	n := graph.Dim(1)
	var err error
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	for _, d := range shape {
		if n, err = c.times(n, d); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// span is the shape that remains if all but rank unknown axes are removed: axis k
// was an axis at or after k.
func span(shape []graph.Dim, rank int) []graph.Dim {
	if len(shape) > 64 {
		return unknowns(rank) // no real model has this, and the work is quadratic
	}
	out := make([]graph.Dim, rank)
	for k := range out {
		out[k] = shape[k]
		for _, d := range shape[k : k+len(shape)-rank+1] {
			out[k] = unionDim(out[k], d)
		}
	}
	return out
}

// upTo is a length that is at most d.
func upTo(d graph.Dim) graph.Dim {
	n, ok := d.Max()
	switch {
	case !ok || n == math.MaxInt64: // a bound cannot express it
		return graph.Unknown
	case n == 0:
		return 0
	}
	return graph.AtMost(n)
}

// boundedBy is a length that is at most n and at most d.
func boundedBy(d graph.Dim, n int64) graph.Dim {
	if most, ok := d.Max(); ok {
		n = min(n, most)
	}
	return upTo(graph.Dim(max(n, 0)))
}

// firstView: output 0 is a view of input 0.
func firstView(*Call) []graph.Alias { return []graph.Alias{{Out: 0, In: 0}} }

// viewIfSameSize: output 0 is a view of input 0 if both shapes are exact and have
// equally many elements. It serves operators that only repeat or cut.
func viewIfSameSize(c *Call) []graph.Alias {
	if len(c.Out) == 0 || len(c.In) == 0 {
		return nil
	}
	n, ok := c.Out[0].Elements()
	m, okIn := c.In[0].Elements()
	if ok && okIn && n == m {
		return firstView(c)
	}
	return nil
}

// at is the element of v at an index; hidden if v has none there.
func (v *Value) at(index []int64) Scalar {
	if v == nil || len(index) != len(v.Shape) {
		return hiddenScalar
	}
	place := int64(0)
	for k, i := range index {
		if i < 0 || i >= v.Shape[k] {
			return hiddenScalar
		}
		place = place*v.Shape[k] + i
	}
	if place >= int64(len(v.Elems)) {
		return hiddenScalar
	}
	return v.Elems[place]
}

// fill sets output o to f of each index, unless nothing would be known. f must
// not keep the index.
func (c *Call) fill(o int, f func(index []int64) Scalar) {
	shape, ok := c.outShape(o)
	if !ok {
		return
	}
	out := &Value{Shape: shape, Elems: make([]Scalar, count(shape))}
	index := make([]int64, len(shape))
	known := len(out.Elems) == 0
	for at := range out.Elems {
		out.Elems[at] = f(index)
		known = known || out.Elems[at].State != Hidden
		nextIndex(index, shape)
	}
	if known {
		c.SetValue(o, out)
	}
}

// nextIndex steps to the following index of a shape, the last axis first.
func nextIndex(index, shape []int64) {
	for k := len(index) - 1; k >= 0; k-- {
		if index[k]++; index[k] < shape[k] {
			return
		}
		index[k] = 0
	}
}

// wrapIndex converts an element that is an index, possibly negative, to [0, n);
// false if it is unknown or out of range.
func wrapIndex(e Scalar, n int64) (int64, bool) {
	i := e.I
	if i < 0 {
		i += n
	}
	return i, e.State == Known && i >= 0 && i < n
}

// lineKey identifies the line along an axis that contains an index.
func lineKey(at []int64, axis int) string {
	key := make([]byte, 0, 2*len(at))
	for k, i := range at {
		if k == axis {
			i = 0
		}
		key = append(key, byte(i), byte(i>>8)) // at most FoldLimit
	}
	return string(key)
}
