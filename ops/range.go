package ops

import (
	"math"
	"math/bits"

	"github.com/onnxmem/onnxmem/graph"
)

// inferRange: start, limit (exclusive) and step are scalars of one type.
func inferRange(c *Call) error {
	if err := c.takes(3, 3); err != nil {
		return err
	}
	if err := c.sameElem(0, 1, 2); err != nil {
		return err
	}
	for i, what := range []string{"start", "limit", "delta"} {
		if err := c.needOneElement(i, what); err != nil {
			return err
		}
	}
	n, err := rangeLength(c)
	if err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{n})
	return nil
}

// scalarArg is the only element of input i, hidden if it is not known.
func (c *Call) scalarArg(i int) Scalar {
	if v := c.Arg(i).Value; v != nil && len(v.Elems) == 1 {
		return v.Elems[0]
	}
	return hiddenScalar
}

// rangeLength is the number of elements of a Range: exact if all three inputs are
// known, a bound if some are bounded.
func rangeLength(c *Call) (graph.Dim, error) {
	start, limit, delta := c.scalarArg(0), c.scalarArg(1), c.scalarArg(2)
	elem := c.In[0].Elem
	zero := delta.I == 0
	if elem.Floating() {
		zero = delta.F == 0
	}
	if delta.State == Known && zero {
		return 0, c.Errf("input 2%s, the step, is 0", c.inputName(2))
	}
	if start.State == Hidden || limit.State == Hidden || delta.State == Hidden || zero || !isNumber(elem) {
		return graph.Unknown, nil
	}
	exact := allKnown([]Scalar{start, limit, delta})
	var n int64
	var ok bool
	if elem.Floating() {
		if delta.State != Known {
			return graph.Unknown, nil // the step may be arbitrarily small
		}
		from, to := start.leastReal(), limit.F
		if delta.F < 0 {
			from, to = start.F, limit.leastReal()
		}
		n, ok = realSteps(elem, from, to, delta.F)
	} else {
		step := delta.I
		if delta.State == Bounded {
			step = 1
		}
		from, to := start.least(), limit.I
		if step < 0 {
			from, to = start.I, limit.least()
		}
		n, ok = intSteps(from, to, step)
	}
	switch {
	case !ok:
		return 0, c.Errf("the range from %s to %s by %s has no length that fits 62 bits", start.text(elem), limit.text(elem), delta.text(elem))
	case exact:
		return graph.Dim(n), nil
	case limit.State == Bounded && limit.Of != 0 && !elem.Floating() && start == Scalar{} && delta == Scalar{I: 1}:
		return limit.Dim(), nil // it counts up to that length
	}
	return graph.AtMost(n), nil
}

// intSteps is the number of steps from one integer to another, exclusive.
func intSteps(from, to, step int64) (n int64, ok bool) {
	var way, stride uint64
	switch {
	case step > 0 && from < to:
		way, stride = uint64(to)-uint64(from), uint64(step)
	case step < 0 && from > to:
		way, stride = uint64(from)-uint64(to), -uint64(step)
	default:
		return 0, true
	}
	steps := way / stride
	if way%stride != 0 {
		steps++
	}
	return int64(steps), bits.Len64(steps) < 63
}

// realSteps does the same for reals; their difference is rounded to their type.
func realSteps(elem graph.DType, from, to, step float64) (n int64, ok bool) {
	way, ok := roundReal(elem, to-from)
	steps := math.Ceil(way / step)
	if !ok || !(steps < 1<<62) { // also if it is NaN
		return 0, false
	}
	return int64(max(steps, 0)), true
}

// foldRange computes start + i*delta if both are known.
func foldRange(c *Call) {
	shape, ok := c.outShape(0)
	start, delta := c.scalarArg(0), c.scalarArg(2)
	if !ok || len(shape) != 1 || start.State != Known || delta.State != Known {
		return
	}
	elem := c.In[0].Elem
	out := &Value{Shape: shape, Elems: make([]Scalar, shape[0])}
	for i := range out.Elems {
		if elem.Floating() {
			out.Elems[i] = realRange(elem, start.F+float64(i)*delta.F, start.F+float64(i)*delta.F)
		} else {
			out.Elems[i] = wrapInt(elem, start.I+int64(i)*delta.I)
		}
	}
	c.SetValue(0, out)
}
