package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// resizeRules are the rules of the operators that resample an image.
var resizeRules = []Rule{
	{Op: "Resize", Inputs: []int{0}, Fused: true, Grad: resizeGrad},
}

// resizeGrad: a resampling between fixed lengths is linear and separable, so the
// gradient is the product with the transposed interpolation matrix of each axis
// (contract). If elements are only repeated, it is a sum.
func resizeGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	r, err := attr.ReadResize(c.Node, c.version, len(x))
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		c.Failf("%w", err)
		return
	}
	if r.Antialias {
		c.Failf("antialias is 1: expected 0, for which there is a gradient rule")
		return
	}
	resized := c.resizedAxes(r, x, y)
	if c.err != nil {
		return
	}
	maps := make([]*resampling, len(x))
	repeats := true
	for a := range x {
		if !slices.Contains(r.Axes, a) {
			continue
		}
		m := c.resampling(r, a, &resized[a])
		if c.err != nil {
			return
		}
		if maps[a] = m; m != nil {
			repeats = repeats && m.repeats()
		}
	}
	d := c.D(0)
	if repeats {
		var split, over []int64
		for a := range x {
			split = append(split, x[a])
			if maps[a] != nil {
				over = append(over, int64(len(split)))
				split = append(split, y[a]/x[a])
			}
		}
		c.Set(0, c.sum(c.reshape(d, split), over, false))
		return
	}
	for a := len(x) - 1; a >= 0; a-- {
		if maps[a] != nil {
			d = c.contract(d, a, maps[a])
		}
	}
	c.Set(0, d)
}

// resampling is the interpolation matrix of one axis: each element of the result
// is a sum of few elements of the image.
type resampling struct {
	in, out int64
	rows    [][]tap
}

// tap is an element of the image and its weight.
type tap struct {
	at     int64
	weight float64
}

// repeats reports whether each element of the image is repeated out/in times.
func (r *resampling) repeats() bool {
	if r.out%r.in != 0 {
		return false
	}
	for o, row := range r.rows {
		at := int64(o) / (r.out / r.in)
		if !slices.ContainsFunc(row, func(t tap) bool { return t == tap{at, 1} }) {
			return false
		}
	}
	return true
}

// maxResampling is the largest length of a resized axis: constants of the step have
// that many elements.
const maxResampling = 1 << 22

// maxMatrix is the number of elements up to which the matrix of an axis is written
// out: one product then takes less time than scatters. A test sets it to 0.
var maxMatrix int64 = 1 << 20

// contract multiplies t along an axis of r.out elements by the transposed matrix of
// r: the gradient of a resampling along that axis. A large matrix, of which nearly
// all elements are 0, is not written out: each tap is a scatter.
func (c *Backward) contract(t ID, axis int, r *resampling) ID {
	shape := c.shape(t)
	if c.err != nil {
		return graph.None
	}
	out := concat(shape[:axis], []int64{r.in}, shape[axis+1:])
	lead, rest := elements(shape[:axis]), elements(shape[axis+1:])
	elem := c.typeOf(t).Elem
	if r.in > maxMatrix/r.out {
		return c.byTaps(t, axis, r, out)
	}
	m := make([]float64, r.out*r.in)
	if rest == 1 {
		for o, row := range r.rows {
			for _, t := range row {
				m[int64(o)*r.in+t.at] = t.weight
			}
		}
		return c.reshape(c.op("MatMul", c.reshape(t, []int64{lead, r.out}), c.reals(elem, []int64{r.out, r.in}, m)), out)
	}
	for o, row := range r.rows {
		for _, t := range row {
			m[t.at*r.out+int64(o)] = t.weight
		}
	}
	return c.reshape(c.op("MatMul", c.reals(elem, []int64{r.in, r.out}, m), c.reshape(t, []int64{lead, r.out, rest})), out)
}

// byTaps is contract by one scatter for each tap.
func (c *Backward) byTaps(t ID, axis int, r *resampling, out []int64) ID {
	elem := c.typeOf(t).Elem
	along := filled(1, len(out))
	along[axis] = r.out
	sum := ID(graph.None)
	most := 0
	for _, row := range r.rows {
		most = max(most, len(row))
	}
	for k := range most {
		at, weights := make([]int64, r.out), make([]float64, r.out)
		for o, row := range r.rows {
			if k < len(row) {
				at[o], weights[o] = row[k].at, row[k].weight
			}
		}
		term := c.gathered(c.mul(t, c.reals(elem, along, weights)), axis, c.list(at...), out)
		if sum == graph.None {
			sum = term
		} else {
			sum = c.add(sum, term)
		}
	}
	return sum
}

// resizedAxes reads scales, sizes and the region, which must be constants. Sizes
// that stretch the image need not be: they are the lengths of the result.
func (c *Backward) resizedAxes(r *attr.Resize, x, y []int64) []attr.ResizedAxis {
	var scales, roi []float64
	var sizes []int64
	var ok bool
	if r.Crops() && c.present(c.X(1)) && elements(c.shape(c.X(1))) > 0 {
		if roi, ok = c.values[c.X(1)].Floats(); !ok || len(roi) != 2*len(r.Axes) {
			c.Failf("input 1 (roi) depends on data: expected a constant")
			return nil
		}
	}
	switch {
	case c.present(c.X(2)) && elements(c.shape(c.X(2))) > 0:
		if scales, ok = c.values[c.X(2)].Floats(); !ok {
			c.Failf("input 2 (scales) depends on data: expected a constant")
			return nil
		}
	case r.Stretches():
		for _, a := range r.Axes {
			sizes = append(sizes, y[a])
		}
	default:
		sizes = c.Lengths(3)
	}
	if c.err != nil {
		return nil
	}
	return r.Along(x, y, scales, sizes, roi)
}

// resampling computes the matrix of an axis; nil if nothing changes.
func (c *Backward) resampling(r *attr.Resize, axis int, a *attr.ResizedAxis) *resampling {
	if a.Copies() {
		return nil
	}
	in, out := a.In, a.Out
	if in < 1 || out < 1 || max(in, out) > maxResampling {
		c.Failf("axis %d is resized from %d to %d: expected lengths of 1 to %d", axis, in, out, maxResampling)
		return nil
	}
	m := &resampling{in: in, out: out, rows: make([][]tap, out)}
	for o := range out {
		if at, outside := attr.Source(a, o); !outside { // else it is the extrapolation value
			m.rows[o] = interpolate(in, r, a, at)
		}
	}
	return m
}

// interpolate returns the row of one element of the result: the elements of an image
// of that length, and their weights. The first and the last element continue beyond
// the ends.
func interpolate(in int64, r *attr.Resize, a *attr.ResizedAxis, at float64) (row []tap) {
	last := int(in) - 1
	put := func(i int, w float64) {
		at := int64(min(max(i, 0), last))
		if k := slices.IndexFunc(row, func(t tap) bool { return t.at == at }); k >= 0 {
			row[k].weight += w
		} else {
			row = append(row, tap{at, w})
		}
	}
	low := int(math.Floor(at))
	ratio := at - float64(low)
	switch r.Mode {
	case "nearest":
		put(int(r.Nearest(a, at)), 1)
	case "linear":
		put(low, 1-ratio)
		put(low+1, ratio)
	case "cubic":
		w := cubicWeights(ratio, float64(r.CubicCoeffA))
		if r.ExcludeOutside {
			sum := 0.0
			for k := range w {
				if i := low - 1 + k; i < 0 || i > last {
					w[k] = 0
				}
				sum += w[k]
			}
			for k := range w {
				w[k] /= sum
			}
		}
		for k := range w {
			put(low-1+k, w[k])
		}
	}
	return row
}

// cubicWeights returns the weights of the four elements around a point that lies
// ratio behind the second of them (Keys 1981, with its free coefficient a).
func cubicWeights(ratio, a float64) [4]float64 {
	near := func(t float64) float64 { return ((a+2)*t-(a+3))*t*t + 1 }
	far := func(t float64) float64 { return ((a*t-5*a)*t+8*a)*t - 4*a }
	return [4]float64{far(1 + ratio), near(ratio), near(1 - ratio), far(2 - ratio)}
}
