package autodiff

import "slices"

// sliceRules cover operators that take a part of a tensor, possibly with steps.
var sliceRules = []Rule{
	{Op: "Slice", Inputs: []int{0}, Forwards: true, Grad: sliceGrad},
}

// sliceGrad puts the gradient back among zeros. With a step, zeros are first
// inserted between its elements; with a negative step it is reversed before that.
func sliceGrad(c *Backward) {
	shape := c.shape(c.X(0))
	starts := c.Lengths(1)
	over, steps := axes(0, len(starts)), filled(1, len(starts))
	if c.present(c.X(3)) {
		over = c.Axes(3, 0)
	}
	if c.present(c.X(4)) {
		steps = c.Lengths(4)
	}
	if c.err != nil {
		return
	}
	d := c.D(0)
	before, after := make([]int64, len(shape)), make([]int64, len(shape))
	pad := false
	for k, a := range over {
		n, step := shape[a], steps[k]
		count := c.shape(d)[a]
		if count == 0 {
			c.Set(0, c.zeros(c.X(0), shape...))
			return
		}
		first := clampStart(starts[k], n, step)
		if step < 0 {
			d = c.op("Slice", d, c.list(-1), c.list(minInt64), c.list(a), c.list(-1))
			first += (count - 1) * step
			step = -step
		}
		if step > 1 {
			d = c.spread(d, a, step)
		}
		span := (count-1)*step + 1
		before[a], after[a] = first, n-first-span
		pad = pad || before[a] != 0 || after[a] != 0
	}
	if pad {
		d = c.op("Pad", d, c.list(concat(before, after)...))
	}
	c.Set(0, d)
}

const minInt64 = -1 << 63

// clampStart is the first index of a slice (specification of Slice).
func clampStart(start, n, step int64) int64 {
	if start < 0 {
		start += n
	}
	if step < 0 {
		return min(max(start, 0), n-1)
	}
	return min(max(start, 0), n)
}

// spread inserts step-1 zeros between neighbours along an axis.
func (e *emitter) spread(t ID, axis, step int64) ID {
	shape := e.shape(t)
	inner := slices.Insert(slices.Clone(shape), int(axis)+1, 1)
	pads := make([]int64, 2*len(inner))
	pads[len(inner)+int(axis)+1] = step - 1
	wide := slices.Clone(shape)
	wide[axis] *= step
	t = e.reshape(e.op("Pad", e.reshape(t, inner), e.list(pads...)), wide)
	return e.slice(t, []int64{axis}, []int64{0}, []int64{wide[axis] - step + 1})
}
