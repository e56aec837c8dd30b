package autodiff

var poolRules = []Rule{
	{Op: "MaxPool", Grad: maxPoolGrad},
	{Op: "AveragePool", Grad: averagePoolGrad},
	{Op: "GlobalAveragePool", Grad: globalAveragePoolGrad},
	{Op: "GlobalMaxPool", Grad: globalMaxPoolGrad},
}

// maxPoolGrad adds d into zeros where the maxima were found. The indices are
// flat over the whole tensor, so one axis is enough; windows that overlap add up.
func maxPoolGrad(c *Call) {
	if c.Int("storage_order", 0) != 0 {
		c.Failf("storage_order is 1: expected 0")
		return
	}
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	flat := []int64{elements(y)}
	at := c.reshape(c.Y(1), flat)
	a := attrs{"axis": 0, "reduction": "add"}
	d := c.with("ScatterElements", a, c.zeros(c.X(0), elements(x)), at, c.reshape(c.D(0), flat))
	c.Set(0, c.reshape(d, x))
}

// averagePoolGrad spreads d, divided by the number of elements that made each
// average, by a transposed convolution with a kernel of ones, channel by channel.
func averagePoolGrad(c *Call) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	w := c.windowOf(x[2:], y[2:], c.List("kernel_shape", nil))
	w.group = 1
	counts := c.averageCounts(w, x[2:], y[2:])
	// The last window may reach beyond the padding (ceil_mode).
	for i := range w.end {
		w.end[i] = max(w.end[i], (y[2+i]-1)*w.strides[i]+w.reach(i)-w.begin[i]-x[2+i])
	}
	d := c.div(c.D(0), counts)
	one := concat([]int64{x[0] * x[1], 1})
	ones := c.reals(c.typeOf(d).Elem, concat([]int64{1, 1}, w.kernel), filledReals(1, elements(w.kernel)))
	d = c.reshape(d, concat(one, y[2:]))
	c.Set(0, c.reshape(c.back(w, d, ones, x[2:]), x))
}

// averageCounts is what each average was divided by: a number, or a map where
// windows at the borders have fewer elements.
func (c *Call) averageCounts(w window, in, out []int64) ID {
	padded := c.Int("count_include_pad", 0) != 0
	total := []float64{1}
	same := true
	for i := range in {
		line := make([]float64, out[i])
		low, high := int64(0), in[i]
		if padded {
			low, high = -w.begin[i], in[i]+w.end[i]
		}
		for o := range line {
			for k := range w.kernel[i] {
				if at := int64(o)*w.strides[i] - w.begin[i] + k*w.dilations[i]; at >= low && at < high {
					line[o]++
				}
			}
			same = same && line[o] == line[0]
		}
		next := make([]float64, 0, len(total)*len(line))
		for _, t := range total {
			for _, l := range line {
				next = append(next, t*l)
			}
		}
		total = next
	}
	elem := c.typeOf(c.D(0)).Elem
	if same {
		return c.reals(elem, nil, total[:1])
	}
	return c.reals(elem, out, total)
}

func filledReals(v float64, n int64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func globalAveragePoolGrad(c *Call) {
	x := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	c.Set(0, c.expand(c.times(c.D(0), 1/float64(elements(x[2:]))), x))
}

// globalMaxPoolGrad shares the gradient out equally among equal maxima.
func globalMaxPoolGrad(c *Call) {
	over := axes(2, c.rank(c.X(0))-2)
	m := c.castLike(c.op("Equal", c.X(0), c.Y(0)), c.D(0))
	c.Set(0, c.mul(m, c.div(c.D(0), c.sum(m, over, true))))
}
