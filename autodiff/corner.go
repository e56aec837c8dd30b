package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// At a corner, a formula divides by zero or multiplies zero by infinity: the root of a sum
// of squares at 0, a logarithm behind a Where that chooses something else. The true
// gradient is often finite there. The functions of this file say where such a corner can
// be, by the nodes around it, so that only the graphs that can have one pay for the test.

// mostVisits bounds how many nodes one question may look at; beyond it the answer is no.
const mostVisits = 64

// maker returns the node that makes a tensor; nil if none does, or if it has another
// domain.
func (e *emitter) maker(t ID) *graph.Node {
	if t == graph.None {
		return nil
	}
	n := e.forwardMakers[t]
	if n == nil {
		n = e.makers[t]
	}
	if n == nil || n.Domain != "" {
		return nil
	}
	return n
}

// zeroStays is t, but 0 where the gradient d is 0, if the loss may leave elements of d
// out: t is d times a slope that may be infinite or no number there. Such an element has
// no influence on the loss, so its gradient is 0 (PyTorch's is 0·∞, which is no number).
func (c *Backward) zeroStays(d, t ID) ID {
	visits := mostVisits
	if c.err != nil || !c.leftOut(d, &visits) {
		return t
	}
	return c.where(c.op("Equal", d, c.scalar(d, 0)), c.scalar(t, 0), t)
}

// leftOut reports whether elements of a gradient may be 0 because the loss does not read what
// they belong to. A Where, a Clip, a Relu or a maximum chose something else; a Slice or a
// Gather left it out.
func (e *emitter) leftOut(d ID, visits *int) bool {
	n := e.makers[d]
	*visits--
	if n == nil || n.Domain != "" || *visits < 0 {
		return false
	}
	some := func(list ...ID) bool {
		return slices.ContainsFunc(list, func(t ID) bool { return e.leftOut(t, visits) })
	}
	switch n.Op {
	case "Where":
		return e.isZero(n.Inputs[1]) || e.isZero(n.Inputs[2]) || some(n.Inputs[1:]...)
	case "Pad", "ScatterElements", "ScatterND", "ConstantOfShape":
		return true
	case "Cast":
		return e.typeOf(n.Inputs[0]).Elem == graph.Bool || some(n.Inputs[0])
	case "Mul", "Concat":
		return some(n.Inputs...)
	case "Add", "Sum":
		return !slices.ContainsFunc(n.Inputs, func(t ID) bool { return !e.leftOut(t, visits) })
	case "Div", "Neg", "Identity", "Reshape", "Transpose", "Expand", "Slice", "Split", "Gather", "GatherElements", "GatherND", "ReduceSum":
		return some(n.Inputs[0])
	}
	return false
}

// isZero reports whether a tensor is the constant 0.
func (e *emitter) isZero(t ID) bool { return e.isNumberAt(t, func(v float64) bool { return v == 0 }) }

// isNumberAt reports whether all elements of a tensor are known and satisfy holds.
func (e *emitter) isNumberAt(t ID, holds func(float64) bool) bool {
	if t == graph.None {
		return false
	}
	list, ok := e.values[t].Floats()
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(v float64) bool { return !holds(v) })
}

// wild reports whether elements of a tensor of the forward graph may be infinite or no
// numbers where the loss is finite: elements of quotients, logarithms, powers and so on.
func (e *emitter) wild(t ID) bool {
	visits := mostVisits
	return e.isWild(t, &visits)
}

func (e *emitter) isWild(t ID, visits *int) bool {
	n := e.maker(t)
	*visits--
	if n == nil || *visits < 0 {
		return false
	}
	some := func(list []ID) bool {
		return slices.ContainsFunc(list, func(t ID) bool { return e.isWild(t, visits) })
	}
	switch n.Op {
	case "Exp":
		return !e.belowMaximum(n.Inputs[0])
	case "Sinh", "Cosh", "Acosh", "Asin", "Acos", "Atanh", "ReduceLogSum", "ReduceLogSumExp":
		return true
	case "Log", "Reciprocal":
		return e.bound(n.Inputs[0], visits) < positive
	case "Sqrt":
		return e.bound(n.Inputs[0], visits) < notNegative
	case "Div":
		return e.bound(n.Inputs[1], visits) < positive && !e.isNumberAt(n.Inputs[1], func(v float64) bool { return v != 0 }) || some(n.Inputs[:1])
	case "Pow":
		whole := e.isNumberAt(n.Inputs[1], func(v float64) bool { return v >= 0 && v == float64(int64(v)) })
		list, known := e.ints(n.Inputs[1])
		whole = whole || known && !slices.ContainsFunc(list, func(v int64) bool { return v < 0 })
		return !whole || some(n.Inputs[:1])
	case "Add", "Sub", "Mul", "Neg", "Abs", "Sin", "Cos", "Tan", "Sum", "Mean", "Max", "Min", "Where", "Relu", "LeakyRelu", "Concat",
		"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2":
		return some(n.Inputs)
	}
	return ops.Moves(n) && some(n.Inputs[:1])
}

// sign is what is known of the elements of a tensor.
type sign int8

const (
	anySign sign = iota
	notNegative
	positive
)

// signOf returns what is known of the sign of a tensor of the forward graph.
func (e *emitter) signOf(t ID) sign {
	visits := mostVisits
	return e.bound(t, &visits)
}

func (e *emitter) bound(t ID, visits *int) sign {
	switch {
	case e.isNumberAt(t, func(v float64) bool { return v > 0 }):
		return positive
	case e.isNumberAt(t, func(v float64) bool { return v >= 0 }):
		return notNegative
	}
	n := e.maker(t)
	*visits--
	if n == nil || *visits < 0 {
		return anySign
	}
	least := func(list []ID) sign {
		s := positive
		for _, t := range list {
			s = min(s, e.bound(t, visits))
		}
		return s
	}
	atLeast := func(t ID) sign { // of what is not below t
		if t == graph.None {
			return anySign
		}
		return e.bound(t, visits)
	}
	switch n.Op {
	case "Abs", "Relu", "Exp", "Sigmoid", "Softplus", "Softmax", "ReduceL1", "ReduceL2", "ReduceSumSquare", "HardSigmoid":
		return notNegative // an Exp may be rounded to 0
	case "Cosh":
		return positive
	case "Add", "Sum":
		s := least(n.Inputs)
		if s == notNegative && slices.ContainsFunc(n.Inputs, func(t ID) bool { return e.bound(t, visits) == positive }) {
			return positive
		}
		return s
	case "Mul":
		if n.Inputs[0] == n.Inputs[1] {
			return max(notNegative, e.bound(n.Inputs[0], visits))
		}
		return least(n.Inputs)
	case "Pow":
		if e.isNumberAt(n.Inputs[1], func(v float64) bool { return v == 2 || v == 4 }) {
			return max(notNegative, e.bound(n.Inputs[0], visits))
		}
		return e.bound(n.Inputs[0], visits)
	case "Max":
		s := anySign
		for _, t := range n.Inputs {
			s = max(s, e.bound(t, visits))
		}
		return s
	case "Clip":
		low := anySign
		if len(n.Inputs) > 1 {
			low = atLeast(n.Inputs[1])
		}
		return max(low, min(notNegative, e.bound(n.Inputs[0], visits)))
	case "Min", "Mean", "Div", "Concat":
		return least(n.Inputs)
	case "Where":
		return least(n.Inputs[1:])
	case "ReduceSum":
		if k := e.maker(n.Inputs[0]); k != nil && k.Op == "Exp" && e.belowMaximum(k.Inputs[0]) {
			return positive // one of the terms is 1
		}
		return e.bound(n.Inputs[0], visits)
	case "Sqrt", "Reciprocal", "ReduceMean", "ReduceMax", "ReduceMin":
		return e.bound(n.Inputs[0], visits)
	}
	if ops.Moves(n) {
		return e.bound(n.Inputs[0], visits)
	}
	return anySign
}

// belowMaximum reports whether t is a tensor minus its largest elements, as in a softmax
// that is spelled out.
func (e *emitter) belowMaximum(t ID) bool {
	n := e.maker(t)
	if n == nil || n.Op != "Sub" {
		return false
	}
	top := e.maker(n.Inputs[1])
	return top != nil && top.Op == "ReduceMax" && top.Inputs[0] == n.Inputs[0]
}

// flatAtZero reports whether no element of a tensor is below 0 and its gradient is 0
// where it is 0: a square, a sum of squares, what is clamped from below at 0. Its root has
// an infinite slope there, whose product with that 0 is no number. The root is a norm
// then, or a deviation, and its gradient is 0, as that of PyTorch's norm and std.
func (e *emitter) flatAtZero(t ID) bool {
	visits := mostVisits
	return e.isFlat(t, &visits)
}

func (e *emitter) isFlat(t ID, visits *int) bool {
	n := e.maker(t)
	*visits--
	if n == nil || *visits < 0 {
		return false
	}
	all := func(list []ID) bool {
		return !slices.ContainsFunc(list, func(t ID) bool { return !e.isFlat(t, visits) })
	}
	above := func(t ID, least float64) bool {
		return e.isNumberAt(t, func(v float64) bool { return v > least })
	}
	switch n.Op {
	case "ReduceSumSquare", "Relu":
		return true
	case "Mul":
		a, b := n.Inputs[0], n.Inputs[1]
		return a == b || above(a, 0) && e.isFlat(b, visits) || above(b, 0) && e.isFlat(a, visits)
	case "Div":
		return above(n.Inputs[1], 0) && e.isFlat(n.Inputs[0], visits)
	case "Pow":
		list, whole := e.ints(n.Inputs[1])
		even := e.isNumberAt(n.Inputs[1], func(v float64) bool { return v == 2 || v == 4 }) || whole && len(list) == 1 && (list[0] == 2 || list[0] == 4)
		return even || above(n.Inputs[1], 1) && e.bound(n.Inputs[0], visits) >= notNegative
	case "Clip":
		return len(n.Inputs) > 1 && e.isZero(n.Inputs[1])
	case "Max":
		return len(n.Inputs) == 2 && (e.isZero(n.Inputs[0]) || e.isZero(n.Inputs[1]))
	case "Add", "Sum", "Mean":
		return all(n.Inputs)
	case "ReduceSum", "ReduceMean":
		return e.isFlat(n.Inputs[0], visits)
	}
	return ops.Moves(n) && e.isFlat(n.Inputs[0], visits)
}
