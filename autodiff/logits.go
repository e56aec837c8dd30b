package autodiff

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// ignoredLabel is the label that does not count: PyTorch's default ignore_index.
const ignoredLabel = -100

// nodeOf returns the node that makes t; nil if there is none.
func (s *trainer) nodeOf(t ID) *graph.Node {
	k := slices.IndexFunc(s.g.Nodes, func(n *graph.Node) bool { return slices.Contains(n.Outputs, t) })
	if k < 0 {
		return nil
	}
	return s.g.Nodes[k]
}

// fromHalf reports whether a Cast widened t from 16 bits, as under autocast.
func (s *trainer) fromHalf(t ID) bool {
	n := s.nodeOf(t)
	for n != nil && n.Domain == "" && (ops.ClassOf(n) == ops.View || ops.Permutes(n)) { // the latter for the class axis
		n = s.nodeOf(n.Inputs[0])
	}
	return n != nil && ops.Casts(n) && is16Bits(s.typeOf(n.Inputs[0]).Elem)
}

// madeBy returns the node that makes t, apart from nodes that only pass its elements on,
// in the same order; nil if there is none.
func (s *trainer) madeBy(t ID) *graph.Node {
	for {
		n := s.nodeOf(t)
		switch {
		case n == nil || n.Domain != "":
			return nil
		case ops.Copies(n) || ops.ClassOf(n) == ops.View && ops.Moves(n):
		case n.Op == "Cast" && s.typeOf(n.Inputs[0]).Elem.Floating():
		default:
			return n
		}
		t = n.Inputs[0]
	}
}

// warnf adds a warning about an output.
func (s *trainer) warnf(y ID, format string, args ...any) {
	s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("output %s is made by ", s.g.Tensors[y].Name)+fmt.Sprintf(format, args...))
}

// classScores returns what a Softmax or LogSoftmax along the class axis makes the output
// of, since cross-entropy contains a LogSoftmax; otherwise the output itself.
func (s *trainer) classScores(y ID, axis int) ID {
	n := s.madeBy(y)
	if n == nil || n.Op != "Softmax" && n.Op != "LogSoftmax" {
		return y
	}
	x := n.Inputs[0]
	from, shape := s.shape(x), s.shape(y)
	at, err := attr.Axis("axis", attr.Int(n, "axis", -1), len(from))
	if err != nil || s.err != nil {
		return y
	}
	last := len(shape) - 1
	along := at == axis && slices.Equal(from, shape) || at == len(from)-1 && axis == last && from[at] == shape[last]
	if !along {
		s.warnf(y, "%s along another axis than the classes' (axis %d): the loss takes it for scores, to which it applies a LogSoftmax along that one (--class-axis)", n.Op, axis)
		return y
	}
	s.warnf(y, "%s: the loss is computed from the input of that node, since it contains a LogSoftmax", n.Op)
	return s.reshape(x, shape)
}

// meanOverLabels is the cross-entropy of scores, with the classes along axis 1: its mean
// over the labels that count. It is written as a sum and a quotient, since slices of a batch
// may add up a sum, but not a mean of which they do not know how many count. Scores of 16 bits
// are widened, which takes memory, but little of it in slices of rows: the loss of each label is a
// row then, and the sum stands apart.
func (s *trainer) meanOverLabels(y, labels ID) ID {
	a := attrs{"reduction": "sum", "ignore_index": ignoredLabel}
	y = s.emitter.widened(y)
	rows := s.fromHalf(y)
	if rows {
		a["reduction"] = "none"
	}
	loss := ID(graph.None)
	if s.saves(savingCrossEntropy) {
		loss = s.with("NegativeLogLikelihoodLoss", a, s.with("LogSoftmax", attrs{"axis": 1}, y), labels)
	} else {
		loss = s.emit("SoftmaxCrossEntropyLoss", a, 2, y, labels)[0]
	}
	all := axes(0, s.rank(labels))
	if rows {
		loss = s.sum(loss, all, false)
	}
	counts := s.op("Not", s.op("Equal", labels, s.index(ignoredLabel)))
	return s.div(loss, s.sum(s.castLike(counts, loss), all, false))
}

// binaryLogits returns what a Sigmoid makes the output of: the loss of probabilities that
// are rounded to 0 or 1 has no gradient. Nobody means a Sigmoid of a Sigmoid, so --loss
// bce takes it whether the output is said to be a probability or not.
func (s *trainer) binaryLogits(y ID) (logits ID, found bool) {
	n := s.madeBy(y)
	switch {
	case n == nil:
	case n.Op == "Sigmoid":
		s.warnf(y, "Sigmoid: the loss is computed from the input of that node, not from a second Sigmoid of the output")
		return s.reshape(n.Inputs[0], s.shape(y)), true
	case n.Op == "Softmax" && !s.opt.Probabilities:
		s.warnf(y, "Softmax: bce takes it for logits and applies a Sigmoid to it: expected --probabilities, or --loss cross-entropy")
	}
	return y, false
}

// binaryCrossEntropy of logits is softplus(y) - y·label, of probabilities
// -(label·log y + (1-label)·log(1-y)), where each logarithm is clamped to -100,
// as in PyTorch.
func (s *trainer) binaryCrossEntropy(y ID) ID {
	logits, found := s.binaryLogits(y)
	labels := s.widened(s.labels(s.typeOf(y).Elem, s.shape(y)))
	if found || !s.opt.Probabilities {
		x := s.castLike(s.widened(logits), labels)
		return s.mean(s.sub(s.op("Softplus", x), s.mul(x, labels)))
	}
	if s.typeOf(y).Elem.Bits() < 32 { // 16 bits do not hold the smallest numbers of its gradient
		y, labels = s.castTo(y, graph.Float32), s.castTo(labels, graph.Float32)
	}
	first := len(s.g.Nodes)
	one := s.scalar(y, 1)
	log := func(p ID) ID { return s.op("Clip", s.op("Log", p), s.scalar(y, -100)) }
	gain := s.add(s.mul(labels, log(y)), s.mul(s.sub(one, labels), log(s.sub(one, y))))
	if s.err == nil {
		made := slices.Clone(s.g.Nodes[first:])
		last := len(made) - 1
		s.spelled = append(s.spelled, group{domain: spelledDomain, op: "BinaryCrossEntropy", x: y, rest: []ID{labels}, inner: made[:last], last: made[last]})
	}
	return s.op("Neg", s.mean(gain))
}
