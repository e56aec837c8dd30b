package graph

import (
	"encoding/binary"
	"io"
	"math"
)

// SmallData is the largest number of elements of an initializer that are decoded
// when the file is read, if they are in typed fields (int64_data and the like).
// It is far above what shape arithmetic needs.
const SmallData = 1 << 16

// External is the place of a tensor's elements in another file.
type External struct {
	Location string // as in the model, relative to the model's folder
	Offset   int64  // bytes
	Length   int64  // bytes
}

// Data holds the elements of an initializer or of a tensor attribute. They are
// not copied: Raw is part of the mapped file.
type Data struct {
	Name string
	Type DType
	Dims []int64

	Raw      []byte                  // little-endian elements, if they are in raw_data
	Ints     []int64                 // decoded typed fields, integer and bool types, at most SmallData
	Floats   []float64               // decoded typed fields, floating-point types, at most SmallData
	Texts    []string                // of a tensor of strings that was built in memory
	External *External               // the elements are in another file
	Generate func(w io.Writer) error // writes the Bytes elements of a tensor that was built in memory
	Sparse   *Sparse                 // a sparse initializer; Type and Dims are those of the dense tensor

	Bytes int64 // of all elements, packed types rounded up; for strings, of the texts

	Span    Span   // the message
	Payload []Span // the bytes of its data fields, without tags and lengths
}

// Sparse is a sparse tensor: its values and their indices.
type Sparse struct {
	Values, Indices *Data
	Dims            []int64
}

// Elided reports whether the elements of d are not known: it has some, but they are nowhere.
// Such tensors come from the printed form of a model ([Parse]). A model that has one can be
// planned, but neither written nor run.
func (d *Data) Elided() bool {
	return d.Elements() != 0 && d.Raw == nil && d.Ints == nil && d.Floats == nil && d.Texts == nil &&
		d.External == nil && d.Generate == nil && d.Sparse == nil && d.Payload == nil
}

// Elements is the number of elements.
func (d *Data) Elements() int64 {
	n := int64(1)
	for _, k := range d.Dims {
		n *= k
	}
	return n
}

// TensorType is the type of the dense tensor that d holds.
func (d *Data) TensorType() Type {
	shape := make([]Dim, len(d.Dims))
	for i, n := range d.Dims {
		shape[i] = Dim(n)
	}
	return TensorOf(d.Type, shape...)
}

// Integers returns the elements of an integer or bool tensor, if they are in the
// file and there are at most most.
func (d *Data) Integers(most int64) ([]int64, bool) {
	n := d.Elements()
	if n > most || d.External != nil || d.Generate != nil || d.Sparse != nil || !d.Type.Integer() && d.Type != Bool || d.Type.Bits() < 8 {
		return nil, false
	}
	if d.Raw == nil {
		return d.Ints, int64(len(d.Ints)) == n
	}
	size := int(d.Type.Bits() / 8)
	if int64(len(d.Raw)) != n*int64(size) {
		return nil, false
	}
	v := make([]int64, n)
	for i := range v {
		b := d.Raw[i*size:]
		switch d.Type {
		case Int64, Uint64:
			v[i] = int64(binary.LittleEndian.Uint64(b))
		case Int32:
			v[i] = int64(int32(binary.LittleEndian.Uint32(b)))
		case Uint32:
			v[i] = int64(binary.LittleEndian.Uint32(b))
		case Int16:
			v[i] = int64(int16(binary.LittleEndian.Uint16(b)))
		case Uint16:
			v[i] = int64(binary.LittleEndian.Uint16(b))
		case Int8:
			v[i] = int64(int8(b[0]))
		case Uint8, Bool:
			v[i] = int64(b[0])
		}
	}
	return v, true
}

// Reals returns the elements of a float32 or float64 tensor, if they are in the
// file and there are at most most.
func (d *Data) Reals(most int64) ([]float64, bool) {
	n := d.Elements()
	if n > most || d.External != nil || d.Generate != nil || d.Sparse != nil || d.Type != Float32 && d.Type != Float64 {
		return nil, false
	}
	if d.Raw == nil {
		return d.Floats, int64(len(d.Floats)) == n
	}
	size := int(d.Type.Bits() / 8)
	if int64(len(d.Raw)) != n*int64(size) {
		return nil, false
	}
	v := make([]float64, n)
	for i := range v {
		if d.Type == Float32 {
			v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(d.Raw[i*4:])))
		} else {
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(d.Raw[i*8:]))
		}
	}
	return v, true
}
