package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// comparisons lists the operators that compare numbers, combine truth values or bits,
// or choose between two inputs.
var comparisons = family{"", []Kernel{
	{Name: "Equal", Make: legacy(compareBy(simd.Equal, false)), Link: relates(simd.Equal, false)},
	{Name: "Less", Make: legacy(compareBy(simd.Less, false)), Link: relates(simd.Less, false)},
	{Name: "LessOrEqual", Make: compareBy(simd.LessOrEqual, false), Link: relates(simd.LessOrEqual, false)},
	{Name: "Greater", Make: legacy(compareBy(simd.Less, true)), Link: relates(simd.Less, true)},
	{Name: "GreaterOrEqual", Make: compareBy(simd.LessOrEqual, true), Link: relates(simd.LessOrEqual, true)},
	{Name: "And", Make: legacy(logical(func(a, b bool) bool { return a && b }, simd.And)), Link: masks(simd.And)},
	{Name: "Or", Make: legacy(logical(func(a, b bool) bool { return a || b }, simd.Or)), Link: masks(simd.Or)},
	{Name: "Xor", Make: legacy(logical(func(a, b bool) bool { return a != b }, simd.Xor))},
	{Name: "Not", Make: func(c *Invocation) (Run, error) { return rowwise(c, func(d, a []uint8) { simd.Not(d, a[:len(d)]) }) }},
	{Name: "IsNaN", Make: makeIsNaN, Link: linkOfIsNaN},
	{Name: "IsInf", Make: makeIsInf},
	{Name: "BitwiseAnd", Make: bitwise(func(a, b uint64) uint64 { return a & b })},
	{Name: "BitwiseOr", Make: bitwise(func(a, b uint64) uint64 { return a | b })},
	{Name: "BitwiseXor", Make: bitwise(func(a, b uint64) uint64 { return a ^ b })},
	{Name: "BitwiseNot", Make: makeBitwiseNot},
	{Name: "BitShift", Make: makeBitShift},
	{Name: "Where", Make: makeWhere, Half: true, Link: linkOfWhere},
}}

// unordered is the order of two numbers of which at least one is NaN.
const unordered = 2

// order compares two numbers: it returns -1, 0, 1 or unordered.
func order[T number](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return unordered
}

// compareBy makes the kernel of a relation, with its operands swapped or not.
func compareBy(r simd.Relation, swapped bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return float32Relation(c, r, swapped)
		case graph.Float64:
			return relation[float64](c, r, swapped)
		case graph.Int64:
			return relation[int64](c, r, swapped)
		case graph.Int32:
			return relation[int32](c, r, swapped)
		case graph.Int16:
			return relation[int16](c, r, swapped)
		case graph.Int8:
			return relation[int8](c, r, swapped)
		case graph.Uint64:
			return relation[uint64](c, r, swapped)
		case graph.Uint32:
			return relation[uint32](c, r, swapped)
		case graph.Uint16:
			return relation[uint16](c, r, swapped)
		case graph.Uint8:
			return relation[uint8](c, r, swapped)
		case graph.Bool:
			return boolRelation(c, r, swapped)
		case graph.String: // equal strings are equal numbers; no operator orders strings
			return relation[uint64](c, r, swapped)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

// relation compares numbers in a loop for each relation.
func relation[T number](c *Invocation, r simd.Relation, swapped bool) (Run, error) {
	return relationLoops[T](r, swapped).run(c)
}

func relationLoops[T number](r simd.Relation, swapped bool) loops[T, bool] {
	var l loops[T, bool]
	switch r {
	case simd.Equal:
		vs := func(d []bool, a []T, b T) {
			for i, x := range a[:len(d)] {
				d[i] = x == b
			}
		}
		return loops[T, bool]{
			vv: func(d []bool, a, b []T) {
				a, b = a[:len(d)], b[:len(d)]
				for i := range d {
					d[i] = a[i] == b[i]
				}
			},
			vs: vs,
			sv: func(d []bool, a T, b []T) { vs(d, b, a) },
		}
	case simd.Less:
		l = loops[T, bool]{
			vv: func(d []bool, a, b []T) {
				a, b = a[:len(d)], b[:len(d)]
				for i := range d {
					d[i] = a[i] < b[i]
				}
			},
			vs: func(d []bool, a []T, b T) {
				for i, x := range a[:len(d)] {
					d[i] = x < b
				}
			},
			sv: func(d []bool, a T, b []T) {
				for i, y := range b[:len(d)] {
					d[i] = a < y
				}
			},
		}
	default:
		l = loops[T, bool]{
			vv: func(d []bool, a, b []T) {
				a, b = a[:len(d)], b[:len(d)]
				for i := range d {
					d[i] = a[i] <= b[i]
				}
			},
			vs: func(d []bool, a []T, b T) {
				for i, x := range a[:len(d)] {
					d[i] = x <= b
				}
			},
			sv: func(d []bool, a T, b []T) {
				for i, y := range b[:len(d)] {
					d[i] = a <= y
				}
			},
		}
	}
	if swapped {
		return l.swapped()
	}
	return l
}

// boolRelation compares truth values: false is less than true.
func boolRelation(c *Invocation, r simd.Relation, swapped bool) (Run, error) {
	return logical(func(a, b bool) bool {
		x, y := truth(a), truth(b)
		if swapped {
			x, y = y, x
		}
		switch r {
		case simd.Equal:
			return x == y
		case simd.Less:
			return x < y
		}
		return x <= y
	}, nil)(c)
}

// float32Relation compares many numbers at once.
func float32Relation(c *Invocation, r simd.Relation, swapped bool) (Run, error) {
	l := loops[float32, uint8]{
		vv: func(d []uint8, a, b []float32) { simd.Compare(d, a, b, r) },
		vs: func(d []uint8, a []float32, b float32) { simd.Compare(d, a, []float32{b}, r) },
		sv: func(d []uint8, a float32, b []float32) { simd.Compare(d, []float32{a}, b, r) },
	}
	if swapped {
		l = l.swapped()
	}
	return l.run(c)
}

// logical makes the kernel of a function of two truth values. Every byte but 0 is true,
// since a file can hold any byte. vectors, which may be nil, is f on lists.
func logical(f func(a, b bool) bool, vectors func(d, a, b []uint8)) func(*Invocation) (Run, error) {
	l := loopsOf(func(a, b uint8) uint8 { return truth(f(a != 0, b != 0)) })
	if vectors != nil {
		l.vv = vectors
	}
	return l.run
}

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// perElement1 is perElement for a function between two types.
func perElement1[T, U any](f func(T) U) func(d []U, a []T) {
	return func(d []U, a []T) {
		for i, x := range a[:len(d)] {
			d[i] = f(x)
		}
	}
}

func makeIsNaN(c *Invocation) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return rowwise(c, nans)
	case graph.Float64:
		return rowwise(c, perElement1(func(a float64) bool { return a != a }))
	}
	return nil, unsupported(c.In[0].Type)
}

// nans writes whether a number is NaN.
func nans(d []uint8, a []float32) { simd.Compare(d, a[:len(d)], a[:len(d)], simd.Unordered) }

func makeIsInf(c *Invocation) (Run, error) {
	negative, positive := c.Int("detect_negative", 1) != 0, c.Int("detect_positive", 1) != 0
	is := func(a float64) bool { return negative && math.IsInf(a, -1) || positive && math.IsInf(a, 1) }
	switch c.In[0].Type {
	case graph.Float32:
		return rowwise(c, func(d []uint8, a []float32) { infinities(d, a[:len(d)], negative, positive) })
	case graph.Float64:
		return rowwise(c, perElement1(is))
	}
	return nil, unsupported(c.In[0].Type)
}

// infinities writes whether a number is infinite, of the signs that are asked for.
func infinities(d []uint8, a []float32, negative, positive bool) {
	limit := []float32{float32(math.Inf(1))}
	switch {
	case negative && positive:
		var block [256]float32
		for from := 0; from < len(a); from += len(block) {
			size := block[:min(len(block), len(a)-from)]
			simd.Abs(size, a[from:])
			simd.Compare(d[from:from+len(size)], size, limit, simd.Equal)
		}
	case positive || negative:
		if negative {
			limit[0] = -limit[0]
		}
		simd.Compare(d, a, limit, simd.Equal)
	default:
		clear(d)
	}
}

// bitwise makes the kernel of an operation on bits, which is the same for signed and
// unsigned dtypes.
func bitwise(f func(a, b uint64) uint64) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Width() {
		case 8:
			return loopsOf(f).run(c)
		case 4:
			return loopsOf(func(a, b uint32) uint32 { return uint32(f(uint64(a), uint64(b))) }).run(c)
		case 2:
			return loopsOf(func(a, b uint16) uint16 { return uint16(f(uint64(a), uint64(b))) }).run(c)
		case 1:
			return loopsOf(func(a, b uint8) uint8 { return uint8(f(uint64(a), uint64(b))) }).run(c)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

func makeBitwiseNot(c *Invocation) (Run, error) {
	switch c.In[0].Width() {
	case 8:
		return rowwise(c, perElement(func(a uint64) uint64 { return ^a }))
	case 4:
		return rowwise(c, perElement(func(a uint32) uint32 { return ^a }))
	case 2:
		return rowwise(c, perElement(func(a uint16) uint16 { return ^a }))
	case 1:
		return rowwise(c, perElement(func(a uint8) uint8 { return ^a }))
	}
	return nil, unsupported(c.In[0].Type)
}

// makeBitShift shifts bits, with sign extension for signed dtypes. A shift by the width
// or more, or by a negative number, leaves nothing but the sign.
func makeBitShift(c *Invocation) (Run, error) {
	right := c.Str("direction", "") == "RIGHT"
	switch c.In[0].Type {
	case graph.Uint64:
		return loopsOf(shift[uint64](right)).run(c)
	case graph.Uint32:
		return loopsOf(shift[uint32](right)).run(c)
	case graph.Uint16:
		return loopsOf(shift[uint16](right)).run(c)
	case graph.Uint8:
		return loopsOf(shift[uint8](right)).run(c)
	case graph.Int64:
		return loopsOf(shift[int64](right)).run(c)
	case graph.Int32:
		return loopsOf(shift[int32](right)).run(c)
	case graph.Int16:
		return loopsOf(shift[int16](right)).run(c)
	case graph.Int8:
		return loopsOf(shift[int8](right)).run(c)
	}
	return nil, unsupported(c.In[0].Type)
}

func shift[T integer](right bool) func(a, b T) T {
	return func(a, b T) T {
		n := uint64(b)
		if b < 0 {
			n = 64
		}
		if right {
			return a >> n
		}
		return a << n
	}
}

// makeWhere selects elements of input 1 where the condition is true, else of input 2.
func makeWhere(c *Invocation) (Run, error) {
	switch c.Out[0].Width() {
	case 1:
		return where[uint8](c)
	case 2:
		return where[uint16](c)
	case 4:
		return where[uint32](c)
	case 8:
		return where[uint64](c)
	case 16:
		return where[[2]uint64](c)
	}
	return nil, unsupported(c.Out[0].Type)
}

func where[T any](c *Invocation) (Run, error) {
	cond, x, y, out := c.In[0], c.In[1], c.In[2], c.Out[0]
	s, err := newSweep(out.Shape, cond.Shape, x.Shape, y.Shape)
	if err != nil {
		return nil, err
	}
	return s.each(func(row, from, to, _ int) {
		n := to - from
		d := span[T](element[T](out, row*s.n+from), n)
		p := span[uint8](unsafe.Add(cond.At, s.at(row, 0)+from*s.inner[0]), s.length(0, n))
		a := span[T](element[T](x, s.at(row, 1)+from*s.inner[1]), s.length(1, n))
		b := span[T](element[T](y, s.at(row, 2)+from*s.inner[2]), s.length(2, n))
		if words, ok := any(d).([]uint32); ok && len(p) == n {
			simd.Choose(words, p, any(a).([]uint32), any(b).([]uint32))
			return
		}
		if halves, ok := any(d).([]uint16); ok && len(p) == n {
			simd.Choose16(halves, p, any(a).([]uint16), any(b).([]uint16))
			return
		}
		for i := range d {
			if p[i*s.inner[0]] != 0 {
				d[i] = a[i*s.inner[1]]
			} else {
				d[i] = b[i*s.inner[2]]
			}
		}
	}), nil
}
