package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/ops/attr"
)

// resizeRules are the rules of the operators that resample an image.
var resizeRules = []Rule{
	{Op: "Resize", Inputs: []int{0}, Fused: true, Grad: resizeGrad},
}

// resizeGrad: a resampling between fixed lengths is linear and separable, so the
// gradient is the product with the transposed interpolation matrix of each axis.
// If elements are only repeated, it is a sum.
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
			d = c.contract(d, a, maps[a].matrix, x[a])
		}
	}
	c.Set(0, d)
}

// resampling is the interpolation matrix of one axis.
type resampling struct {
	in, out int64
	matrix  []float64 // [out in], row by row
}

// repeats reports whether each element of the image is repeated out/in times.
func (r *resampling) repeats() bool {
	if r.out%r.in != 0 {
		return false
	}
	for o := range r.out {
		if r.matrix[o*r.in+o/(r.out/r.in)] != 1 {
			return false
		}
	}
	return true
}

// maxResampling bounds the elements of the matrix of one axis.
const maxResampling = 1 << 26

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

// resampling computes the matrix of an axis; nil if nothing changes. Coordinates
// are float32, as in ONNX Runtime: rounding decides which of two neighbours is the
// nearest.
func (c *Backward) resampling(r *attr.Resize, axis int, a *attr.ResizedAxis) *resampling {
	if a.Copies() {
		return nil
	}
	in, out := a.In, a.Out
	if in < 1 || out < 1 || in > maxResampling/out {
		c.Failf("axis %d is resized from %d to %d: expected 1 to %d elements in its matrix", axis, in, out, maxResampling)
		return nil
	}
	m := &resampling{in: in, out: out, matrix: make([]float64, in*out)}
	for o := range out {
		if at, outside := attr.Source[float32](a, o); !outside { // else it is the extrapolation value
			interpolate(m.matrix[o*in:(o+1)*in], r, a, float64(at))
		}
	}
	return m
}

// interpolate sets the row of one element of the result: the weights of the
// elements of the image. The first and the last element continue beyond the ends.
func interpolate(row []float64, r *attr.Resize, a *attr.ResizedAxis, at float64) {
	last := len(row) - 1
	put := func(i int, w float64) { row[min(max(i, 0), last)] += w }
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
}

// cubicWeights returns the weights of the four elements around a point that lies
// ratio behind the second of them (Keys 1981, with its free coefficient a).
func cubicWeights(ratio, a float64) [4]float64 {
	near := func(t float64) float64 { return ((a+2)*t-(a+3))*t*t + 1 }
	far := func(t float64) float64 { return ((a*t-5*a)*t+8*a)*t - 4*a }
	return [4]float64{far(1 + ratio), near(ratio), near(1 - ratio), far(2 - ratio)}
}
