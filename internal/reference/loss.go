package reference

import (
	"math"
	"slices"
)

// lossOperators compare predictions with labels.
var lossOperators = []operator{
	{"NegativeLogLikelihoodLoss", func(c *evaluation) []*Tensor { return one(c.likelihood(c.x(0), magnitudes(c.x(0).F))) }},
	{"SoftmaxCrossEntropyLoss", func(c *evaluation) []*Tensor {
		p := c.x(0).alongAxis(1, func(v, sum float64) float64 { return v - math.Log(sum) })
		mass := c.x(0).alongAxis(1, logMass).F
		c.terms(1, mass)
		return []*Tensor{c.likelihood(p, mass), p}
	}},
}

// likelihood returns the negative logarithms that the labels select, each times the
// weight of its class; the mean divides by the sum of the weights. mass is that of p.
func (c *evaluation) likelihood(p *Tensor, mass []float64) *Tensor {
	labels, weights := c.x(1), c.x(2)
	y, m := zeros(p.Type, labels.Shape), make([]float64, size(labels.Shape))
	total, loss, sum := 0.0, 0.0, 0.0
	i := 0
	each(labels.Shape, func(at []int) {
		label := labels.I[i]
		if !c.has("ignore_index") || label != int64(c.int("ignore_index", 0)) {
			if label < 0 || int(label) >= p.Shape[1] {
				fail("label %d of %d classes", label, p.Shape[1])
			}
			w := 1.0
			if weights != nil {
				w = weights.F[label]
			}
			j := index(p.Shape, slices.Insert(slices.Clone(at), 1, int(label)))
			y.F[i], m[i] = -w*p.F[j], math.Abs(w*mass[j])
			total += w
			loss += y.F[i]
			sum += m[i]
		}
		i++
	})
	switch c.str("reduction", "mean") {
	case "none":
		c.terms(0, m)
		return y
	case "mean":
		loss /= total
		sum /= math.Abs(total)
	}
	c.terms(0, []float64{sum})
	return &Tensor{Type: p.Type, Shape: []int{}, F: []float64{loss}}
}
