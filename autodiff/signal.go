package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// signalRules cover transforms of signals, and the weights of filters.
var signalRules = []Rule{
	{Op: "DFT", Inputs: []int{0}, Grad: dftGrad},
	{Op: "STFT", Inputs: []int{0, 2}, Grad: stftGrad},
	{Op: "MelWeightMatrix", Inputs: none}, // the frequencies are rounded to bins
}

// transform is a DFT along an axis, of complex numbers, to as many.
func (c *Backward) transform(t ID, axis int, inverse int) ID {
	if c.version >= 20 {
		return c.with("DFT", attrs{"inverse": inverse}, t, graph.None, c.index(int64(axis)))
	}
	return c.with("DFT", attrs{"inverse": inverse, "axis": axis}, t)
}

// resized cuts t along an axis, or adds zeros behind it.
func (c *Backward) resized(t ID, axis int, n int64) ID {
	shape := c.shape(t)
	if c.err != nil || shape[axis] == n {
		return t
	}
	if shape[axis] > n {
		return c.slice(t, []int64{int64(axis)}, []int64{0}, []int64{n})
	}
	pads := make([]int64, 2*len(shape))
	pads[len(shape)+axis] = n - shape[axis]
	return c.op("Pad", t, c.list(pads...))
}

// adjoint is the gradient of a transform to n numbers along an axis, given that of the
// result: the transform with the other sign, not divided by n where the forward one
// divides, and the other way round. If the result has half of the spectrum, the other half
// has no gradient.
func (c *Backward) adjoint(d ID, axis int, n int64, inverse bool) ID {
	d = c.resized(d, axis, n)
	if inverse {
		return c.times(c.transform(d, axis, 0), 1/float64(n))
	}
	return c.times(c.transform(d, axis, 1), float64(n))
}

// dftGrad: what the transform cuts off has no gradient, nor has the imaginary part of
// real numbers.
func dftGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.D(0))
	if c.err != nil {
		return
	}
	last := len(x) - 1
	axis := last - 1
	switch {
	case c.version < 20:
		axis = c.Axis("axis", 1, 0)
	case c.present(c.X(2)):
		axis = c.axisOf(c.Length(2), len(x))
	}
	if c.err != nil {
		return
	}
	inverse, half := c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0
	if inverse && half {
		c.Set(0, c.halfAdjoint(axis, x, y[axis]))
		return
	}
	n := y[axis]
	switch {
	case c.present(c.X(1)):
		n = c.Length(1)
	case half:
		n = x[axis]
	}
	if c.err != nil {
		return
	}
	c.Set(0, c.resized(c.resized(c.adjoint(c.D(0), axis, n, inverse), axis, x[axis]), last, x[last]))
}

// halfAdjoint is the gradient of the inverse transform of half a spectrum to n real
// numbers. All bins but the first and, if n is even, the last stand for two.
func (c *Backward) halfAdjoint(axis int, x []int64, n int64) ID {
	bins, last := n/2+1, len(x)-1
	if len(c.numbered(bins)) == 0 {
		return graph.None
	}
	twice := make([]float64, bins)
	for k := range twice {
		twice[k] = 2 / float64(n)
		if k == 0 || 2*int64(k) == n {
			twice[k] = 1 / float64(n)
		}
	}
	shape := filled(1, len(x))
	shape[axis] = bins
	d := c.resized(c.D(0), last, 2) // real numbers become complex ones
	d = c.resized(c.transform(d, axis, 0), axis, bins)
	d = c.mul(d, c.reals(c.typeOf(d).Elem, shape, twice))
	return c.resized(c.resized(d, axis, x[axis]), last, x[last])
}

// stftGrad: the gradients of the frames, times the window, are added where the frames
// overlap.
func stftGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.D(0)) // [batch, length (, parts)], [batch, frames, bins, 2]
	step := c.Length(1)
	if c.err != nil {
		return
	}
	batch, length, parts, frames := x[0], x[1], elements(x[2:]), y[1]
	n := length
	switch {
	case c.present(c.X(3)):
		n = c.Length(3)
	case c.present(c.X(2)):
		n = c.shape(c.X(2))[0]
	}
	if c.err != nil {
		return
	}
	if exceeds(maxMask, frames, n) || step < 1 || n < 1 {
		c.Failf("%d frames of %d elements, %d apart: expected at most %d places", frames, n, step, maxMask)
		return
	}
	d := c.resized(c.adjoint(c.D(0), 2, n, false), 3, parts) // [batch, frames, n, parts]
	// Of each element of each frame, the place in the signal.
	starts, inside := c.numbered(frames), c.numbered(n)
	if c.err != nil {
		return
	}
	for i := range starts {
		starts[i] *= step
	}
	at := c.add(c.reshape(c.list(starts...), []int64{frames, 1}), c.list(inside...))
	if c.Needs(0) {
		t := d
		if c.present(c.X(2)) {
			t = c.mul(t, c.reshape(c.X(2), []int64{n, 1}))
		}
		t = c.reshape(c.transpose(t, 1, 2, 0, 3), []int64{frames * n, batch * parts})
		rows := c.with("ScatterND", attrs{"reduction": "add"}, c.zeros(d, length, batch*parts), c.reshape(at, []int64{frames * n, 1}), t)
		c.Set(0, c.reshape(c.transpose(c.reshape(rows, []int64{length, batch, parts}), 1, 0, 2), x))
	}
	if c.Needs(2) {
		read := c.with("Gather", attrs{"axis": 1}, c.reshape(c.X(0), []int64{batch, length, parts}), at)
		c.Set(2, c.sum(c.mul(d, read), []int64{0, 1, 3}, false))
	}
}

// axisOf is an axis in [0, rank).
func (c *Backward) axisOf(axis int64, rank int) int {
	k, err := attr.Axis("axis", axis, rank)
	if err != nil {
		c.Failf("%w", err)
	}
	return k
}
