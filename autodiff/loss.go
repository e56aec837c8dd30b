package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// lossRules compare predictions with labels.
var lossRules = []Rule{
	{Op: "SoftmaxCrossEntropyLoss", Inputs: []int{0}, Suffixes: []string{1: ".log_prob"}, Grad: softmaxCrossEntropyGrad},
	{Op: "NegativeLogLikelihoodLoss", Inputs: []int{0}, Grad: negativeLogLikelihoodGrad},
}

// lossExpansions write a SoftmaxCrossEntropyLoss as the two operators that it is
// made of: the log-probabilities then lie over the scores, which as an output
// beside them they cannot. Their gradients are taken as one (crossEntropyGroup).
var lossExpansions = expansionsOf("", map[string]func(*Backward) []ID{
	"SoftmaxCrossEntropyLoss": func(c *Backward) []ID {
		in := slices.Clone(c.Node.Inputs)
		in[0] = c.with("LogSoftmax", attrs{"axis": 1}, c.X(0))
		a := attrs{"reduction": c.Str("reduction", "mean")}
		if i := c.Node.Attr("ignore_index"); i != nil {
			a["ignore_index"] = i.Int
		}
		return c.emit("NegativeLogLikelihoodLoss", a, 1, in...)
	},
})

// expands reports whether a node that could be replaced by others is: one that
// has a gradient of its own only where that one needs more memory.
func (s *trainer) expands(n *graph.Node) bool {
	if n.Op != "SoftmaxCrossEntropyLoss" || n.Domain != "" {
		return true
	}
	return s.saves(savingCrossEntropy) && (len(n.Outputs) < 2 || n.Outputs[1] == graph.None)
}

// softmaxCrossEntropyGrad is (softmax - onehot(labels))·d, d as labelWeights has
// it. The one-hot tensor is never made: -1 is added where the labels point. It
// saves log_prob and the labels. log_prob may have a gradient of its own, which
// is LogSoftmax's.
func softmaxCrossEntropyGrad(c *Backward) {
	total := ID(graph.None)
	p := c.op("Exp", c.Y(1))
	if c.D(0) != graph.None {
		labels, d := c.labelWeights()
		at := c.op("Unsqueeze", labels, c.list(1))
		ones := c.expand(c.scalar(p, -1), c.shape(at))
		diff := c.with("ScatterElements", attrs{"axis": 1, "reduction": "add"}, p, at, ones)
		total = c.mul(diff, d)
	}
	if d := c.D(1); d != graph.None {
		d = c.sub(d, c.mul(p, c.sum(d, []int64{1}, true)))
		if total != graph.None {
			d = c.add(total, d)
		}
		total = d
	}
	c.Set(0, total)
}

// negativeLogLikelihoodGrad puts -d where the labels point.
func negativeLogLikelihoodGrad(c *Backward) {
	labels, d := c.labelWeights()
	at := c.op("Unsqueeze", labels, c.list(1))
	d = c.expand(c.op("Neg", d), c.shape(at))
	zeros := c.zeros(c.X(0), c.shape(c.X(0))...)
	c.Set(0, c.with("ScatterElements", attrs{"axis": 1}, zeros, at, d))
}

// labelWeights gives the labels, 0 where one is to be ignored, and what the term
// of each label is multiplied by: the gradient, the weight of its class, and for
// the mean the inverse of the sum of all weights. It has an axis for the
// classes, of length 1, or no axis at all.
func (c *Backward) labelWeights() (labels, d ID) {
	shape := c.shape(c.X(0))
	labels, d = c.X(1), c.D(0)
	reduction := c.Str("reduction", "mean")
	weights := ID(graph.None)
	ignore := c.Node.Attr("ignore_index")
	if ignore != nil {
		ignored := c.op("Equal", labels, c.reals(c.typeOf(labels).Elem, nil, []float64{float64(ignore.Int)}))
		labels = c.where(ignored, c.reals(c.typeOf(labels).Elem, nil, []float64{0}), labels)
		one := c.scalar(d, 1)
		if c.given(c.X(2)) {
			one = c.op("Gather", c.X(2), labels)
		}
		weights = c.where(ignored, c.scalar(d, 0), one)
	} else if c.given(c.X(2)) {
		weights = c.op("Gather", c.X(2), labels)
	}
	if c.err != nil {
		return labels, d
	}
	switch {
	case reduction == "mean" && weights == graph.None:
		return labels, c.times(d, 1/float64(elements(shape)/shape[1]))
	case reduction == "mean":
		d = c.div(d, c.sum(weights, axes(0, len(shape)-1), false))
		fallthrough
	case weights != graph.None:
		d = c.mul(weights, d)
	case reduction == "sum":
		return labels, d
	}
	return labels, c.op("Unsqueeze", d, c.list(1))
}
