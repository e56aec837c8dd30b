package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

var normOperators = []operator{
	{"BatchNormalization", batchNorm},
	{"LayerNormalization", layerNorm},
	{"RMSNormalization", rmsNorm},
	{"SimplifiedLayerNormalization", rmsNorm},
	{"InstanceNormalization", func(c *evaluation) []*Tensor {
		return one(groupNorm(c, c.x(0).Shape[1], true))
	}},
	{"GroupNormalization", func(c *evaluation) []*Tensor {
		return one(groupNorm(c, c.int("num_groups", 1), c.version >= 21))
	}},
	{"LRN", lrn},
	{"LpNormalization", func(c *evaluation) []*Tensor {
		x := c.x(0)
		p := c.int("p", 2)
		y := zeros(x.Type, x.Shape)
		rows(x.Shape, c.axis("axis", -1, len(x.Shape)), func(line []int, _ int) {
			total := 0.0
			for _, i := range line {
				total += math.Pow(math.Abs(x.F[i]), float64(p))
			}
			total = math.Pow(total, 1/float64(p))
			for _, i := range line {
				if total != 0 {
					y.F[i] = x.F[i] / total
				}
			}
		})
		return one(y)
	}},
	{"MeanVarianceNormalization", func(c *evaluation) []*Tensor {
		x := c.x(0)
		over := make([]bool, len(x.Shape))
		for _, a := range c.ints("axes", []int{0, 2, 3}) {
			over[wrapAxis(a, len(x.Shape))] = true
		}
		m, v := x.moments(over)
		m, v = m.spread(x.Shape), v.spread(x.Shape)
		y := x.clone()
		mass := make([]float64, len(y.F))
		for i := range y.F {
			y.F[i] = (x.F[i] - m.F[i]) / (math.Sqrt(v.F[i]) + 1e-9)
			mass[i] = (math.Abs(x.F[i]) + math.Abs(m.F[i])) / (math.Sqrt(v.F[i]) + 1e-9)
		}
		c.terms(0, mass)
		return one(y)
	}},
}

// variance is the mean squared distance from the mean.
func variance(v []float64) float64 {
	m := mean(v)
	return sumOf(v, func(x float64) float64 { return square(x - m) }) / float64(len(v))
}

// moments returns the mean and the variance over some axes, which keep length 1.
func (x *Tensor) moments(over []bool) (m, v *Tensor) {
	return x.reduced(over, true, mean), x.reduced(over, true, variance)
}

// from marks the axes from first to the last.
func from(first, rank int) []bool {
	over := make([]bool, rank)
	for k := range over {
		over[k] = k >= first
	}
	return over
}

// channel reshapes a list so that it broadcasts along axis 1.
func (x *Tensor) channel(rank int) *Tensor {
	shape := filled(1, rank)
	shape[1] = len(x.F)
	return x.shaped(shape...)
}

// batchNorm normalises by the running statistics. In training it normalises by the
// statistics of the batch and updates the running statistics with them.
func batchNorm(c *evaluation) []*Tensor {
	x := c.x(0)
	rank := len(x.Shape)
	eps, momentum := c.float("epsilon", float64(float32(1e-5))), c.float("momentum", float64(float32(0.9)))
	m, v := c.x(3), c.x(4)
	var out []*Tensor
	if c.int("training_mode", 0) != 0 {
		over := from(2, rank)
		over[0] = true
		bm, bv := x.moments(over)
		n := x.Shape[1]
		newM, newV := m.clone(), v.clone()
		sizes := x.reduced(over, true, func(v []float64) float64 { return total(v) / float64(len(v)) })
		massM := make([]float64, n)
		for i := range n {
			newM.F[i] = m.F[i]*momentum + bm.F[i]*(1-momentum)
			newV.F[i] = v.F[i]*momentum + bv.F[i]*(1-momentum)
			massM[i] = math.Abs(m.F[i]*momentum) + sizes.F[i]*(1-momentum)
		}
		c.terms(1, massM)
		out = []*Tensor{newM, newV}
		m, v = bm.shaped(n), bv.shaped(n)
	}
	spread := func(t *Tensor) *Tensor { return t.channel(rank).spread(x.Shape) }
	s, b, m, v := spread(c.x(1)), spread(c.x(2)), spread(m), spread(v)
	y := zeros(x.Type, x.Shape)
	mass := make([]float64, len(y.F))
	for i := range y.F {
		y.F[i] = (x.F[i]-m.F[i])/math.Sqrt(v.F[i]+eps)*s.F[i] + b.F[i]
		mass[i] = (math.Abs(x.F[i])+math.Abs(m.F[i]))/math.Sqrt(v.F[i]+eps)*math.Abs(s.F[i]) + math.Abs(b.F[i])
	}
	c.terms(0, mass)
	return append([]*Tensor{y}, out...)
}

// layerNorm also returns the mean and the inverse of the standard deviation.
func layerNorm(c *evaluation) []*Tensor {
	x := c.x(0)
	eps := c.float("epsilon", float64(float32(1e-5)))
	m, v := x.moments(from(c.axis("axis", -1, len(x.Shape)), len(x.Shape)))
	inv := v.each(func(v float64) float64 { return 1 / math.Sqrt(v+eps) })
	stash := graph.DType(c.int("stash_type", int(graph.Float32)))
	wideM, wideInv, s := m.spread(x.Shape), inv.spread(x.Shape), c.x(1).spread(x.Shape)
	y := zeros(x.Type, x.Shape)
	mass := make([]float64, len(y.F))
	for i := range y.F {
		y.F[i] = (x.F[i] - wideM.F[i]) * wideInv.F[i] * s.F[i]
		mass[i] = (math.Abs(x.F[i]) + math.Abs(wideM.F[i])) * wideInv.F[i] * math.Abs(s.F[i])
	}
	if c.x(2) != nil {
		b := c.x(2).spread(x.Shape)
		for i := range y.F {
			y.F[i] += b.F[i]
			mass[i] += math.Abs(b.F[i])
		}
	}
	c.terms(0, mass)
	over := from(c.axis("axis", -1, len(x.Shape)), len(x.Shape))
	c.terms(1, x.reduced(over, true, func(v []float64) float64 { return total(v) / float64(len(v)) }).F)
	return []*Tensor{y, m.cast(stash), inv.cast(stash)}
}

// rmsNorm divides by the root of the mean square.
func rmsNorm(c *evaluation) []*Tensor {
	x := c.x(0)
	eps := c.float("epsilon", float64(float32(1e-5)))
	inv := x.each(square).reduced(from(c.axis("axis", -1, len(x.Shape)), len(x.Shape)), true, mean)
	inv = inv.each(func(v float64) float64 { return 1 / math.Sqrt(v+eps) })
	wide, s := inv.spread(x.Shape), c.x(1).spread(x.Shape)
	y := zeros(x.Type, x.Shape)
	for i := range y.F {
		y.F[i] = x.F[i] * wide.F[i] * s.F[i]
	}
	return []*Tensor{y, inv}
}

// groupNorm normalises each group of channels of each sample; scale and bias
// are one per channel, or one per group.
func groupNorm(c *evaluation, groups int, perChannel bool) *Tensor {
	x := c.x(0)
	eps := c.float("epsilon", float64(float32(1e-5)))
	flat := x.shaped(x.Shape[0], groups, x.Shape[1]/groups*size(x.Shape[2:]))
	m, v := flat.moments(from(2, 3))
	m, v = m.spread(flat.Shape), v.spread(flat.Shape)
	spread := func(t *Tensor) *Tensor {
		if perChannel {
			return t.channel(len(x.Shape)).spread(x.Shape)
		}
		return t.channel(3).spread(flat.Shape)
	}
	s, b := spread(c.x(1)), spread(c.x(2))
	y := zeros(x.Type, x.Shape)
	mass := make([]float64, len(y.F))
	for i := range y.F {
		y.F[i] = (x.F[i]-m.F[i])/math.Sqrt(v.F[i]+eps)*s.F[i] + b.F[i]
		mass[i] = (math.Abs(x.F[i])+math.Abs(m.F[i]))/math.Sqrt(v.F[i]+eps)*math.Abs(s.F[i]) + math.Abs(b.F[i])
	}
	c.terms(0, mass)
	return y
}

// lrn divides by a power of the sum of squares over neighbouring channels.
func lrn(c *evaluation) []*Tensor {
	x := c.x(0)
	n := c.int("size", 1)
	alpha, beta, bias := c.float("alpha", float64(float32(1e-4))), c.float("beta", 0.75), c.float("bias", 1)
	y := zeros(x.Type, x.Shape)
	inner := size(x.Shape[2:])
	for i := range y.F {
		at, total := i/inner%x.Shape[1], 0.0
		for ch := max(0, at-(n-1)/2); ch <= min(x.Shape[1]-1, at+n/2); ch++ {
			total += square(x.F[i+(ch-at)*inner])
		}
		y.F[i] = x.F[i] / math.Pow(bias+alpha/float64(n)*total, beta)
	}
	return one(y)
}
