package graph

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// DType is an element type, numbered as ONNX's TensorProto.DataType.
type DType int32

// The element types.
const (
	Undefined    DType = 0
	Float32      DType = 1
	Uint8        DType = 2
	Int8         DType = 3
	Uint16       DType = 4
	Int16        DType = 5
	Int32        DType = 6
	Int64        DType = 7
	String       DType = 8
	Bool         DType = 9
	Float16      DType = 10
	Float64      DType = 11
	Uint32       DType = 12
	Uint64       DType = 13
	Complex64    DType = 14
	Complex128   DType = 15
	BFloat16     DType = 16
	Float8E4M3FN DType = 17
	Float8E4M3U  DType = 18
	Float8E5M2   DType = 19
	Float8E5M2U  DType = 20
	Uint4        DType = 21
	Int4         DType = 22
	Float4E2M1   DType = 23
	Float8E8M0   DType = 24
	Uint2        DType = 25
	Int2         DType = 26
	Float6E2M3   DType = 27
	Float6E3M2   DType = 28
)

var dtypes = [...]struct {
	name string
	bits int64 // 0: no fixed size
}{
	Undefined: {"undefined", 0}, Float32: {"float32", 32}, Uint8: {"uint8", 8}, Int8: {"int8", 8},
	Uint16: {"uint16", 16}, Int16: {"int16", 16}, Int32: {"int32", 32}, Int64: {"int64", 64},
	String: {"string", 0}, Bool: {"bool", 8}, Float16: {"float16", 16}, Float64: {"float64", 64},
	Uint32: {"uint32", 32}, Uint64: {"uint64", 64}, Complex64: {"complex64", 64}, Complex128: {"complex128", 128},
	BFloat16: {"bfloat16", 16}, Float8E4M3FN: {"float8e4m3fn", 8}, Float8E4M3U: {"float8e4m3fnuz", 8},
	Float8E5M2: {"float8e5m2", 8}, Float8E5M2U: {"float8e5m2fnuz", 8}, Uint4: {"uint4", 4}, Int4: {"int4", 4},
	Float4E2M1: {"float4e2m1", 4}, Float8E8M0: {"float8e8m0", 8}, Uint2: {"uint2", 2}, Int2: {"int2", 2},
	Float6E2M3: {"float6e2m3", 6}, Float6E3M2: {"float6e3m2", 6},
}

// Valid reports whether d is an element type that ONNX defines.
func (d DType) Valid() bool { return d > Undefined && int(d) < len(dtypes) }

// String is the type's usual name, such as "float32".
func (d DType) String() string {
	if d < 0 || int(d) >= len(dtypes) {
		return "data type " + strconv.Itoa(int(d))
	}
	return dtypes[d].name
}

// Bits is the size of one element in bits, 0 if it has no fixed size (string).
// Types of 2 and 4 bits are packed; types of 6 bits take a byte each.
func (d DType) Bits() int64 {
	if !d.Valid() {
		return 0
	}
	if b := dtypes[d].bits; b != 6 {
		return b
	}
	return 8
}

// Integer reports whether d is a signed or unsigned integer.
func (d DType) Integer() bool {
	switch d {
	case Uint8, Int8, Uint16, Int16, Int32, Int64, Uint32, Uint64, Uint4, Int4, Uint2, Int2:
		return true
	}
	return false
}

// Floating reports whether d is a floating-point type that is not complex.
func (d DType) Floating() bool {
	switch d {
	case Float32, Float16, Float64, BFloat16, Float8E4M3FN, Float8E4M3U, Float8E5M2, Float8E5M2U,
		Float4E2M1, Float8E8M0, Float6E2M3, Float6E3M2:
		return true
	}
	return false
}

// ErrTooLarge is returned for a size that does not fit 63 bits.
var ErrTooLarge = errors.New("size overflows 63 bits")

// SizeBytes returns the size in bytes of n elements of type d, rounded up to
// whole bytes for packed types. It fails with ErrTooLarge on overflow.
func (d DType) SizeBytes(n int64) (int64, error) {
	hi, lo := bits.Mul64(uint64(n), uint64(d.Bits()))
	if n < 0 || hi != 0 && hi > 3 {
		return 0, ErrTooLarge
	}
	sum, carry := bits.Add64(lo, 7, 0)
	hi += carry
	if hi >= 8 {
		return 0, ErrTooLarge
	}
	b := hi<<61 | sum>>3
	if b > math.MaxInt64 {
		return 0, ErrTooLarge
	}
	return int64(b), nil
}

// Dim is the length of one axis: exact (n >= 0), bounded from above (AtMost), or
// not known until the model runs (Unknown). A bounded length may have an
// identity: lengths with the same identity are equal at run time.
type Dim int64

// Unknown is a length about which nothing is known.
const Unknown Dim = -1

// A bounded length is -2-v, where the low bits of v hold the bound and the bits
// above them the identity. Bounds that do not fit have no identity and start at
// wideBound.
const (
	boundBits = 40
	// MostIdentities is the largest identity of a length.
	MostIdentities       = 1<<(62-boundBits) - 1
	wideBound      int64 = 1 << 62
)

// AtMost is a length that is known only at run time and is at most n >= 0. A
// bound of 2^62 or more is no bound.
func AtMost(n int64) Dim {
	switch {
	case n < 1<<boundBits:
		return Dim(-2 - n)
	case n < wideBound-2:
		return Dim(-2 - wideBound - n)
	}
	return Unknown
}

// WithIdentity sets the identity of a bounded length to id, from 1 to
// MostIdentities; 0 removes it. Other lengths, and those with a very large bound,
// are returned unchanged.
func (d Dim) WithIdentity(id int64) Dim {
	n, ok := d.Max()
	if d.Exact() || !ok || n >= 1<<boundBits || id < 0 || id > MostIdentities {
		return d
	}
	return Dim(-2 - (n | id<<boundBits))
}

// Identity is the identity of a bounded length, 0 if it has none.
func (d Dim) Identity() int64 {
	if v := -2 - int64(d); v >= 0 && v < wideBound {
		return v >> boundBits
	}
	return 0
}

// Exact reports whether the length is known.
func (d Dim) Exact() bool { return d >= 0 }

// Max returns the largest possible length of the axis; false if there is no
// bound.
func (d Dim) Max() (int64, bool) {
	if d >= 0 {
		return int64(d), true
	}
	if d == Unknown {
		return 0, false
	}
	v := -2 - int64(d)
	if v >= wideBound {
		return v - wideBound, true
	}
	return v & (1<<boundBits - 1), true
}

// String prints 3 for an exact length, <=3 for a bounded one, ? for an unknown one.
func (d Dim) String() string {
	switch n, ok := d.Max(); {
	case !ok:
		return "?"
	case d.Exact():
		return strconv.FormatInt(n, 10)
	default:
		return "<=" + strconv.FormatInt(n, 10)
	}
}

// Kind is the kind of a value.
type Kind int8

// The kinds of values. KindUnknown is the zero value: nothing is known.
const (
	KindUnknown Kind = iota
	KindTensor
	KindSparse
	KindSequence
	KindOptional
	KindMap
	KindOpaque
)

// String is the kind's name in messages.
func (k Kind) String() string {
	return [...]string{"unknown", "tensor", "sparse tensor", "sequence", "optional", "map", "opaque"}[k]
}

// Type is what is known of the type of a value.
type Type struct {
	Kind   Kind
	Elem   DType // of a tensor; Undefined if not known
	Ranked bool  // Shape is meaningful; a scalar has an empty Shape
	Key    DType // of the keys of a map; Undefined if not known
	Shape  []Dim
	Of     *Type // element of a sequence or optional, value of a map; nil if not known
}

// TensorOf is the type of a tensor of known rank.
func TensorOf(d DType, shape ...Dim) Type {
	if shape == nil {
		shape = []Dim{}
	}
	return Type{Kind: KindTensor, Elem: d, Ranked: true, Shape: shape}
}

// Rank is the number of axes, -1 if not known.
func (t Type) Rank() int {
	if !t.Ranked {
		return -1
	}
	return len(t.Shape)
}

// Exact reports whether t is a tensor with exact lengths.
func (t Type) Exact() bool {
	if t.Kind != KindTensor || !t.Ranked {
		return false
	}
	for _, d := range t.Shape {
		if !d.Exact() {
			return false
		}
	}
	return true
}

// Size returns the bytes of a dense tensor of type t; if a length is bounded (exact is
// false), the largest possible size. ok is false if there is no fixed size, as for a length
// without bound, strings, or a value that is not a tensor. It fails with ErrTooLarge if the
// size does not fit 63 bits.
func (t Type) Size() (bytes int64, exact, ok bool, err error) {
	if t.Kind != KindTensor || !t.Ranked || t.Elem.Bits() == 0 {
		return 0, false, false, nil
	}
	exact = true
	n := int64(1)
	zero := false
	for _, d := range t.Shape {
		most, bounded := d.Max()
		if !bounded {
			return 0, false, false, nil
		}
		exact = exact && d.Exact()
		if most == 0 {
			zero = true
		}
	}
	if zero {
		return 0, exact, true, nil
	}
	for _, d := range t.Shape {
		most, _ := d.Max()
		hi, lo := bits.Mul64(uint64(n), uint64(most))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false, false, ErrTooLarge
		}
		n = int64(lo)
	}
	bytes, err = t.Elem.SizeBytes(n)
	if err != nil {
		return 0, false, false, err
	}
	return bytes, exact, true, nil
}

// Elements returns the number of elements if every length is exact.
func (t Type) Elements() (int64, bool) {
	if !t.Exact() {
		return 0, false
	}
	n := int64(1)
	for _, d := range t.Shape {
		if d == 0 {
			return 0, true
		}
	}
	for _, d := range t.Shape {
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		n = int64(lo)
	}
	return n, true
}

// String prints a type as float32[1,3,?], sequence(float32[3]) or map(string, float32).
func (t Type) String() string {
	switch t.Kind {
	case KindTensor:
		elem := t.Elem.String()
		if t.Elem == Undefined {
			elem = "?"
		}
		if !t.Ranked {
			return elem + "[...]"
		}
		return elem + ShapeString(t.Shape)
	case KindSequence, KindOptional:
		if t.Of == nil {
			return t.Kind.String()
		}
		return t.Kind.String() + "(" + t.Of.String() + ")"
	case KindMap:
		if t.Of == nil || t.Key == Undefined {
			return t.Kind.String()
		}
		value := t.Of.String()
		if t.Of.Kind == KindTensor && len(t.Of.Shape) == 0 {
			value = strings.TrimRight(value, "[.]")
		}
		return fmt.Sprintf("%v(%v, %s)", t.Kind, t.Key, value)
	}
	return t.Kind.String()
}

// ShapeString prints a shape as [1,3,224,224].
func ShapeString(shape []Dim) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range shape {
		if i == 16 {
			fmt.Fprintf(&b, ",… %d axes", len(shape))
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(d.String())
	}
	b.WriteByte(']')
	return b.String()
}

// Declared is a type as declared in a file, including symbols.
type Declared struct {
	Type    Type     // a symbolic or missing length is Unknown
	Symbols []string // parallel to Type.Shape: dim_param, "" if there is none
}
