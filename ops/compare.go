package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// comparisons compare, combine truth values and bits, and choose between two
// inputs.
var comparisons = family{"", []Op{
	{Name: "Equal", Class: Elementwise, Infer: inferCompare, Cut: cutBroadcast, Fold: foldCompare(equalRanges[int64], equalRanges[float64]), Inplace: overAny},
	{Name: "Less", Class: Elementwise, Infer: inferCompare, Cut: cutBroadcast, Fold: foldCompare(lessRanges[int64], lessRanges[float64]), Inplace: overAny},
	{Name: "LessOrEqual", Class: Elementwise, Infer: inferCompare, Cut: cutBroadcast, Fold: foldCompare(notLarger[int64], notLarger[float64]), Inplace: overAny},
	{Name: "Greater", Class: Elementwise, Infer: inferCompare, Cut: cutBroadcast, Fold: foldCompare(swapped(lessRanges[int64]), swapped(lessRanges[float64])), Inplace: overAny},
	{Name: "GreaterOrEqual", Class: Elementwise, Infer: inferCompare, Cut: cutBroadcast, Fold: foldCompare(swapped(notLarger[int64]), swapped(notLarger[float64])), Inplace: overAny},
	{Name: "IsNaN", Class: Elementwise, Infer: unaryToBool, Cut: cutUnary, Inplace: overFirst},
	{Name: "IsInf", Class: Elementwise, Infer: unaryToBool, Cut: cutUnary, Inplace: overFirst},

	{Name: "And", Class: Elementwise, Infer: inferLogical, Cut: cutBroadcast, Fold: foldEach(foldAnd), Inplace: overAny},
	{Name: "Or", Class: Elementwise, Infer: inferLogical, Cut: cutBroadcast, Fold: foldEach(foldOr), Inplace: overAny},
	{Name: "Xor", Class: Elementwise, Infer: inferLogical, Cut: cutBroadcast, Fold: foldKnownInts(func(a, b int64) int64 { return boolScalar((a != 0) != (b != 0)).I }), Inplace: overAny},
	{Name: "Not", Class: Elementwise, Infer: inferNot, Cut: cutUnary, Fold: foldKnownInts(func(a, _ int64) int64 { return boolScalar(a == 0).I }), Inplace: overFirst},

	{Name: "BitwiseAnd", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: foldKnownInts(func(a, b int64) int64 { return a & b }), Inplace: overAny},
	{Name: "BitwiseOr", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: foldKnownInts(func(a, b int64) int64 { return a | b }), Inplace: overAny},
	{Name: "BitwiseXor", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: foldKnownInts(func(a, b int64) int64 { return a ^ b }), Inplace: overAny},
	{Name: "BitwiseNot", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldBitwiseNot, Inplace: overFirst},
	{Name: "BitShift", Class: Elementwise, Infer: inferBitShift, Cut: cutBroadcast, Fold: foldEach(foldBitShift), Inplace: overAny},

	{Name: "Where", Class: Elementwise, Infer: inferWhere, Cut: cutBroadcast, Fold: foldEach(foldWhere), Inplace: overBranches},
}}

// inferCompare: two inputs of one element type, broadcast, to bool.
func inferCompare(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	return broadcastPair(c, graph.Bool)
}

// inferLogical: two inputs of bool, broadcast.
func inferLogical(c *Call) error {
	for i := range 2 {
		if err := c.needElem(i, graph.Bool); err != nil {
			return err
		}
	}
	return inferCompare(c)
}

func inferNot(c *Call) error {
	if err := c.needElem(0, graph.Bool); err != nil {
		return err
	}
	return unaryToBool(c)
}

func unaryToBool(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	c.setLike(0, 0, graph.Bool)
	return nil
}

func inferBitShift(c *Call) error {
	if d := c.Str("direction", ""); d != "LEFT" && d != "RIGHT" {
		return c.Errf("direction is %q, expected LEFT or RIGHT", graph.Short(d))
	}
	return broadcastBinary(c)
}

// inferWhere: a condition and two branches of one element type, broadcast.
func inferWhere(c *Call) error {
	if err := c.takes(3, 3); err != nil {
		return err
	}
	if err := c.needElem(0, graph.Bool); err != nil {
		return err
	}
	if err := c.sameElem(1, 2); err != nil {
		return err
	}
	elem := c.In[1].Elem
	if elem == graph.Undefined {
		elem = c.In[2].Elem
	}
	return broadcastTo(c, elem, 0, 1, 2)
}

// overBranches: Where may overwrite a branch, but not the condition.
func overBranches(c *Call) []graph.Alias { return overInputs(c, 1, 2) }

// A comparison of two ranges [lo, hi] is known if it has the same result for
// every pair of their members. A known value is a range of one element; NaN
// compares as false with all.

type comparison[T int64 | float64] func(aLo, aHi, bLo, bHi T) (result, known bool)

func equalRanges[T int64 | float64](aLo, aHi, bLo, bHi T) (result, known bool) {
	switch {
	case aHi < bLo || bHi < aLo:
		return false, true
	case !(aLo < aHi) && !(bLo < bHi):
		return aLo == bLo, true
	}
	return false, false
}

func lessRanges[T int64 | float64](aLo, aHi, bLo, bHi T) (result, known bool) {
	switch {
	case aHi < bLo:
		return true, true
	case !(aLo < bHi):
		return false, true
	}
	return false, false
}

func notLarger[T int64 | float64](aLo, aHi, bLo, bHi T) (result, known bool) {
	switch {
	case aHi <= bLo:
		return true, true
	case !(aLo <= bHi):
		return false, true
	}
	return false, false
}

func swapped[T int64 | float64](f comparison[T]) comparison[T] {
	return func(aLo, aHi, bLo, bHi T) (bool, bool) { return f(bLo, bHi, aLo, aHi) }
}

// foldCompare folds a comparison of integers, bools or reals.
func foldCompare(onInts comparison[int64], onReals comparison[float64]) func(c *Call) {
	return foldEach(func(c *Call, in []Scalar) Scalar {
		a, b := in[0], in[1]
		elem := c.In[0].Elem
		if a.State == Hidden || b.State == Hidden || !isNumber(elem) || elem == graph.Uint64 && (a.I < 0 || b.I < 0) {
			return hiddenScalar
		}
		var yes, known bool
		if elem.Floating() {
			yes, known = onReals(a.leastReal(), a.F, b.leastReal(), b.F)
		} else {
			yes, known = onInts(a.least(), a.I, b.least(), b.I)
		}
		if !known {
			return hiddenScalar
		}
		return boolScalar(yes)
	})
}

func boolScalar(b bool) Scalar {
	if b {
		return Scalar{I: 1}
	}
	return Scalar{}
}

// isFalse and isTrue report whether a bool is known to be false or true.
func isFalse(s Scalar) bool { return s.State != Hidden && s.I == 0 }
func isTrue(s Scalar) bool  { return s.State == Known && s.I != 0 }

func foldAnd(_ *Call, in []Scalar) Scalar {
	switch a, b := in[0], in[1]; {
	case isFalse(a) || isFalse(b):
		return boolScalar(false)
	case isTrue(a) && isTrue(b):
		return boolScalar(true)
	}
	return hiddenScalar
}

func foldOr(_ *Call, in []Scalar) Scalar {
	switch a, b := in[0], in[1]; {
	case isTrue(a) || isTrue(b):
		return boolScalar(true)
	case isFalse(a) && isFalse(b):
		return boolScalar(false)
	}
	return hiddenScalar
}

// foldKnownInts folds a function of bits or bools if all elements are known.
func foldKnownInts(f func(a, b int64) int64) func(c *Call) {
	return foldEach(func(c *Call, in []Scalar) Scalar {
		if !allKnown(in) || c.In[0].Elem.Floating() {
			return hiddenScalar
		}
		b := int64(0)
		if len(in) > 1 {
			b = in[1].I
		}
		return Scalar{I: f(in[0].I, b)}
	})
}

var foldBitwiseNot = foldEach(func(c *Call, in []Scalar) Scalar {
	switch elem := c.In[0].Elem; {
	case !allKnown(in) || !elem.Integer():
		return hiddenScalar
	case elem == graph.Uint64:
		return Scalar{I: ^in[0].I}
	default:
		return wrapInt(elem, ^in[0].I)
	}
})

func foldBitShift(c *Call, in []Scalar) Scalar {
	elem := c.In[0].Elem
	if !allKnown(in) || !elem.Integer() {
		return hiddenScalar
	}
	return shiftBits(elem, c.Str("direction", "") == "LEFT", in[0].I, in[1].I)
}

// foldWhere takes the known branch. If the condition is unknown, the larger of
// two bounds is the bound.
func foldWhere(c *Call, in []Scalar) Scalar {
	cond, x, y := in[0], in[1], in[2]
	switch {
	case isTrue(cond):
		return x
	case isFalse(cond) || x == y:
		return y
	case x.State == Hidden || y.State == Hidden:
		return hiddenScalar
	case c.Out[0].Elem.Floating():
		return realRange(c.Out[0].Elem, min(x.leastReal(), y.leastReal()), max(x.F, y.F))
	}
	return intRange(c.Out[0].Elem, min(x.least(), y.least()), max(x.I, y.I))
}
