package reference

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Tensor is a value: elements in row-major order.
type Tensor struct {
	Type  graph.DType
	Shape []int
	F     []float64 // of a floating-point type
	I     []int64   // of an integer type; of bool: 0 and 1
}

// Reals is a float64 tensor.
func Reals(shape []int, v ...float64) *Tensor {
	return &Tensor{Type: graph.Float64, Shape: shape, F: v}
}

// Ints is an int64 tensor.
func Ints(shape []int, v ...int64) *Tensor {
	return &Tensor{Type: graph.Int64, Shape: shape, I: v}
}

// Holds reports whether the evaluator can hold elements of a type.
func Holds(t graph.DType) bool {
	switch t {
	case graph.Float16, graph.BFloat16, graph.Float32, graph.Float64:
		return true
	case graph.Uint4, graph.Int4, graph.Uint2, graph.Int2:
		return false
	}
	return t.Integer() || t == graph.Bool
}

func isFloat(t graph.DType) bool { return t.Floating() }

// zeros is a tensor of zeros.
func zeros(t graph.DType, shape []int) *Tensor {
	x := &Tensor{Type: t, Shape: append([]int{}, shape...)}
	if isFloat(t) {
		x.F = make([]float64, size(shape))
	} else {
		x.I = make([]int64, size(shape))
	}
	return x
}

// FromData reads the elements of an initializer.
func FromData(d *graph.Data) (*Tensor, error) {
	shape := make([]int, len(d.Dims))
	for i, n := range d.Dims {
		shape[i] = int(n)
	}
	if !Holds(d.Type) || d.External != nil || d.Sparse != nil {
		return nil, fmt.Errorf("tensor %q of type %v: not held", d.Name, d.Type)
	}
	x := zeros(d.Type, shape)
	n := size(shape)
	raw := d.Raw
	if d.Generate != nil {
		var b bytes.Buffer
		if err := d.Generate(&b); err != nil {
			return nil, err
		}
		raw = b.Bytes()
	}
	if raw == nil {
		if len(d.Floats) != len(x.F) || len(d.Ints) != len(x.I) {
			return nil, fmt.Errorf("tensor %q: has %d and %d elements, expected %d", d.Name, len(d.Floats), len(d.Ints), n)
		}
		copy(x.F, d.Floats)
		copy(x.I, d.Ints)
		return x, nil
	}
	width := int(d.Type.Bits() / 8)
	if len(raw) != n*width {
		return nil, fmt.Errorf("tensor %q: has %d bytes, expected %d", d.Name, len(raw), n*width)
	}
	for i := range n {
		b := raw[i*width:]
		switch d.Type {
		case graph.Float32:
			x.F[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case graph.Float64:
			x.F[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case graph.Float16:
			x.F[i] = halfValue(binary.LittleEndian.Uint16(b))
		case graph.BFloat16:
			x.F[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		default:
			var v uint64
			for k := range width {
				v |= uint64(b[k]) << (8 * k)
			}
			x.I[i] = wrap(d.Type, int64(v))
		}
	}
	return x, nil
}

// halfValue decodes a float16.
func halfValue(b uint16) float64 {
	sign := 1.0
	if b>>15 == 1 {
		sign = -1
	}
	exp, frac := int(b>>10&31), float64(b&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// round rounds to an element type of 16 bits, to even; others keep their digits.
func round(t graph.DType, v float64) float64 {
	var digits, low int // of the significand; the exponent of the smallest subnormal
	var largest float64
	switch t {
	case graph.Float16:
		digits, low, largest = 11, -24, 65504
	case graph.BFloat16:
		digits, low, largest = 8, -133, 0x1.fep127
	default:
		return v
	}
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	_, exp := math.Frexp(v)
	unit := max(exp-digits, low)
	v = math.Ldexp(math.RoundToEven(math.Ldexp(v, -unit)), unit)
	if math.Abs(v) > largest {
		return math.Inf(int(math.Copysign(1, v)))
	}
	return v
}

// wrap cuts an integer to the bits of its type.
func wrap(t graph.DType, v int64) int64 {
	switch t {
	case graph.Int8:
		return int64(int8(v))
	case graph.Int16:
		return int64(int16(v))
	case graph.Int32:
		return int64(int32(v))
	case graph.Uint8:
		return int64(uint8(v))
	case graph.Uint16:
		return int64(uint16(v))
	case graph.Uint32:
		return int64(uint32(v))
	case graph.Bool:
		if v != 0 {
			return 1
		}
	}
	return v
}

// rounded makes the elements what the type can hold.
func (x *Tensor) rounded() *Tensor {
	for i, v := range x.F {
		x.F[i] = round(x.Type, v)
	}
	for i, v := range x.I {
		x.I[i] = wrap(x.Type, v)
	}
	return x
}

// size is the number of elements of a shape.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// each visits all positions of a shape in row-major order. at is reused.
func each(shape []int, visit func(at []int)) {
	if size(shape) == 0 {
		return
	}
	at := make([]int, len(shape))
	for {
		visit(at)
		k := len(at) - 1
		for ; k >= 0; k-- {
			if at[k]++; at[k] < shape[k] {
				break
			}
			at[k] = 0
		}
		if k < 0 {
			return
		}
	}
}

// index is the number of the element at a position.
func index(shape, at []int) int {
	i := 0
	for k, p := range at {
		i = i*shape[k] + p
	}
	return i
}

// pick makes a tensor of that shape out of the elements whose numbers from
// lists; -1 stands for a zero.
func (x *Tensor) pick(shape []int, from []int) *Tensor {
	y := zeros(x.Type, shape)
	for j, i := range from {
		if i >= 0 {
			y.copy(j, x, i)
		}
	}
	return y
}

// copy sets element j to element i of x.
func (y *Tensor) copy(j int, x *Tensor, i int) {
	if isFloat(y.Type) {
		y.F[j] = x.F[i]
	} else {
		y.I[j] = x.I[i]
	}
}

// moved makes a tensor of that shape whose element at a position is the one of
// x at the position that source writes; a zero where it gives false.
func (x *Tensor) moved(shape []int, source func(at, src []int) bool) *Tensor {
	from := make([]int, 0, size(shape))
	src := make([]int, len(x.Shape))
	each(shape, func(at []int) {
		if source(at, src) {
			from = append(from, index(x.Shape, src))
		} else {
			from = append(from, -1)
		}
	})
	return x.pick(shape, from)
}

// spread repeats x to a shape that it broadcasts to.
func (x *Tensor) spread(shape []int) *Tensor {
	lead := len(shape) - len(x.Shape)
	return x.moved(shape, func(at, src []int) bool {
		for k, n := range x.Shape {
			src[k] = 0
			if n != 1 {
				src[k] = at[lead+k]
			}
		}
		return true
	})
}

// shaped is x under another shape of as many elements.
func (x *Tensor) shaped(shape ...int) *Tensor {
	y := *x
	y.Shape = append([]int{}, shape...)
	return &y
}

// permuted exchanges axes: axis k of the result is axis perm[k] of x.
func (x *Tensor) permuted(perm ...int) *Tensor {
	shape := make([]int, len(perm))
	for k, p := range perm {
		shape[k] = x.Shape[p]
	}
	return x.moved(shape, func(at, src []int) bool {
		for k, p := range perm {
			src[p] = at[k]
		}
		return true
	})
}

// real is element i as a float64, whatever the type.
func (x *Tensor) real(i int) float64 {
	if isFloat(x.Type) {
		return x.F[i]
	}
	return float64(x.I[i])
}

// set sets element i, whatever the type; floats are cut towards zero.
func (x *Tensor) set(i int, v float64) {
	if isFloat(x.Type) {
		x.F[i] = v
	} else {
		x.I[i] = int64(v)
	}
}

// clone copies x.
func (x *Tensor) clone() *Tensor {
	return &Tensor{Type: x.Type, Shape: append([]int{}, x.Shape...), F: append([]float64(nil), x.F...), I: append([]int64(nil), x.I...)}
}
