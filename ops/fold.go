package ops

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Elements are folded as kernels would compute them: integers wrap at the width
// of their type, reals are rounded to theirs. A bounded element is any value of
// [0, I]. A function that is monotone in each argument maps a box of such ranges
// to the range of its values at the corners.

// hiddenScalar is an unknown element.
var hiddenScalar = Scalar{State: Hidden}

// foldEach folds an elementwise operator; f receives one element of each input.
// Legacy broadcasting from an axis on is not worth folding.
func foldEach(f func(c *Call, in []Scalar) Scalar) func(c *Call) {
	return func(c *Call) {
		if c.before(7) && c.HasAttr("axis") {
			return
		}
		foldBroadcast(c, func(in []Scalar) Scalar { return f(c, in) })
	}
}

// arith folds an operator of one or more inputs, from left to right, by a pair of
// functions that are monotone in both arguments: one for integers, one for reals.
func arith(onInts func(a, b int64) (int64, bool), onReals func(a, b float64) float64) func(c *Call) {
	return foldEach(func(c *Call, in []Scalar) Scalar {
		r := in[0]
		for _, s := range in[1:] {
			r = combine(c.In[0].Elem, r, s, onInts, onReals)
		}
		return r
	})
}

// combine applies one of two functions to two elements of type elem.
func combine(elem graph.DType, a, b Scalar, onInts func(a, b int64) (int64, bool), onReals func(a, b float64) float64) Scalar {
	switch {
	case a.State == Hidden || b.State == Hidden || onInts == nil && !elem.Floating() || onReals == nil && elem.Floating():
		return hiddenScalar
	case elem.Floating():
		return combineReals(elem, a, b, onReals)
	case elem == graph.Uint64 && (a.I < 0 || b.I < 0):
		return hiddenScalar // more than 63 bits
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for _, x := range [2]int64{a.least(), a.I} {
		for _, y := range [2]int64{b.least(), b.I} {
			v, ok := onInts(x, y)
			if !ok {
				return hiddenScalar
			}
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return intRange(elem, lo, hi)
}

func combineReals(elem graph.DType, a, b Scalar, f func(a, b float64) float64) Scalar {
	if a.State == Known && b.State == Known {
		return realRange(elem, f(a.F, b.F), f(a.F, b.F))
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range [2]float64{a.leastReal(), a.F} {
		for _, y := range [2]float64{b.leastReal(), b.F} {
			v := f(x, y)
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return hiddenScalar
			}
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return realRange(elem, lo, hi)
}

// least is the smallest possible integer value of s, which must not be hidden.
func (s Scalar) least() int64 {
	if s.State == Bounded {
		return 0
	}
	return s.I
}

// leastReal is the smallest possible real value of s, which must not be hidden.
func (s Scalar) leastReal() float64 {
	if s.State == Bounded {
		return 0
	}
	return s.F
}

// text formats an element of type elem for a message: 3, or <=3 if bounded.
func (s Scalar) text(elem graph.DType) string {
	t := fmt.Sprint(s.I)
	if elem.Floating() {
		t = fmt.Sprint(s.F)
	}
	switch s.State {
	case Bounded:
		return "<=" + t
	case Hidden:
		return "?"
	}
	return t
}

// intRange is an element of type elem that lies in [lo, hi].
func intRange(elem graph.DType, lo, hi int64) Scalar {
	if lo == hi {
		return wrapInt(elem, lo)
	}
	if _, most := intLimits(elem); lo < 0 || hi > most {
		return hiddenScalar
	}
	return Scalar{I: hi, State: Bounded}
}

// realRange is an element of type elem that lies in [lo, hi], rounded.
func realRange(elem graph.DType, lo, hi float64) Scalar {
	least, okLo := roundReal(elem, lo)
	most, okHi := roundReal(elem, hi)
	switch {
	case !okLo || !okHi:
		return hiddenScalar
	case lo == hi || math.IsNaN(lo):
		return Scalar{F: most}
	case least < 0 || math.IsInf(most, 0):
		return hiddenScalar
	}
	return Scalar{F: most, State: Bounded}
}

// intLimits returns the least and largest value of an integer type or bool,
// clamped to 63 bits.
func intLimits(elem graph.DType) (least, most int64) {
	b := elem.Bits()
	switch elem {
	case graph.Bool:
		return 0, 1
	case graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint4, graph.Uint2:
		return 0, 1<<b - 1
	case graph.Uint64:
		return 0, math.MaxInt64
	case graph.Int8, graph.Int16, graph.Int32, graph.Int4, graph.Int2:
		return -1 << (b - 1), 1<<(b-1) - 1
	}
	return math.MinInt64, math.MaxInt64
}

// wrapInt keeps the low bits of v that an integer of type elem has.
func wrapInt(elem graph.DType, v int64) Scalar {
	least, most := intLimits(elem)
	switch {
	case least <= v && v <= most:
		return Scalar{I: v}
	case elem == graph.Uint64 || elem == graph.Bool:
		return hiddenScalar
	}
	v &= 1<<elem.Bits() - 1
	if v > most {
		v -= 1 << elem.Bits()
	}
	return Scalar{I: v}
}

// roundReal rounds x to type elem, ties to even; false for types whose values are
// never folded (8 bits or fewer).
func roundReal(elem graph.DType, x float64) (float64, bool) {
	switch elem {
	case graph.Float64:
		return x, true
	case graph.Float32:
		return float64(float32(x)), true
	case graph.Float16:
		return roundMantissa(x, 11, -14, 65504), true
	case graph.BFloat16:
		return roundMantissa(x, 8, -126, 0x1.FEp127), true
	}
	return 0, false
}

// roundMantissa rounds x to a binary format with the given number of significant
// bits, smallest normal exponent and largest value.
func roundMantissa(x float64, digits, leastExp int, largest float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, exp := math.Frexp(x)
	unit := max(exp-digits, leastExp-digits+1)
	y := math.Ldexp(math.RoundToEven(math.Ldexp(x, -unit)), unit)
	if math.Abs(y) > largest {
		return math.Inf(int(math.Copysign(1, y)))
	}
	return y
}

// castScalar converts an element as Cast does. The result is hidden where C
// leaves it undefined (a real that the integer type cannot hold).
func castScalar(from, to graph.DType, s Scalar) Scalar {
	switch {
	case s.State == Hidden || !isNumber(from) || !isNumber(to):
		return hiddenScalar
	case from == to:
		return s
	case to == graph.Bool:
		return castToBool(from, s)
	case from.Floating() && to.Floating():
		return realRange(to, s.leastReal(), s.F)
	case to.Floating():
		lo, hi := float64(s.least()), float64(s.I)
		if from == graph.Uint64 && s.I < 0 {
			lo, hi = float64(uint64(s.I)), float64(uint64(s.I))
		}
		if s.State == Known {
			lo = hi
		}
		return realRange(to, lo, hi)
	case from.Floating():
		least, most := intLimits(to)
		v := math.Trunc(s.F)
		if !(v >= float64(least) && v <= float64(most)) || v >= 1<<63 {
			return hiddenScalar
		}
		return intRange(to, int64(math.Trunc(s.leastReal())), int64(v))
	case to == graph.Int64 && from == graph.Uint64, to == graph.Uint64 && from == graph.Int64:
		return s // the same 64 bits
	}
	return intRange(to, s.least(), s.I)
}

func castToBool(from graph.DType, s Scalar) Scalar {
	zero := s.I == 0
	if from.Floating() {
		zero = s.F == 0
	}
	switch {
	case zero:
		return Scalar{}
	case s.State == Known:
		return Scalar{I: 1}
	}
	return hiddenScalar
}

// isNumber reports whether elements of that type can be folded.
func isNumber(elem graph.DType) bool {
	return elem.Integer() || elem.Floating() || elem == graph.Bool
}

// Functions on integers; false if runtimes disagree on the result.

func subChecked(a, b int64) (int64, bool) {
	d := a - b
	return d, (d < a) == (b > 0)
}

// divTruncated rounds towards 0, as C does.
func divTruncated(a, b int64) (int64, bool) {
	if b == 0 || a == math.MinInt64 && b == -1 {
		return 0, false
	}
	return a / b, true
}

func powInts(a, b int64) (int64, bool) {
	if b < 0 {
		return 0, false
	}
	if a == 0 || a == 1 {
		if b == 0 {
			return 1, true
		}
		return a, true
	}
	if a == -1 {
		return 1 - 2*(b&1), true
	}
	r, ok := int64(1), b < 64
	for ; ok && b > 0; b-- {
		r, ok = mulChecked(r, a)
	}
	return r, ok
}

// floorMod is a - floor(a/b)*b: it has the sign of b.
func floorMod(a, b int64) (int64, bool) {
	if b == 0 {
		return 0, false
	}
	if b == -1 {
		return 0, true
	}
	r := a % b
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r, true
}

// shiftBits shifts x by y bits to the left or, arithmetically, to the right.
func shiftBits(elem graph.DType, left bool, x, y int64) Scalar {
	width := elem.Bits()
	switch {
	case y < 0 || y >= width:
		if !left && x < 0 && elem != graph.Uint64 {
			return Scalar{I: -1}
		}
		return Scalar{}
	case !left && elem == graph.Uint64:
		return Scalar{I: int64(uint64(x) >> y)}
	case !left:
		return Scalar{I: x >> y}
	case width == 64:
		return Scalar{I: x << y}
	}
	return wrapInt(elem, x<<y) // fits: both have at most 32 bits
}
