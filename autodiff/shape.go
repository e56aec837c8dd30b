package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Shape and movement.
var shapeRules = []Rule{
	{Op: "Reshape", Inputs: []int{0}, Grad: reshapeGrad},
	{Op: "Flatten", Grad: reshapeGrad},
	{Op: "Squeeze", Inputs: []int{0}, Grad: reshapeGrad},
	{Op: "Unsqueeze", Inputs: []int{0}, Grad: reshapeGrad},
	{Op: "Transpose", Grad: transposeGrad},
	{Op: "Concat", Grad: concatGrad},
	{Op: "Split", Inputs: []int{0}, Grad: splitGrad},
	{Op: "Slice", Inputs: []int{0}, Grad: sliceGrad},
	{Op: "Expand", Inputs: []int{0}, Grad: func(c *Call) { c.setUnbroadcast(0, c.D(0)) }},
	{Op: "Tile", Inputs: []int{0}, Grad: tileGrad},
	{Op: "SpaceToDepth", Grad: func(c *Call) {
		c.Set(0, c.with("DepthToSpace", attrs{"blocksize": c.Int("blocksize", 1), "mode": c.Str("mode", "DCR")}, c.D(0)))
	}},
	{Op: "DepthToSpace", Grad: depthToSpaceGrad},
	{Op: "Trilu", Inputs: []int{0}, Grad: func(c *Call) {
		c.Set(0, c.with("Trilu", attrs{"upper": c.Int("upper", 1)}, c.D(0), c.X(1)))
	}},
	{Op: "ReverseSequence", Inputs: []int{0}, Grad: func(c *Call) {
		a := attrs{"batch_axis": c.Int("batch_axis", 1), "time_axis": c.Int("time_axis", 0)}
		c.Set(0, c.with("ReverseSequence", a, c.D(0), c.X(1)))
	}},
	{Op: "CumSum", Inputs: []int{0}, Grad: func(c *Call) {
		a := attrs{"exclusive": c.Int("exclusive", 0), "reverse": 1 - c.Int("reverse", 0)}
		c.Set(0, c.with("CumSum", a, c.D(0), c.X(1)))
	}},
}

// reshapeGrad gives the gradient the shape of the input: a view.
func reshapeGrad(c *Call) { c.Set(0, c.reshape(c.D(0), c.shape(c.X(0)))) }

func transposeGrad(c *Call) {
	perm := c.List("perm", nil)
	if perm == nil {
		perm = axes(0, c.rank(c.X(0)))
		slices.Reverse(perm)
	}
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	c.Set(0, c.transpose(c.D(0), inverse...))
}

// concatGrad cuts the gradient into the parts; those that need none are left
// out.
func concatGrad(c *Call) {
	axis := c.Axis("axis", 0, 0)
	sizes := make([]int64, len(c.Node.Inputs))
	all := true
	for i := range sizes {
		shape := c.shape(c.X(i))
		if c.err != nil {
			return
		}
		sizes[i] = shape[axis]
		all = all && c.Needs(i)
	}
	if all && len(sizes) > 1 {
		for i, part := range c.emit("Split", attrs{"axis": axis}, len(sizes), c.D(0), c.list(sizes...)) {
			c.Set(i, part)
		}
		return
	}
	at := int64(0)
	for i, n := range sizes {
		if c.Needs(i) {
			c.Set(i, c.slice(c.D(0), []int64{int64(axis)}, []int64{at}, []int64{at + n}))
		}
		at += n
	}
}

// splitGrad puts the parts together again; one that nothing depends on is zero.
func splitGrad(c *Call) {
	axis := c.Axis("axis", 0, 0)
	var parts []ID
	for k, y := range c.Node.Outputs {
		d := c.D(k)
		if d == graph.None && y != graph.None {
			d = c.zeros(c.X(0), c.shape(y)...)
		} else if y == graph.None {
			c.Failf("output %d is left out: expected all parts", k)
			return
		}
		parts = append(parts, d)
	}
	c.Set(0, c.with("Concat", attrs{"axis": axis}, parts...))
}

// sliceGrad puts the gradient back among zeros: with a step, zeros go between
// its elements first; backwards, it is reversed first.
func sliceGrad(c *Call) {
	shape := c.shape(c.X(0))
	starts := c.Lengths(1)
	over, steps := axes(0, len(starts)), filled(1, len(starts))
	if c.given(c.X(3)) {
		over = c.Lengths(3)
	}
	if c.given(c.X(4)) {
		steps = c.Lengths(4)
	}
	if c.err != nil {
		return
	}
	d := c.D(0)
	before, after := make([]int64, len(shape)), make([]int64, len(shape))
	pad := false
	for k, a := range over {
		if a < 0 {
			a += int64(len(shape))
		}
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

// clampStart is where a slice begins (the specification of Slice).
func clampStart(start, n, step int64) int64 {
	if start < 0 {
		start += n
	}
	if step < 0 {
		return min(max(start, 0), n-1)
	}
	return min(max(start, 0), n)
}

// spread puts step-1 zeros between any two elements along an axis.
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

// tileGrad sums over the copies.
func tileGrad(c *Call) {
	shape := c.shape(c.X(0))
	repeats := c.Lengths(1)
	if c.err != nil {
		return
	}
	var split, over []int64
	for i, n := range shape {
		if repeats[i] != 1 {
			over = append(over, int64(len(split)))
			split = append(split, repeats[i])
		}
		split = append(split, n)
	}
	c.Set(0, c.sum(c.reshape(c.D(0), split), over, false))
}

// depthToSpaceGrad is SpaceToDepth, with the axes of mode CRD put right.
func depthToSpaceGrad(c *Call) {
	b := c.Int("blocksize", 1)
	if c.Str("mode", "DCR") == "DCR" {
		c.Set(0, c.with("SpaceToDepth", attrs{"blocksize": b}, c.D(0)))
		return
	}
	x := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	d := c.reshape(c.D(0), []int64{x[0], x[1] / (b * b), x[2], b, x[3], b})
	c.Set(0, c.reshape(c.transpose(d, 0, 1, 3, 5, 2, 4), x))
}
