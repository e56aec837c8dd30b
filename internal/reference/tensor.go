package reference

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Tensor is a value: elements in row-major order.
type Tensor struct {
	Type  graph.DType
	Shape []int
	F     []float64 // of a floating-point type
	I     []int64   // of an integer type, uint64 by its bits; of bool: 0 and 1
}

// Reals returns a float64 tensor.
func Reals(shape []int, v ...float64) *Tensor {
	return &Tensor{Type: graph.Float64, Shape: shape, F: v}
}

// Ints returns an int64 tensor.
func Ints(shape []int, v ...int64) *Tensor {
	return &Tensor{Type: graph.Int64, Shape: shape, I: v}
}

// Holds reports whether the evaluator supports elements of a type.
func Holds(t graph.DType) bool {
	switch t {
	case graph.Float16, graph.BFloat16, graph.Float32, graph.Float64:
		return true
	}
	return minifloats[t] != nil || t.Integer() || t == graph.Bool
}

func isFloat(t graph.DType) bool { return t.Floating() }

// zeros returns a tensor of zeros.
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
	if m := minifloats[d.Type]; m != nil && raw == nil && len(d.Ints) == n { // codes
		for i, code := range d.Ints {
			x.F[i] = m.values[int(code)%len(m.values)]
		}
		return x, nil
	}
	if raw == nil {
		if len(d.Floats) != len(x.F) || len(d.Ints) != len(x.I) {
			return nil, fmt.Errorf("tensor %q: has %d and %d elements, expected %d", d.Name, len(d.Floats), len(d.Ints), n)
		}
		copy(x.F, d.Floats)
		copy(x.I, d.Ints)
		return x, nil
	}
	x, err := Decode(d.Type, shape, raw)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", d.Name, err)
	}
	return x, nil
}

// Decode reads little-endian elements in row-major order; elements of fewer than 8
// bits fill each byte from its low bits.
func Decode(t graph.DType, shape []int, raw []byte) (*Tensor, error) {
	if !Holds(t) {
		return nil, fmt.Errorf("type %v: not held", t)
	}
	n, bits := size(shape), int(t.Bits())
	if want := (n*bits + 7) / 8; len(raw) != want {
		return nil, fmt.Errorf("has %d bytes, expected %d", len(raw), want)
	}
	x := zeros(t, shape)
	switch t {
	case graph.Float32:
		for i := range x.F {
			x.F[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		}
		return x, nil
	case graph.Float64:
		for i := range x.F {
			x.F[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
		return x, nil
	}
	for i := range n {
		var v uint64
		if bits < 8 {
			v = uint64(raw[i*bits/8]) >> (i * bits % 8) & (1<<bits - 1)
		} else {
			for k := range bits / 8 {
				v |= uint64(raw[i*bits/8+k]) << (8 * k)
			}
		}
		switch {
		case t == graph.Float16:
			x.F[i] = halfValue(uint16(v))
		case t == graph.BFloat16:
			x.F[i] = float64(math.Float32frombits(uint32(v) << 16))
		case isFloat(t):
			x.F[i] = minifloats[t].values[v]
		default:
			x.I[i] = wrap(t, int64(v))
		}
	}
	return x, nil
}

// Encode writes elements in the form that Decode reads. Floating-point elements must be
// values of the type.
func (x *Tensor) Encode() []byte {
	bits := int(x.Type.Bits())
	raw := make([]byte, (size(x.Shape)*bits+7)/8)
	for i := range size(x.Shape) {
		v := x.code(i)
		if bits < 8 {
			raw[i*bits/8] |= byte(v&(1<<bits-1)) << (i * bits % 8)
			continue
		}
		for k := range bits / 8 {
			raw[i*bits/8+k] = byte(v >> (8 * k))
		}
	}
	return raw
}

// code returns the bits of element i.
func (x *Tensor) code(i int) uint64 {
	if !isFloat(x.Type) {
		return uint64(x.I[i])
	}
	v := x.F[i]
	switch x.Type {
	case graph.Float64:
		return math.Float64bits(v)
	case graph.Float32:
		return uint64(math.Float32bits(float32(v)))
	case graph.BFloat16:
		return uint64(math.Float32bits(float32(v)) >> 16)
	case graph.Float16:
		return uint64(halfCode(v))
	}
	for code, w := range minifloats[x.Type].values {
		if math.Float64bits(v) == math.Float64bits(w) || math.IsNaN(v) && math.IsNaN(w) {
			return uint64(code)
		}
	}
	return 0
}

// halfCode encodes a float16.
func halfCode(v float64) uint16 {
	sign := uint16(math.Float64bits(v) >> 63 << 15)
	a := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return sign | 0x7e00
	case math.IsInf(v, 0):
		return sign | 0x7c00
	case a < 0x1p-14:
		return sign | uint16(math.Ldexp(a, 24))
	}
	frac, exp := math.Frexp(a)
	return sign | uint16(exp+14)<<10 | uint16(math.Ldexp(frac, 11))&1023
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

// round rounds to a floating-point type of 16 bits, ties to even; it returns values of
// other types unchanged.
func round(t graph.DType, v float64) float64 {
	var digits, low int // of the significand; the exponent of the smallest subnormal
	var largest float64
	switch t {
	case graph.Float16:
		digits, low, largest = 11, -24, 65504
	case graph.BFloat16:
		digits, low, largest = 8, -133, 0x1.fep127
	default:
		if m := minifloats[t]; m != nil {
			return m.nearest(v, true)
		}
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
	case graph.Int4:
		return int64(int8(v<<4) >> 4)
	case graph.Int2:
		return int64(int8(v<<6) >> 6)
	case graph.Uint4:
		return v & 15
	case graph.Uint2:
		return v & 3
	case graph.Bool:
		if v != 0 {
			return 1
		}
	}
	return v
}

// rounded rounds or wraps the elements to the type.
func (x *Tensor) rounded() *Tensor {
	for i, v := range x.F {
		x.F[i] = round(x.Type, v)
	}
	for i, v := range x.I {
		x.I[i] = wrap(x.Type, v)
	}
	return x
}

// size returns the number of elements of a shape.
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

// index returns the index of the element at a position.
func index(shape, at []int) int {
	i := 0
	for k, p := range at {
		i = i*shape[k] + p
	}
	return i
}

// pick returns a tensor of that shape with the elements of x whose indices from lists;
// -1 means zero.
func (x *Tensor) pick(shape []int, from []int) *Tensor {
	y := zeros(x.Type, shape)
	for j, i := range from {
		if i >= 0 {
			y.copy(j, x, i)
		}
	}
	return y
}

// ChannelsFirst returns an image of that shape, channels first, from the same image with
// its channels last.
func (x *Tensor) ChannelsFirst(shape []int) *Tensor {
	last := append([]int{shape[0]}, append(slices.Clone(shape[2:]), shape[1])...)
	from := make([]int, 0, size(shape))
	each(shape, func(at []int) {
		from = append(from, index(last, append([]int{at[0]}, append(slices.Clone(at[2:]), at[1])...)))
	})
	return x.pick(shape, from)
}

// copy sets element j to element i of x.
func (y *Tensor) copy(j int, x *Tensor, i int) {
	if isFloat(y.Type) {
		y.F[j] = x.F[i]
	} else {
		y.I[j] = x.I[i]
	}
}

// moved returns a tensor of that shape. source writes the position in x of each
// element; if it returns false, the element is zero.
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

// walked returns a tensor of that shape whose element at a position is the element of
// x at index start + Σ position[axis]·stride[axis].
func (x *Tensor) walked(shape, strides []int, start int) *Tensor {
	y := zeros(x.Type, shape)
	if size(shape) == 0 {
		return y
	}
	last := len(shape) - 1
	if last < 0 {
		y.copy(0, x, start)
		return y
	}
	j := 0
	each(shape[:last], func(at []int) {
		i := start
		for k, p := range at {
			i += p * strides[k]
		}
		n, step := shape[last], strides[last]
		if isFloat(x.Type) {
			for k := range n {
				y.F[j+k] = x.F[i+k*step]
			}
		} else {
			for k := range n {
				y.I[j+k] = x.I[i+k*step]
			}
		}
		j += n
	})
	return y
}

// strides returns the distance between neighbours along each axis, in elements.
func strides(shape []int) []int {
	s, step := make([]int, len(shape)), 1
	for k := len(shape) - 1; k >= 0; k-- {
		s[k] = step
		step *= shape[k]
	}
	return s
}

// spread broadcasts x to a shape.
func (x *Tensor) spread(shape []int) *Tensor {
	lead := len(shape) - len(x.Shape)
	steps := make([]int, len(shape))
	for k, s := range strides(x.Shape) {
		if x.Shape[k] != 1 {
			steps[lead+k] = s
		}
	}
	return x.walked(shape, steps, 0)
}

// shaped returns x with another shape of the same number of elements.
func (x *Tensor) shaped(shape ...int) *Tensor {
	y := *x
	y.Shape = append([]int{}, shape...)
	return &y
}

// permuted permutes the axes: axis k of the result is axis perm[k] of x.
func (x *Tensor) permuted(perm ...int) *Tensor {
	shape, steps := make([]int, len(perm)), make([]int, len(perm))
	s := strides(x.Shape)
	for k, p := range perm {
		shape[k], steps[k] = x.Shape[p], s[p]
	}
	return x.walked(shape, steps, 0)
}

// real returns element i as a float64, whatever the type.
func (x *Tensor) real(i int) float64 {
	switch {
	case isFloat(x.Type):
		return x.F[i]
	case x.Type == graph.Uint64:
		return float64(uint64(x.I[i]))
	}
	return float64(x.I[i])
}

// set sets element i, whatever the type; for integer types it truncates v.
func (x *Tensor) set(i int, v float64) {
	switch {
	case isFloat(x.Type):
		x.F[i] = v
	case x.Type == graph.Uint64 && v >= 1<<63:
		x.I[i] = int64(uint64(v))
	default:
		x.I[i] = int64(v)
	}
}

// clone returns a copy of x.
func (x *Tensor) clone() *Tensor {
	return &Tensor{Type: x.Type, Shape: append([]int{}, x.Shape...), F: append([]float64(nil), x.F...), I: append([]int64(nil), x.I...)}
}
