package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// lossRules cover operators that compare predictions with labels.
var lossRules = []Rule{
	{Op: "SoftmaxCrossEntropyLoss", Inputs: []int{0}, Suffixes: []string{1: ".log_prob"}, Grad: softmaxCrossEntropyGrad},
	{Op: "NegativeLogLikelihoodLoss", Inputs: []int{0}, Grad: negativeLogLikelihoodGrad},
}

// lossExpansions replace a SoftmaxCrossEntropyLoss by LogSoftmax and
// NegativeLogLikelihoodLoss. The log-probabilities can then overwrite the scores,
// which a second output of one operator cannot. The two are differentiated as one
// operator (crossEntropyGroup).
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

// admitsLoss: the loss has a gradient of its own, and is replaced only if that needs more
// memory.
func admitsLoss(s *trainer, n *graph.Node) bool {
	return s.saves(savingCrossEntropy) && (len(n.Outputs) < 2 || n.Outputs[1] == graph.None)
}

// softmaxCrossEntropyGrad is (softmax - onehot(labels))·d, with d from
// labelWeights. The one-hot tensor is never made: -1 is added at the labels. The
// gradient keeps log_prob and the labels. log_prob may have a gradient of its
// own, that of LogSoftmax.
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

// negativeLogLikelihoodGrad writes -d at the labels.
func negativeLogLikelihoodGrad(c *Backward) {
	labels, d := c.labelWeights()
	at := c.op("Unsqueeze", labels, c.list(1))
	d = c.expand(c.op("Neg", d), c.shape(at))
	zeros := c.zeros(c.X(0), c.shape(c.X(0))...)
	c.Set(0, c.with("ScatterElements", attrs{"axis": 1}, zeros, at, d))
}

// labelWeights returns the labels, 0 for ignored ones, and the factor of each
// label's term: the gradient times the weight of its class and, for the mean,
// divided by the sum of all weights. The factor has a class axis of length 1, or
// no axis.
func (c *Backward) labelWeights() (labels, d ID) {
	shape := c.shape(c.X(0))
	labels, d = c.X(1), c.D(0)
	reduction := c.Str("reduction", "mean")
	weights, ignored, ignores := ID(graph.None), ID(graph.None), c.Node.Attr("ignore_index")
	if ignores != nil {
		ignored = c.op("Equal", labels, c.reals(c.typeOf(labels).Elem, nil, []float64{float64(ignores.Int)}))
		labels = c.where(ignored, c.reals(c.typeOf(labels).Elem, nil, []float64{0}), labels)
	}
	if c.present(c.X(2)) {
		weights = c.op("Gather", c.X(2), labels)
	}
	if c.err != nil {
		return labels, d
	}
	if reduction == "mean" {
		counted := weights
		if ignores != nil {
			if counted == graph.None {
				counted = c.scalar(d, 1)
			}
			counted = c.where(ignored, c.scalar(d, 0), counted)
		}
		if counted == graph.None {
			d = c.times(d, 1/float64(elements(shape)/shape[1]))
		} else {
			d = c.div(d, c.sum(counted, axes(0, len(shape)-1), false))
		}
	}
	if weights != graph.None {
		d = c.mul(weights, d)
	}
	if ignores != nil { // also where no label counts and the loss is 0/0, as in PyTorch
		d = c.where(ignored, c.scalar(d, 0), d)
	}
	if c.rank(d) == 0 {
		return labels, d
	}
	return labels, c.op("Unsqueeze", d, c.list(1))
}
