package graph

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Literal is a small tensor whose element type follows from its use: the value of
// a model's input.
type Literal struct {
	Shape []int64       `json:"shape"` // nil: any shape, filled with the only number
	Data  []json.Number `json:"data"`  // row by row; 0 and 1 for bool
}

// Elements returns the number of elements that the shape asks for; false if it has
// a negative length or the number overflows.
func (l Literal) Elements() (int64, bool) {
	if slices.ContainsFunc(l.Shape, func(n int64) bool { return n < 0 }) {
		return 0, false
	}
	dims := make([]Dim, len(l.Shape))
	for i, n := range l.Shape {
		dims[i] = Dim(n)
	}
	return TensorOf(Uint8, dims...).Elements()
}

// Filled is l with the given shape, if l has none: every element is its number.
func (l Literal) Filled(shape []int64) Literal {
	if l.Shape != nil || len(l.Data) != 1 {
		return l
	}
	f := Literal{Shape: append([]int64{}, shape...)}
	n, _ := f.Elements()
	f.Data = slices.Repeat(l.Data, int(n))
	return f
}

// Tensor converts l to a tensor of integers, bools, float32 or float64. A number
// must be representable; for a floating-point type it is rounded.
func (l Literal) Tensor(name string, d DType) (*Data, error) {
	if n, ok := l.Elements(); !ok || l.Shape == nil || n != int64(len(l.Data)) {
		return nil, fmt.Errorf("%d numbers, expected as many as shape %v has elements", len(l.Data), l.Shape)
	}
	t := &Data{Name: name, Type: d, Dims: l.Shape, Raw: []byte{}}
	for _, x := range l.Data {
		var err error
		if t.Raw, err = appendNumber(t.Raw, string(x), d); err != nil {
			return nil, err
		}
	}
	t.Bytes = int64(len(t.Raw))
	return t, nil
}

// appendNumber appends a number as an element of type d.
func appendNumber(b []byte, text string, d DType) ([]byte, error) {
	switch {
	case d == Float32 || d == Float64:
		x, err := strconv.ParseFloat(text, int(d.Bits()))
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return b, fmt.Errorf("%s: expected an element of %v", Short(text), d)
		}
		if d == Float32 {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x))), nil
		}
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)), nil
	case d != Bool && (!d.Integer() || d.Bits() < 8):
		return b, fmt.Errorf("expected an input of integers, bool, float32 or float64, found %v", d)
	}
	x, err := strconv.ParseInt(text, 10, 64)
	if f, ferr := strconv.ParseFloat(text, 64); err != nil && ferr == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		x, err = int64(f), nil // 1e3, or 640.0
	}
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	switch bits := d.Bits(); {
	case d == Bool:
		low, high = 0, 1
	case d == Uint8 || d == Uint16 || d == Uint32:
		low, high = 0, 1<<bits-1
	case d == Uint64:
		low = 0
	case bits < 64:
		low, high = -1<<(bits-1), 1<<(bits-1)-1
	}
	if err != nil || x < low || x > high {
		return b, fmt.Errorf("%s: expected an element of %v", Short(text), d)
	}
	for k := range d.Bits() / 8 {
		b = append(b, byte(x>>(8*k)))
	}
	return b, nil
}

// LiteralOf is the literal that a tensor of [Literal.Tensor] is made of, with each
// number in its shortest form.
func LiteralOf(d *Data) Literal {
	l := Literal{Shape: append([]int64{}, d.Dims...), Data: []json.Number{}}
	most := d.Elements()
	if list, ok := d.Integers(most); ok {
		for _, x := range list {
			l.Data = append(l.Data, json.Number(strconv.FormatInt(x, 10)))
		}
		return l
	}
	list, _ := d.Reals(most)
	width := 64
	if d.Type == Float32 {
		width = 32
	}
	for _, x := range list {
		l.Data = append(l.Data, json.Number(strconv.FormatFloat(x, 'g', -1, width)))
	}
	return l
}

// Equal reports whether two literals have the same shape and the same texts.
func (l Literal) Equal(m Literal) bool {
	return (l.Shape == nil) == (m.Shape == nil) && slices.Equal(l.Shape, m.Shape) && slices.Equal(l.Data, m.Data)
}

// String prints a literal as numbers in brackets, shortened if it is long.
func (l Literal) String() string {
	text, _ := json.Marshal(l.nested(l.Shape, l.Data))
	return Short(string(text))
}

// nested is the part of a literal with the given shape as JSON arrays.
func (l Literal) nested(shape []int64, data []json.Number) any {
	if len(shape) == 0 {
		if len(data) == 0 {
			return nil
		}
		return data[0]
	}
	list := []any{}
	if len(data) > 0 {
		step := len(data) / int(shape[0])
		for i := range int(shape[0]) {
			list = append(list, l.nested(shape[1:], data[i*step:(i+1)*step]))
		}
	}
	return list
}
