package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// elementwise lists arithmetic: operators whose output element depends on the
// elements of the inputs at the same position, under numpy's broadcasting.
// Activations, comparisons and casts have their own files.
var elementwise = family{"", []Op{
	{Name: "Add", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: arith(addChecked, addReals), Inplace: overAny, FLOPs: onePerElement, Weights: []int{0, 1}, Kinds: []string{"bias"}, Joins: true},
	{Name: "Sub", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: arith(subChecked, subReals), Inplace: overAny, FLOPs: onePerElement},
	{Name: "Mul", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: foldMul, Inplace: overAny, FLOPs: onePerElement, Weights: []int{0, 1}, Kinds: []string{"scale"}, Joins: true},
	{Name: "Div", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: arith(divTruncated, divReals), Inplace: overAny, FLOPs: onePerElement},
	{Name: "Mod", Class: Elementwise, Infer: broadcastBinary, Cut: cutBroadcast, Fold: foldMod, Inplace: overAny, FLOPs: onePerElement},
	{Name: "Pow", Class: Elementwise, Precision: Full, Exp: 2, Infer: inferPow, Cut: cutBroadcast, Fold: foldEach(foldPow), Inplace: overAny, FLOPs: onePerElement},
	{Name: "Sum", Class: Elementwise, Infer: broadcastAll, Cut: cutBroadcast, Fold: arith(addChecked, addReals), Views: viewOfOnly, Inplace: overAny, FLOPs: onePerInput},
	{Name: "Mean", Class: Elementwise, Infer: broadcastAll, Cut: cutBroadcast, Fold: foldEach(foldMean), Views: viewOfOnly, Inplace: overAny, FLOPs: onePerInput},
	{Name: "Min", Class: Elementwise, Infer: broadcastAll, Cut: cutBroadcast, Fold: arith(minInts, math.Min), Views: viewOfOnly, Inplace: overAny, FLOPs: onePerInput},
	{Name: "Max", Class: Elementwise, Infer: broadcastAll, Cut: cutBroadcast, Fold: arith(maxInts, math.Max), Views: viewOfOnly, Inplace: overAny, FLOPs: onePerInput},

	{Name: "Abs", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(absInt, math.Abs), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Neg", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(negInt, func(x float64) float64 { return -x }), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Sign", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(signInt, signReal), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Floor", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(nil, math.Floor), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Ceil", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(nil, math.Ceil), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Round", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(nil, math.RoundToEven), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Sqrt", Class: Elementwise, Infer: unary, Cut: cutUnary, Fold: foldUnary(nil, math.Sqrt), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Reciprocal", Class: Elementwise, Precision: Full, Infer: unary, Cut: cutUnary, Fold: foldUnary(nil, func(x float64) float64 { return 1 / x }), Inplace: overFirst, FLOPs: onePerElement},

	// Not folded: libraries differ in the last bit of these, and a length rounded
	// up from such a value would be off by one.
	{Name: "Exp", Class: Elementwise, Precision: Full, Exp: 1, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Log", Class: Elementwise, Precision: Full, Exp: 1.6, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Erf", Class: Elementwise, Exp: 3, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Sin", Class: Elementwise, Exp: 4, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Cos", Class: Elementwise, Exp: 4, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Tan", Class: Elementwise, Precision: Full, Exp: 5, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Asin", Class: Elementwise, Precision: Full, Exp: 1.5, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Acos", Class: Elementwise, Precision: Full, Exp: 1.5, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Atan", Class: Elementwise, Exp: 1.5, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Sinh", Class: Elementwise, Precision: Full, Exp: 20, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Cosh", Class: Elementwise, Precision: Full, Exp: 20, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Asinh", Class: Elementwise, Exp: 10, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Acosh", Class: Elementwise, Exp: 10, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Atanh", Class: Elementwise, Exp: 10, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
}}

// before reports whether the node is an operator of the standard domain in an
// opset before v.
func (c *Call) before(v int64) bool {
	return c.Node.Domain == "" && c.Version != 0 && c.Version < v
}

// takes fails unless the node has least to most inputs, the first least of them
// are present, and all present ones are tensors.
func (c *Call) takes(least, most int) error {
	if err := c.Need(least); err != nil {
		return err
	}
	for i, a := range c.In {
		switch {
		case !a.Present:
		case i >= most:
			return c.Errf("input %d%s is one too many: expected at most %d inputs", i, c.inputName(i), most)
		case a.Kind != graph.KindTensor && a.Kind != graph.KindUnknown:
			return c.BadInput(i, "a tensor")
		}
	}
	return nil
}

// sameElem fails unless the element types of the inputs, where known, are equal.
func (c *Call) sameElem(inputs ...int) error {
	first := -1
	for _, i := range inputs {
		elem := c.Arg(i).Elem
		switch {
		case elem == graph.Undefined:
		case first < 0:
			first = i
		case elem != c.In[first].Elem:
			return c.Errf("input %d%s has elements of type %v, expected %v as input %d", i, c.inputName(i), elem, c.In[first].Elem, first)
		}
	}
	return nil
}

// needElem fails unless input i, if present, has elements of that type.
func (c *Call) needElem(i int, elem graph.DType) error {
	if have := c.Arg(i).Elem; have != graph.Undefined && have != elem {
		return c.Errf("input %d%s has elements of type %v, expected %v", i, c.inputName(i), have, elem)
	}
	return nil
}

// unary: one tensor in, one like it out.
func unary(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	c.setLike(0, 0, c.In[0].Elem)
	return nil
}

// setLike gives output o the shape of input i, with elements of type elem.
func (c *Call) setLike(o, i int, elem graph.DType) {
	t := c.In[i].Type
	c.SetType(o, graph.Type{Kind: graph.KindTensor, Elem: elem, Ranked: t.Ranked, Shape: t.Shape})
}

// inferPow: the output has the base's element type; from opset 12 on the
// exponent may have another.
func inferPow(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	return broadcastPair(c, c.In[0].Elem)
}

// broadcastAll: any number of inputs of one element type, broadcast; before
// opset 8 all of one shape.
func broadcastAll(c *Call) error {
	if err := c.takes(max(1, len(c.In)), math.MaxInt); err != nil {
		return err
	}
	inputs := make([]int, len(c.In))
	for i := range inputs {
		inputs[i] = i
	}
	if err := c.sameElem(inputs...); err != nil {
		return err
	}
	if err := broadcastTo(c, c.In[0].Elem, inputs...); err != nil || !c.before(8) {
		return err
	}
	for i, a := range c.In {
		first := c.In[0].Type
		if first.Ranked && a.Ranked && !slices.EqualFunc(first.Shape, a.Shape, SameDim) {
			return c.BadInput(i, "%s as input 0 (opsets before 8 do not broadcast here)", graph.ShapeString(first.Shape))
		}
	}
	return nil
}

// viewOfOnly: with one input, the result is a view of it.
func viewOfOnly(c *Call) []graph.Alias {
	if len(c.In) == 1 {
		return []graph.Alias{{Out: 0, In: 0}}
	}
	return nil
}

// overFirst: output 0 may overwrite input 0.
func overFirst(c *Call) []graph.Alias {
	if c.sameShapeAndSize(0, 0) {
		return []graph.Alias{{Out: 0, In: 0}}
	}
	return nil
}

// overAny: output 0 may overwrite any input of its own shape and element size.
func overAny(c *Call) []graph.Alias {
	inputs := make([]int, len(c.In))
	for i := range inputs {
		inputs[i] = i
	}
	return overInputs(c, inputs...)
}

// overInputs is overAny for some of the inputs. Two bounded shapes are equal at
// run time only if their lengths have one identity, or if no other input can
// broadcast because each has one element.
func overInputs(c *Call, inputs ...int) []graph.Alias {
	var pairs []graph.Alias
	for _, i := range inputs {
		if c.sameShapeAndSize(0, i) && (identified(c.Out[0].Shape) || c.othersAreSingle(i)) {
			pairs = append(pairs, graph.Alias{Out: 0, In: i})
		}
	}
	return pairs
}

// identified reports whether every length is exact or has an identity, so that
// equal shapes stay equal at run time.
func identified(shape []graph.Dim) bool {
	return !slices.ContainsFunc(shape, func(d graph.Dim) bool { return !d.Exact() && d.Identity() == 0 })
}

// othersAreSingle reports whether every other input has exactly one element and no more
// axes than input i.
func (c *Call) othersAreSingle(i int) bool {
	for k, a := range c.In {
		if k != i && a.Present && !(a.Ranked && len(a.Shape) <= len(c.In[i].Shape) && isOne(a.Shape)) {
			return false
		}
	}
	return true
}

// sameShapeAndSize reports whether output o and input i have equal shapes and element sizes.
func (c *Call) sameShapeAndSize(o, i int) bool {
	if o >= len(c.Out) || !c.Out[o].Present || !c.Has(i) {
		return false
	}
	a, b := c.Out[o].Type, c.In[i].Type
	if a.Kind != graph.KindTensor || b.Kind != graph.KindTensor || !a.Ranked || !b.Ranked ||
		a.Elem.Bits() != b.Elem.Bits() || a.Elem.Bits() == 0 || len(a.Shape) != len(b.Shape) {
		return false
	}
	for k, d := range a.Shape {
		if d != b.Shape[k] || d == graph.Unknown {
			return false
		}
	}
	return true
}

// onePerElement counts one operation for each element of a floating-point output
// 0.
func onePerElement(c *Call) int64 {
	if len(c.Out) == 0 || !c.Out[0].Elem.Floating() {
		return 0
	}
	n, _ := c.Out[0].Elements()
	return n
}

// onePerInput counts one operation for each element and each input after the
// first.
func onePerInput(c *Call) int64 {
	n, ok := mulChecked(onePerElement(c), int64(len(c.In)-1))
	if !ok {
		return 0
	}
	return n
}

// foldUnary folds an operator of one input by a pair of monotone functions.
func foldUnary(onInts func(int64) (int64, bool), onReals func(float64) float64) func(c *Call) {
	var ints func(a, _ int64) (int64, bool)
	if onInts != nil {
		ints = func(a, _ int64) (int64, bool) { return onInts(a) }
	}
	reals := func(a, _ float64) float64 { return onReals(a) }
	return foldEach(func(c *Call, in []Scalar) Scalar {
		return combine(c.In[0].Elem, in[0], Scalar{}, ints, reals)
	})
}

func addReals(a, b float64) float64 { return a + b }
func subReals(a, b float64) float64 { return a - b }
func mulReals(a, b float64) float64 { return a * b }
func divReals(a, b float64) float64 { return a / b }

func minInts(a, b int64) (int64, bool) { return min(a, b), true }
func maxInts(a, b int64) (int64, bool) { return max(a, b), true }
func negInt(a int64) (int64, bool)     { return -a, a != math.MinInt64 }
func absInt(a int64) (int64, bool)     { return max(a, -a), a != math.MinInt64 }

func signInt(a int64) (int64, bool) { return min(max(a, -1), 1), true }

func signReal(a float64) float64 {
	switch {
	case a > 0:
		return 1
	case a < 0:
		return -1
	}
	return a // zero or NaN
}

// foldMul: 0 times an integer is 0, even if the other factor is unknown.
var foldMul = foldEach(func(c *Call, in []Scalar) Scalar {
	elem := c.In[0].Elem
	if !elem.Floating() && (in[0] == Scalar{} || in[1] == Scalar{}) {
		return Scalar{}
	}
	s := combine(elem, in[0], in[1], mulChecked, mulReals)
	if !elem.Floating() && s.State == Bounded {
		s.Of = c.multiplied(graph.AtMost(s.I), in[0].Dim(), in[1].Dim()).Identity()
	}
	return s
})

// foldMod: with fmod=0 the sign is that of the divisor, as in Python; with fmod=1
// that of the dividend, as in C. Mod is not monotone: of a bounded dividend, only
// the divisor's bound remains.
var foldMod = foldEach(func(c *Call, in []Scalar) Scalar {
	a, b := in[0], in[1]
	elem := c.In[0].Elem
	truncated := c.Int("fmod", 0) != 0
	if !elem.Floating() && b.State == Known && b.I > 0 && a.State != Known && (a.State == Bounded || !truncated) {
		most := b.I - 1
		if a.State == Bounded {
			most = min(most, a.I)
		}
		return intRange(elem, 0, most)
	}
	if !allKnown(in) {
		return hiddenScalar
	}
	if !truncated {
		return combine(elem, a, b, floorMod, func(x, y float64) float64 {
			r := math.Mod(x, y)
			if r != 0 && (r < 0) != (y < 0) {
				r += y
			}
			return r
		})
	}
	return combine(elem, a, b, func(x, y int64) (int64, bool) {
		if y == 0 {
			return 0, false
		}
		if y == -1 {
			return 0, true
		}
		return x % y, true
	}, math.Mod)
})

// foldPow: an integer base to a real exponent goes through reals, as in C. A
// bounded base to a known exponent >= 0 is bounded.
func foldPow(c *Call, in []Scalar) Scalar {
	base, exponent := c.In[0].Elem, c.In[1].Elem
	a, b := in[0], in[1]
	switch {
	case b.State != Known || a.State == Hidden:
		return hiddenScalar
	case !base.Floating() && !exponent.Floating():
		return combine(base, a, b, powInts, nil)
	}
	x, y := castScalar(base, graph.Float64, a), castScalar(exponent, graph.Float64, b)
	if x.State == Bounded && y.F < 0 {
		return hiddenScalar
	}
	return castScalar(graph.Float64, base, combine(graph.Float64, x, y, nil, math.Pow))
}

// foldMean: the mean of reals, each sum rounded.
func foldMean(c *Call, in []Scalar) Scalar {
	elem := c.In[0].Elem
	sum := in[0]
	for _, s := range in[1:] {
		sum = combine(elem, sum, s, nil, addReals)
	}
	return combine(elem, sum, Scalar{F: float64(len(in))}, nil, divReals)
}
