package constant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// integer returns element i of an integer or bool tensor, uint64 by its bits.
func (t *Tensor) integer(i int) int64 {
	switch b := t.Raw[i*t.width():]; t.Type {
	case graph.Int64, graph.Uint64:
		return int64(binary.LittleEndian.Uint64(b))
	case graph.Int32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case graph.Uint32:
		return int64(binary.LittleEndian.Uint32(b))
	case graph.Int16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case graph.Uint16:
		return int64(binary.LittleEndian.Uint16(b))
	case graph.Int8:
		return int64(int8(b[0]))
	default:
		return int64(b[0])
	}
}

// setInteger sets element i; the bits that its type lacks are cut off.
func (t *Tensor) setInteger(i int, v int64) {
	b := t.Raw[i*t.width():]
	switch t.width() {
	case 8:
		binary.LittleEndian.PutUint64(b, uint64(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	default:
		b[0] = byte(v)
	}
}

func (t *Tensor) float32(i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(t.Raw[4*i:]))
}

func (t *Tensor) float64(i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(t.Raw[8*i:]))
}

func (t *Tensor) setFloat32(i int, v float32) {
	binary.LittleEndian.PutUint32(t.Raw[4*i:], math.Float32bits(v))
}

func (t *Tensor) setFloat64(i int, v float64) {
	binary.LittleEndian.PutUint64(t.Raw[8*i:], math.Float64bits(v))
}

// errNaN: the sign and the payload of a NaN that is computed depend on the processor.
var errNaN = fmt.Errorf("computes a NaN, whose bits depend on the processor")

func isInteger(t graph.DType) bool { return t.Integer() && Holds(t) }

// binary2 computes an operator of two inputs that broadcast.
func binary2(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	y := c.out[0]
	if c.version < 7 {
		return fmt.Errorf("not computed before opset 7")
	}
	a, err := broadcast(c.x(0), y.Shape)
	if err != nil {
		return err
	}
	b, err := broadcast(c.x(1), y.Shape)
	if err != nil {
		return err
	}
	if a.Type != b.Type {
		return fmt.Errorf("types %v and %v", a.Type, b.Type)
	}
	c.alloc(0)
	if f := comparisons[c.Op]; f != nil {
		return compare(y, a, b, f)
	}
	if f := logic[c.Op]; f != nil && a.Type == graph.Bool && y.Type == graph.Bool {
		for i := range y.len() {
			y.Raw[i] = f(a.Raw[i], b.Raw[i])
		}
		return nil
	}
	if y.Type != a.Type {
		return fmt.Errorf("types %v and %v", a.Type, y.Type)
	}
	switch {
	case isInteger(y.Type):
		return onIntegers(c.Op, y, a, b)
	case y.Type == graph.Float32:
		f := onFloat32[c.Op]
		if f == nil {
			break
		}
		for i := range y.len() {
			v := f(a.float32(i), b.float32(i))
			if v != v {
				return errNaN
			}
			y.setFloat32(i, v)
		}
		return nil
	case y.Type == graph.Float64:
		f := onFloat64[c.Op]
		if f == nil {
			break
		}
		for i := range y.len() {
			v := f(a.float64(i), b.float64(i))
			if v != v {
				return errNaN
			}
			y.setFloat64(i, v)
		}
		return nil
	}
	return fmt.Errorf("%s of %v: not computed", c.Op, y.Type)
}

// The explicit conversions keep Go from fusing operations with others.
var (
	onFloat32 = map[string]func(a, b float32) float32{
		"Add": func(a, b float32) float32 { return float32(a + b) },
		"Sub": func(a, b float32) float32 { return float32(a - b) },
		"Mul": func(a, b float32) float32 { return float32(a * b) },
		"Div": func(a, b float32) float32 { return float32(a / b) },
	}
	onFloat64 = map[string]func(a, b float64) float64{
		"Add": func(a, b float64) float64 { return float64(a + b) },
		"Sub": func(a, b float64) float64 { return float64(a - b) },
		"Mul": func(a, b float64) float64 { return float64(a * b) },
		"Div": func(a, b float64) float64 { return float64(a / b) },
	}
)

// onIntegers computes with integers that wrap.
func onIntegers(op string, y, a, b *Tensor) error {
	for i := range y.len() {
		p, q := a.integer(i), b.integer(i)
		var v int64
		switch op {
		case "Add":
			v = p + q
		case "Sub":
			v = p - q
		case "Mul":
			v = p * q
		case "Div":
			if q == 0 || q == -1 || y.Type == graph.Uint64 {
				return fmt.Errorf("%d / %d: not computed", p, q)
			}
			v = p / q
		default:
			return fmt.Errorf("%s of %v: not computed", op, y.Type)
		}
		y.setInteger(i, v)
	}
	return nil
}

// logic holds the functions of two truth values, 0 and 1.
var logic = map[string]func(a, b byte) byte{
	"And": func(a, b byte) byte { return a & b },
	"Or":  func(a, b byte) byte { return a | b },
	"Xor": func(a, b byte) byte { return a ^ b },
}

// comparisons say for which signs of a - b a comparison holds.
var comparisons = map[string]func(sign int) bool{
	"Equal":          func(s int) bool { return s == 0 },
	"Less":           func(s int) bool { return s < 0 },
	"LessOrEqual":    func(s int) bool { return s <= 0 },
	"Greater":        func(s int) bool { return s > 0 },
	"GreaterOrEqual": func(s int) bool { return s >= 0 },
}

func compare(y, a, b *Tensor, holds func(sign int) bool) error {
	if y.Type != graph.Bool {
		return fmt.Errorf("the result has type %v", y.Type)
	}
	for i := range y.len() {
		sign := 0
		switch {
		case a.Type == graph.Float32 || a.Type == graph.Float64:
			p, q := a.real(i), b.real(i)
			if p != p || q != q {
				return errNaN
			}
			sign = signOf(p, q)
		case a.Type == graph.Uint64:
			sign = signOf(uint64(a.integer(i)), uint64(b.integer(i)))
		case isInteger(a.Type) || a.Type == graph.Bool:
			sign = signOf(a.integer(i), b.integer(i))
		default:
			return fmt.Errorf("%v: not compared", a.Type)
		}
		if holds(sign) {
			y.Raw[i] = 1
		}
	}
	return nil
}

func signOf[T int64 | uint64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// real returns element i of a float32 or float64 tensor.
func (t *Tensor) real(i int) float64 {
	if t.Type == graph.Float32 {
		return float64(t.float32(i))
	}
	return t.float64(i)
}

// The operators of one input, on integers and on reals; nil: not computed. To float32, Sqrt
// rounds twice, which gives the same.
var (
	negate   = unary(func(v int64) int64 { return -v }, func(v float64) float64 { return -v })
	absolute = unary(func(v int64) int64 { return max(v, -v) }, math.Abs)
	root     = unary(nil, math.Sqrt)
)

// not computes the negation of truth values.
func not(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	if x.Type != graph.Bool || y.Type != graph.Bool || x.len() != y.len() {
		return fmt.Errorf("types %v and %v", x.Type, y.Type)
	}
	c.alloc(0)
	for i, v := range x.Raw[:y.len()] {
		if y.Raw[i] = 1; v != 0 {
			y.Raw[i] = 0
		}
	}
	return nil
}

// unary computes an operator of one input.
func unary(integer func(v int64) int64, real func(v float64) float64) func(c *call) error {
	return func(c *call) error { return c.unary(integer, real) }
}

func (c *call) unary(integer func(v int64) int64, real func(v float64) float64) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	if x.Type != y.Type || x.len() != y.len() {
		return fmt.Errorf("types %v and %v", x.Type, y.Type)
	}
	c.alloc(0)
	for i := range y.len() {
		switch {
		case isInteger(x.Type) && x.Type != graph.Uint64 && integer != nil:
			y.setInteger(i, integer(x.integer(i)))
		case x.Type == graph.Float32 || x.Type == graph.Float64:
			v := real(x.real(i))
			if v != v {
				return errNaN
			}
			if x.Type == graph.Float32 {
				y.setFloat32(i, float32(v))
			} else {
				y.setFloat64(i, v)
			}
		default:
			return fmt.Errorf("%s of %v: not computed", c.Op, x.Type)
		}
	}
	return nil
}

// integerRange computes start, start + delta, …: sums of reals are rounded at each
// step in some runtimes.
func integerRange(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	y := c.out[0]
	for i := range 3 {
		if x := c.x(i); x.Type != y.Type || x.len() != 1 {
			return fmt.Errorf("input %d has type %v and %d elements", i, x.Type, x.len())
		}
	}
	if !isInteger(y.Type) || y.Type == graph.Uint64 {
		return fmt.Errorf("a range of %v is not computed", y.Type)
	}
	start, limit, delta := c.x(0).integer(0), c.x(1).integer(0), c.x(2).integer(0)
	n := int64(0)
	switch {
	case delta > 0 && start < limit:
		n = int64((uint64(limit) - uint64(start) + uint64(delta) - 1) / uint64(delta))
	case delta < 0 && start > limit:
		n = int64((uint64(start) - uint64(limit) + uint64(-delta) - 1) / uint64(-delta))
	}
	if int64(y.len()) != n {
		return fmt.Errorf("has %d elements, expected %d", n, y.len())
	}
	c.alloc(0)
	for i := range y.len() {
		y.setInteger(i, start+int64(i)*delta)
	}
	return nil
}

// cast converts elements where the result is determined.
func cast(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	from, to := x.Type, y.Type
	if x.len() != y.len() {
		return fmt.Errorf("has %d elements, expected %d", x.len(), y.len())
	}
	if from == to {
		y.Raw = x.Raw
		return nil
	}
	whole := func(t graph.DType) bool { return isInteger(t) || t == graph.Bool }
	wide := func(t graph.DType) bool { return t == graph.Float32 || t == graph.Float64 }
	c.alloc(0)
	switch {
	case whole(from) && whole(to):
		for i := range y.len() {
			v := x.integer(i)
			if to == graph.Bool && v != 0 {
				v = 1
			}
			y.setInteger(i, v)
		}
	case whole(from) && wide(to) && from != graph.Uint64:
		for i := range y.len() {
			if to == graph.Float32 {
				y.setFloat32(i, float32(x.integer(i)))
			} else {
				y.setFloat64(i, float64(x.integer(i)))
			}
		}
	case from == graph.Float16 && wide(to):
		for i := range y.len() {
			v, ok := half(binary.LittleEndian.Uint16(x.Raw[2*i:]))
			if !ok {
				return errNaN
			}
			y.setReal(i, v)
		}
	case wide(from) && wide(to):
		for i := range y.len() {
			v := x.real(i)
			if v != v {
				return errNaN
			}
			y.setReal(i, v)
		}
	case from == graph.Float32 && (to == graph.Float16 || to == graph.BFloat16):
		for i := range y.len() {
			v, ok := rounded(float32(x.real(i)), to)
			if !ok {
				return fmt.Errorf("%v as %v: no number", x.real(i), to)
			}
			binary.LittleEndian.PutUint16(y.Raw[2*i:], v)
		}
	case wide(from) && to == graph.Bool:
		for i := range y.len() {
			if x.real(i) != 0 {
				y.Raw[i] = 1
			}
		}
	case wide(from) && (to == graph.Int64 || to == graph.Int32):
		limit := float64(1 << 31)
		if to == graph.Int64 {
			limit = 1 << 63
		}
		for i := range y.len() {
			v := math.Trunc(x.real(i))
			if !(v >= -limit && v < limit) {
				return fmt.Errorf("%v as %v: not defined", v, to)
			}
			y.setInteger(i, int64(v))
		}
	default:
		return fmt.Errorf("%v as %v: not computed", from, to)
	}
	return nil
}

// setReal sets element i of a float32 or float64 tensor, rounded to nearest.
func (t *Tensor) setReal(i int, v float64) {
	if t.Type == graph.Float32 {
		t.setFloat32(i, float32(v))
	} else {
		t.setFloat64(i, v)
	}
}

// rounded is the number of a 16-bit type nearest to v, the even one of two; false if that is
// infinite and v is not, or if v is no number.
func rounded(v float32, to graph.DType) (uint16, bool) {
	bits := math.Float32bits(v)
	if to == graph.BFloat16 {
		b := uint16((bits + 0x7fff + bits>>16&1) >> 16)
		return b, v == v && (b&0x7fff < 0x7f80 || math.IsInf(float64(v), 0))
	}
	sign, a := uint16(bits>>16&0x8000), math.Abs(float64(v))
	switch {
	case v != v:
		return 0, false
	case math.IsInf(a, 0):
		return sign | 0x7c00, true
	case a == 0:
		return sign, true
	}
	e := max(math.Ilogb(a), -14)
	b := (e+14)<<10 + int(math.RoundToEven(math.Ldexp(a, 10-e))) // a fraction of 2 carries into the exponent
	return sign | uint16(b), b < 0x7c00
}

// half decodes a float16; false for a NaN.
func half(b uint16) (float64, bool) {
	exp, fraction := int(b>>10&31), float64(b&1023)
	v := math.Ldexp(1024+fraction, exp-25)
	switch exp {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction != 0 {
			return 0, false
		}
	}
	if b>>15 == 1 {
		v = math.Copysign(v, -1)
	}
	return v, true
}
