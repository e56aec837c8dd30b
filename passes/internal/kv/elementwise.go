package kv

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// elementwiseTails says what the tail of a result is, by operator. Of other elementwise
// operators nothing is known.
var elementwiseTails = map[string]func(in []operand) tail{
	"Add": addTail, "Sub": number2(func(a, b float64) float64 { return a - b }),
	"Mul": mulTail, "Div": number2(func(a, b float64) float64 { return a / b }),
	"Min": number2(math.Min), "Max": maxTail, "Pow": number2(math.Pow),
	"And":   logic(func(a, b bool) bool { return a && b }, false),
	"Or":    logic(func(a, b bool) bool { return a || b }, true),
	"Xor":   number2(func(a, b float64) float64 { return math.Abs(a - b) }),
	"Equal": compareTail(func(a, b float64) bool { return a == b }, nil),
	// The index of an element of the tail is past + new or more.
	"Less":           compareTail(func(a, b float64) bool { return a < b }, atLeast(0, 1)),
	"LessOrEqual":    compareTail(func(a, b float64) bool { return a <= b }, atLeast(0, 1)),
	"Greater":        compareTail(func(a, b float64) bool { return a > b }, atLeast(1, 0)),
	"GreaterOrEqual": compareTail(func(a, b float64) bool { return a >= b }, atLeast(1, 0)),
	"Where":          whereTail,
	"Not":            number1(func(a float64) float64 { return truth(a == 0).value }),
	"Neg":            number1(func(a float64) float64 { return -a }),
	"Abs":            number1(math.Abs),
	"Cast":           castTail, "CastLike": castTail, "Identity": func(in []operand) tail { return in[0].tail },
}

func nothing([]operand) tail { return tail{} }

// castTail: 0, 1, and numbers that hide a score are so in every type.
func castTail(in []operand) tail {
	t := in[0].tail
	if t.kind == alike && !t.is(0) && !t.is(1) && !t.hides() {
		return tail{}
	}
	return t
}

// number1 and number2 compute the value of a tail whose elements are alike.
func number1(f func(a float64) float64) func(in []operand) tail {
	return func(in []operand) tail {
		if in[0].kind != alike {
			return tail{}
		}
		return of(f(in[0].value))
	}
}

func number2(f func(a, b float64) float64) func(in []operand) tail {
	return func(in []operand) tail {
		if len(in) != 2 || in[0].kind != alike || in[1].kind != alike {
			return tail{}
		}
		return of(f(in[0].value, in[1].value))
	}
}

// addTail: a score stays hidden whatever finite number is added.
func addTail(in []operand) tail {
	if in[0].kind == alike && in[1].kind == alike {
		return of(in[0].value + in[1].value)
	}
	for i := range in {
		if in[i].hides() && in[1-i].finite() {
			return tail{kind: hidden}
		}
	}
	return tail{}
}

func mulTail(in []operand) tail {
	for i := range in {
		if in[i].is(0) && in[1-i].finite() {
			return of(0)
		}
	}
	return number2(func(a, b float64) float64 { return a * b })(in)
}

// maxTail: the greater of two hidden scores is hidden.
func maxTail(in []operand) tail {
	if len(in) == 2 && in[0].hides() && in[1].hides() {
		return tail{kind: hidden}
	}
	return number2(math.Max)(in)
}

// logic: one operand may decide.
func logic(f func(a, b bool) bool, decides bool) func(in []operand) tail {
	return func(in []operand) tail {
		a, b := in[0], in[1]
		switch {
		case a.kind == alike && (a.value != 0) == decides, b.kind == alike && (b.value != 0) == decides:
			return truth(decides)
		case a.kind == alike && b.kind == alike:
			return truth(f(a.value != 0, b.value != 0))
		}
		return tail{}
	}
}

// compareTail compares alike elements, and indices with positions: index is the tail if
// every index is larger than every position, given the order of the operands.
func compareTail(f func(a, b float64) bool, index func(indexFirst bool) tail) func(in []operand) tail {
	return func(in []operand) tail {
		a, b := in[0], in[1]
		switch {
		case a.kind == alike && b.kind == alike:
			return truth(f(a.value, b.value))
		case index == nil:
		case a.keys && a.kind == indices && b.before():
			return index(true)
		case b.keys && b.kind == indices && a.before():
			return index(false)
		}
		return tail{}
	}
}

// atLeast is the result of comparing an index of the tail, which is larger than any
// position, as first and as second operand.
func atLeast(first, second float64) func(indexFirst bool) tail {
	return func(indexFirst bool) tail {
		if indexFirst {
			return of(first)
		}
		return of(second)
	}
}

// before reports whether an operand is a position of the tokens so far.
func (o *operand) before() bool { return o.at && o.bounds[1] < 0 }

// whereTail: a condition that is known chooses; else both results must be alike.
func whereTail(in []operand) tail {
	cond, x, y := in[0], in[1], in[2]
	switch {
	case cond.kind == alike && cond.value != 0:
		return x.tail
	case cond.kind == alike:
		return y.tail
	case x.kind == alike && y.kind == alike && x.value == y.value:
		return x.tail
	case x.hides() && y.hides():
		return tail{kind: hidden}
	}
	return tail{}
}

// elementwise is the rule of an operator that computes each element from those at the same
// place, under broadcasting.
func elementwise(f func(in []operand) tail) rule {
	return func(r *rewriter, n *graph.Node) error {
		out := n.Outputs[0]
		axis, err := r.keysAxis(out)
		if err != nil {
			return err
		}
		if axis < 0 {
			return r.refuse(n, "reads %q, which grows with the tokens, but its result does not", graph.Short(r.grown(n)))
		}
		pure := r.isPure(n)
		in := make([]operand, 0, len(n.Inputs))
		for i, t := range n.Inputs {
			if t < 0 {
				in = append(in, operand{})
				continue
			}
			o, err := r.operand(n, i, axis)
			if err != nil {
				return err
			}
			in = append(in, o)
			pure = pure && r.facts[t].kind != position
			if err := r.numbersAt(n, i); err != nil {
				return err
			}
		}
		r.set(n, fact{kind: keys, axis: axis, tail: f(in).as(r.full().g.Tensors[out].Type.Elem), pure: pure})
		return nil
	}
}

// as is a tail as elements of a type, to which a Cast may have rounded or cut them.
func (t tail) as(elem graph.DType) tail {
	switch {
	case t.kind == indices && elem != graph.Int64 && elem != graph.Int32 && elem != graph.Float64 && elem != graph.Float32,
		t.hides() && minusInfinity[elem] == nil:
		return tail{}
	}
	return t
}

// operand returns what is known of an input of an elementwise node whose result grows
// along an axis.
func (r *rewriter) operand(n *graph.Node, i, axis int) (operand, error) {
	t := n.Inputs[i]
	f := r.facts[t]
	if f.kind == keys {
		if f.axis+r.rank(n.Outputs[0])-r.rank(t) != axis {
			return operand{}, r.refuse(n, "input %d %q grows along axis %d, but the result along axis %d", i, graph.Short(r.nameOf(t)), f.axis, axis)
		}
		return operand{tail: f.tail, keys: true}, nil
	}
	if f.kind == position {
		o := operand{at: true}
		for k, l := range r.numbers(t) {
			at := l.base - r.fresh // past + new is 0
			o.at = o.at && l.slope == 1
			if k == 0 {
				o.bounds = [2]int64{at, at}
			}
			o.bounds = [2]int64{min(o.bounds[0], at), max(o.bounds[1], at)}
		}
		return o, nil
	}
	if v, ok := r.constant(t); ok {
		return operand{tail: of(v)}, nil
	}
	return operand{}, nil
}
