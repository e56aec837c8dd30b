package autodiff

import "github.com/onnxmem/onnxmem/graph"

// padRules cover operators that pad or crop a tensor, or keep a triangle of it.
var padRules = []Rule{
	{Op: "Pad", Inputs: []int{0, 2}, Grad: padGrad},
	{Op: "CenterCropPad", Inputs: []int{0}, Grad: centerCropPadGrad},
	{Op: "Trilu", Inputs: []int{0}, Grad: func(c *Backward) {
		c.Set(0, c.with("Trilu", attrs{"upper": c.Int("upper", 1)}, c.D(0), c.X(1)))
	}},
}

// padGrad removes the padding: in constant mode by a Pad with the negated
// lengths, otherwise one axis at a time by a product with the matrix that maps
// input elements to output positions.
func padGrad(c *Backward) {
	shape := c.shape(c.X(0))
	before, after := c.padding(len(shape))
	if c.err != nil {
		return
	}
	mode := c.Str("mode", "constant")
	if mode == "constant" {
		d := c.unpadded(c.D(0), before, after)
		c.Set(0, d)
		if c.Needs(2) { // the elements that do not come from input 0
			rest := c.sub(c.sum(c.D(0), axes(0, len(shape)), false), c.sum(d, axes(0, len(shape)), false))
			c.Set(2, c.reshape(rest, c.shape(c.X(2))))
		}
		return
	}
	d := c.D(0)
	for a := len(shape) - 1; a >= 0; a-- {
		if before[a] == 0 && after[a] == 0 {
			continue
		}
		from := padSources(mode, shape[a], before[a], after[a])
		if from == nil {
			c.Failf("mode %q: expected constant, reflect, edge or wrap, and an axis with elements", mode)
			return
		}
		m := make([]float64, len(from)*int(shape[a]))
		for o, i := range from {
			m[o*int(shape[a])+int(i)] = 1
		}
		d = c.contract(d, a, m, shape[a])
	}
	c.Set(0, d)
}

// padding returns the lengths that a Pad adds before and after each axis.
func (c *Backward) padding(rank int) (before, after []int64) {
	pads := c.Lengths(1)
	over := axes(0, rank)
	if c.present(c.X(3)) {
		over = c.Axes(3, 0)
	}
	before, after = make([]int64, rank), make([]int64, rank)
	if c.err != nil {
		return before, after
	}
	for k, a := range over {
		before[a], after[a] = pads[k], pads[len(over)+k]
	}
	return before, after
}

// unpadded pads with the negated lengths: negative padding crops.
func (e *emitter) unpadded(t ID, before, after []int64) ID {
	pads := make([]int64, 0, 2*len(before))
	same := true
	for _, p := range concat(before, after) {
		pads = append(pads, -p)
		same = same && p == 0
	}
	if same {
		return t
	}
	return e.op("Pad", t, e.list(pads...))
}

// padSources lists for each element of a padded axis the index among n that it
// copies; nil if the mode is not known. Negative padding crops first.
func padSources(mode string, n, before, after int64) []int64 {
	first, length := max(-before, 0), n-max(-before, 0)-max(-after, 0)
	if length <= 0 {
		return nil
	}
	from := make([]int64, n+before+after)
	for o := range from {
		i := int64(o) - max(before, 0)
		switch mode {
		case "edge":
			i = min(max(i, 0), length-1)
		case "wrap":
			i = modulo(i, length)
		case "reflect":
			if period := 2 * (length - 1); period > 0 {
				i = modulo(i, period)
				i = min(i, period-i)
			} else {
				i = 0
			}
		default:
			return nil
		}
		from[o] = first + i
	}
	return from
}

// modulo is the non-negative remainder of i by n.
func modulo(i, n int64) int64 { return (i%n + n) % n }

// contract multiplies t along one axis of o elements by the transpose of the o x
// n matrix m: the gradient of a linear map along that axis. No axis is moved.
func (c *Backward) contract(t ID, axis int, m []float64, n int64) ID {
	shape := c.shape(t)
	if c.err != nil {
		return graph.None
	}
	o := shape[axis]
	out := concat(shape[:axis], []int64{n}, shape[axis+1:])
	lead, rest := elements(shape[:axis]), elements(shape[axis+1:])
	elem := c.typeOf(t).Elem
	if rest == 1 {
		return c.reshape(c.op("MatMul", c.reshape(t, []int64{lead, o}), c.reals(elem, []int64{o, n}, m)), out)
	}
	transposed := make([]float64, len(m))
	for i := range n {
		for k := range o {
			transposed[i*o+k] = m[k*n+i]
		}
	}
	return c.reshape(c.op("MatMul", c.reals(elem, []int64{n, o}, transposed), c.reshape(t, []int64{lead, o, rest})), out)
}

// centerCropPadGrad crops axes that were padded and pads axes that were cropped.
// If a difference is odd, the end takes the extra element.
func centerCropPadGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	before, after := make([]int64, len(x)), make([]int64, len(x))
	for a := range x {
		if d := y[a] - x[a]; d >= 0 {
			before[a], after[a] = d/2, d-d/2
		} else {
			before[a], after[a] = -(-d / 2), d+-d/2
		}
	}
	c.Set(0, c.unpadded(c.D(0), before, after))
}
