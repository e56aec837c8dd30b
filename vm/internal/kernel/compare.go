package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
)

// comparisons lists the operators that compare numbers, combine truth values or bits,
// or choose between two inputs.
var comparisons = family{"", []Kernel{
	{Name: "Equal", Make: legacy(compareBy(func(order int) bool { return order == 0 }))},
	{Name: "Less", Make: legacy(compareBy(func(order int) bool { return order == -1 }))},
	{Name: "LessOrEqual", Make: compareBy(func(order int) bool { return order == -1 || order == 0 })},
	{Name: "Greater", Make: legacy(compareBy(func(order int) bool { return order == 1 }))},
	{Name: "GreaterOrEqual", Make: compareBy(func(order int) bool { return order == 1 || order == 0 })},
	{Name: "And", Make: legacy(logical(func(a, b bool) bool { return a && b }))},
	{Name: "Or", Make: legacy(logical(func(a, b bool) bool { return a || b }))},
	{Name: "Xor", Make: legacy(logical(func(a, b bool) bool { return a != b }))},
	{Name: "Not", Make: func(c *Invocation) (Run, error) { return rowwise(c, perElement1(func(a uint8) bool { return a == 0 })) }},
	{Name: "IsNaN", Make: makeIsNaN},
	{Name: "IsInf", Make: makeIsInf},
	{Name: "BitwiseAnd", Make: bitwise(func(a, b uint64) uint64 { return a & b })},
	{Name: "BitwiseOr", Make: bitwise(func(a, b uint64) uint64 { return a | b })},
	{Name: "BitwiseXor", Make: bitwise(func(a, b uint64) uint64 { return a ^ b })},
	{Name: "BitwiseNot", Make: makeBitwiseNot},
	{Name: "BitShift", Make: makeBitShift},
	{Name: "Where", Make: makeWhere, Half: true},
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

// compareBy makes the kernel of a relation, given by the orders that satisfy it.
func compareBy(holds func(order int) bool) func(*Invocation) (Run, error) {
	var table [4]bool
	for k := range table {
		table[k] = holds(k - 1)
	}
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return relation[float32](c, table)
		case graph.Float64:
			return relation[float64](c, table)
		case graph.Int64:
			return relation[int64](c, table)
		case graph.Int32:
			return relation[int32](c, table)
		case graph.Int16:
			return relation[int16](c, table)
		case graph.Int8:
			return relation[int8](c, table)
		case graph.Uint64:
			return relation[uint64](c, table)
		case graph.Uint32:
			return relation[uint32](c, table)
		case graph.Uint16:
			return relation[uint16](c, table)
		case graph.Uint8:
			return relation[uint8](c, table)
		case graph.Bool:
			return logical(func(a, b bool) bool { return table[order(truth(a), truth(b))+1] })(c)
		case graph.String: // equal strings are equal numbers; no operator orders strings
			return relation[uint64](c, table)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

func relation[T number](c *Invocation, table [4]bool) (Run, error) {
	return loopsOf(func(a, b T) bool { return table[order(a, b)+1] }).run(c)
}

// logical makes the kernel of a function of two truth values. Every byte but 0 is true,
// since a file can hold any byte.
func logical(f func(a, b bool) bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		return loopsOf(func(a, b uint8) bool { return f(a != 0, b != 0) }).run(c)
	}
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
		return rowwise(c, nans[float32])
	case graph.Float64:
		return rowwise(c, nans[float64])
	}
	return nil, unsupported(c.In[0].Type)
}

// nans says for each element of a whether it is NaN. A call for each would take more
// than twice as long.
func nans[T floating](d []bool, a []T) {
	d = d[:len(a)]
	for i, x := range a {
		d[i] = x != x
	}
}

func makeIsInf(c *Invocation) (Run, error) {
	negative, positive := c.Int("detect_negative", 1) != 0, c.Int("detect_positive", 1) != 0
	is := func(a float64) bool { return negative && math.IsInf(a, -1) || positive && math.IsInf(a, 1) }
	switch c.In[0].Type {
	case graph.Float32:
		return rowwise(c, perElement1(func(a float32) bool { return is(float64(a)) }))
	case graph.Float64:
		return rowwise(c, perElement1(is))
	}
	return nil, unsupported(c.In[0].Type)
}

// bitwise makes the kernel of an operation on bits, which is the same for signed and
// unsigned dtypes.
func bitwise(f func(a, b uint64) uint64) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].width() {
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
	switch c.In[0].width() {
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
	switch c.Out[0].width() {
	case 1:
		return where[uint8](c)
	case 2:
		return where[uint16](c)
	case 4:
		return where[uint32](c)
	case 8:
		return where[uint64](c)
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
		d := span[T](element[T](out, row*s.n+from), to-from)
		p := unsafe.Add(cond.At, s.at(row, 0)+from*s.inner[0])
		a, b := element[T](x, s.at(row, 1)+from*s.inner[1]), element[T](y, s.at(row, 2)+from*s.inner[2])
		var zero T
		size := int(unsafe.Sizeof(zero))
		for i := range d {
			if *(*uint8)(unsafe.Add(p, i*s.inner[0])) != 0 {
				d[i] = *(*T)(unsafe.Add(a, i*s.inner[1]*size))
			} else {
				d[i] = *(*T)(unsafe.Add(b, i*s.inner[2]*size))
			}
		}
	}), nil
}
