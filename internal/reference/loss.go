package reference

import "slices"

var lossOperators = []operator{
	{"NegativeLogLikelihoodLoss", func(c *call) []*Tensor { return one(c.likelihood(c.x(0))) }},
	{"SoftmaxCrossEntropyLoss", func(c *call) []*Tensor {
		p := c.x(0).alongAxis(1, func(v, lse float64) float64 { return v - lse })
		return []*Tensor{c.likelihood(p), p}
	}},
}

// likelihood is minus the logarithms that the labels pick, each times the weight
// of its class; the mean divides by the sum of the weights.
func (c *call) likelihood(p *Tensor) *Tensor {
	labels, weights := c.x(1), c.x(2)
	y := zeros(p.Type, labels.Shape)
	total, loss := 0.0, 0.0
	i := 0
	each(labels.Shape, func(at []int) {
		label := labels.I[i]
		if !c.has("ignore_index") || label != int64(c.int("ignore_index", 0)) {
			w := 1.0
			if weights != nil {
				w = weights.F[label]
			}
			y.F[i] = -w * p.F[index(p.Shape, slices.Insert(slices.Clone(at), 1, int(label)))]
			total += w
			loss += y.F[i]
		}
		i++
	})
	switch c.str("reduction", "mean") {
	case "none":
		return y
	case "mean":
		loss /= total
	}
	return &Tensor{Type: p.Type, Shape: []int{}, F: []float64{loss}}
}
