package onnx

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// ParseTensor decodes a single TensorProto, such as a .pb file of ONNX's operator
// tests.
func ParseTensor(name string, b []byte) (*graph.Data, error) {
	r := &reader{name: name, b: b}
	return r.tensor(graph.Span{Len: int64(len(b))})
}

// tensor decodes a TensorProto and checks that its data have the size that
// follows from its shape and type. The elements are not copied.
func (r *reader) tensor(s graph.Span) (*graph.Data, error) {
	const what = "TensorProto"
	d := &graph.Data{Span: s}
	var typed []field // data fields other than raw_data
	var raw *field
	external, location := false, []graph.Prop(nil)
	err := r.walk(s, what, func(f field) error {
		var err error
		switch f.num {
		case 1:
			d.Dims, err = r.varints(f, d.Dims, what)
		case 2:
			err = r.want(f, protowire.VarintType, what)
			d.Type = graph.DType(int32(f.value))
		case 4, 5, 6, 7, 10, 11:
			typed = append(typed, f)
		case 8:
			if err = r.message(f, what); err == nil {
				d.Name = r.text(f.payload)
				err = r.utf8(f, d.Name)
			}
		case 9:
			err = r.message(f, what)
			raw = &f
		case 13:
			if err = r.message(f, what); err == nil {
				var p graph.Prop
				p, err = r.prop(f.payload, "external_data")
				location = append(location, p)
			}
		case 14:
			err = r.want(f, protowire.VarintType, what)
			external = f.value == 1
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) (*graph.Data, error) {
		e := r.errorAt(s.Off, format, args...)
		e.Tensor = d.Name
		return nil, e
	}
	if !d.Type.Valid() {
		return fail("data type %d: expected one that ONNX defines", int32(d.Type))
	}
	for _, n := range d.Dims {
		if n < 0 {
			return fail("dimension %d in its shape: expected a length >= 0", n)
		}
	}
	n, ok := elements(d.Dims)
	if !ok {
		return fail("the number of elements of shape %v overflows 63 bits", short(d.Dims))
	}
	if d.Type != graph.String {
		if d.Bytes, err = d.Type.SizeBytes(n); err != nil {
			return fail("%v of shape %v: %v", d.Type, short(d.Dims), err)
		}
	}
	switch {
	case external:
		if raw != nil || len(typed) > 0 {
			return fail("its data are both in the file and outside: expected one of them")
		}
		if d.Type == graph.String {
			return fail("strings cannot be in external data")
		}
		if d.External, err = externalOf(location, d.Bytes); err != nil {
			return fail("%v", err)
		}
	case raw != nil && raw.payload.Len > 0 && len(typed) > 0:
		return fail("has both raw_data and field %d: expected one of them", typed[0].num)
	case raw != nil && len(typed) == 0:
		if d.Type == graph.String {
			return fail("strings cannot be in raw_data: expected string_data")
		}
		if raw.payload.Len != d.Bytes {
			return fail("raw_data has %d bytes, expected %d for %v", raw.payload.Len, d.Bytes, d.TensorType())
		}
		d.Raw = r.bytes(raw.payload)
		d.Payload = []graph.Span{raw.payload}
	default:
		if err := r.typedData(d, typed, n); err != nil {
			return fail("%v", err)
		}
	}
	return d, nil
}

// dataField returns the field of TensorProto for elements of type d, its name,
// and how many of its numbers n elements take.
func dataField(d graph.DType, n int64) (num protowire.Number, name string, numbers int64) {
	switch d {
	case graph.Float32:
		return 4, "float_data", n
	case graph.Complex64:
		return 4, "float_data", 2 * n
	case graph.Float64:
		return 10, "double_data", n
	case graph.Complex128:
		return 10, "double_data", 2 * n
	case graph.Int64:
		return 7, "int64_data", n
	case graph.Uint32, graph.Uint64:
		return 11, "uint64_data", n
	case graph.String:
		return 6, "string_data", n
	}
	if per := 8 / d.Bits(); per > 1 {
		return 5, "int32_data", n/per + (n%per+per-1)/per
	}
	return 5, "int32_data", n
}

// typedData checks the typed data fields of a tensor of n elements and decodes
// them if they are few.
func (r *reader) typedData(d *graph.Data, fields []field, n int64) error {
	num, name, want := dataField(d.Type, n)
	found := int64(0)
	for _, f := range fields {
		if f.num != num {
			return fmt.Errorf("%v data are in field %d: expected field %d (%s)", d.Type, f.num, num, name)
		}
		k, err := r.countNumbers(f)
		if err != nil {
			return err
		}
		found += k
		d.Payload = append(d.Payload, f.payload)
		if d.Type == graph.String {
			d.Bytes += f.payload.Len
		}
	}
	if found != want {
		if len(fields) == 0 {
			return fmt.Errorf("has no data: expected %d elements for %v", want, d.TensorType())
		}
		return fmt.Errorf("%s has %d elements, expected %d for %v", name, found, want, d.TensorType())
	}
	if n > graph.SmallData || d.Type == graph.String || d.Type.Bits() < 8 {
		return nil
	}
	for _, f := range fields {
		switch num {
		case 5, 7, 11:
			ints, err := r.varints(f, nil, name)
			if err != nil {
				return err
			}
			d.Ints = append(d.Ints, ints...)
		case 4:
			words, err := r.fixed32s(f, nil, name)
			if err != nil {
				return err
			}
			for _, w := range words {
				d.Floats = append(d.Floats, float64(math.Float32frombits(w)))
			}
		case 10:
			if f.typ == protowire.Fixed64Type {
				d.Floats = append(d.Floats, math.Float64frombits(f.value))
				continue
			}
			for b := r.bytes(f.payload); len(b) >= 8; b = b[8:] {
				w, _ := protowire.ConsumeFixed64(b)
				d.Floats = append(d.Floats, math.Float64frombits(w))
			}
		}
	}
	return nil
}

// countNumbers returns how many numbers a data field holds, without decoding
// them.
func (r *reader) countNumbers(f field) (int64, error) {
	const what = "TensorProto"
	width, single := int64(0), protowire.VarintType
	switch f.num {
	case 4:
		width, single = 4, protowire.Fixed32Type
	case 10:
		width, single = 8, protowire.Fixed64Type
	case 6:
		return 1, r.message(f, what)
	}
	if f.typ == single {
		return 1, nil
	}
	if err := r.message(f, what); err != nil {
		return 0, err
	}
	b := r.bytes(f.payload)
	if width > 0 {
		if int64(len(b))%width != 0 {
			return 0, fmt.Errorf("field %d has %d bytes, expected a multiple of %d", f.num, len(b), width)
		}
		return int64(len(b)) / width, nil
	}
	count := int64(0)
	for _, c := range b {
		if c < 0x80 {
			count++
		}
	}
	if len(b) > 0 && b[len(b)-1] >= 0x80 {
		return 0, fmt.Errorf("field %d ends in the middle of a number", f.num)
	}
	return count, nil
}

// externalOf reads the entries of external_data. size is the size that follows
// from the shape.
func externalOf(props []graph.Prop, size int64) (*graph.External, error) {
	x := &graph.External{Length: -1}
	stated := false
	for _, p := range props {
		switch p.Key {
		case "location":
			x.Location, stated = p.Value, true
		case "offset", "length":
			v, err := strconv.ParseInt(p.Value, 10, 64)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("external data has %s %s, expected a number of bytes", p.Key, quoted(p.Value))
			}
			if p.Key == "offset" {
				x.Offset = v
			} else {
				x.Length = v
			}
		}
	}
	if !stated || x.Location == "" {
		return nil, fmt.Errorf("external data without a location: expected the name of a file in the model's folder")
	}
	if x.Length >= 0 && x.Length != size {
		return nil, fmt.Errorf("external data in %s has length %d, expected %d for its shape", quoted(x.Location), x.Length, size)
	}
	if x.Offset > math.MaxInt64-size {
		return nil, fmt.Errorf("external data in %s at offset %d, length %d: the end overflows 63 bits", quoted(x.Location), x.Offset, size)
	}
	return x, nil
}

// sparse decodes a SparseTensorProto as the data of the dense tensor.
func (r *reader) sparse(s graph.Span) (*graph.Data, error) {
	const what = "SparseTensorProto"
	sp := &graph.Sparse{}
	err := r.walk(s, what, func(f field) error {
		var err error
		switch f.num {
		case 1, 2:
			if err = r.message(f, what); err != nil {
				return err
			}
			var d *graph.Data
			if d, err = r.tensor(f.payload); err != nil {
				return err
			}
			if f.num == 1 {
				sp.Values = d
			} else {
				sp.Indices = d
			}
		case 3:
			sp.Dims, err = r.varints(f, sp.Dims, what)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d := &graph.Data{Span: s, Sparse: sp, Dims: sp.Dims}
	fail := func(format string, args ...any) (*graph.Data, error) {
		e := r.errorAt(s.Off, "sparse tensor: "+format, args...)
		e.Tensor = d.Name
		return nil, e
	}
	if sp.Values == nil || sp.Indices == nil {
		return fail("expected values and indices, found only one of them")
	}
	d.Name, d.Type = sp.Values.Name, sp.Values.Type
	total, ok := elements(sp.Dims)
	if !ok {
		return fail("shape %v: expected lengths >= 0 whose product fits 63 bits", short(sp.Dims))
	}
	if _, err := d.Type.SizeBytes(total); err != nil {
		return fail("%v of shape %v: %v", d.Type, short(sp.Dims), err)
	}
	count := sp.Values.Elements()
	switch sp.Indices.Type {
	case graph.Int64, graph.Int32, graph.Int16, graph.Int8: // ONNX has int64 only; ONNX Runtime writes the narrowest
	default:
		return fail("expected int64 indices, found %v", sp.Indices.Type)
	}
	if len(sp.Values.Dims) != 1 {
		return fail("expected values of rank 1, found shape %v", short(sp.Values.Dims))
	}
	if d.Bytes = sp.Values.Bytes + sp.Indices.Bytes; d.Bytes < 0 {
		return fail("%v", graph.ErrTooLarge)
	}
	byAxis := false
	switch dims := sp.Indices.Dims; {
	case len(dims) == 1 && dims[0] == count:
	case len(dims) == 2 && dims[0] == count && dims[1] == int64(len(sp.Dims)):
		byAxis = true
	default:
		return fail("%d values, but indices of shape %v: expected [%d] or [%d,%d]", count, short(dims), count, count, len(sp.Dims))
	}
	indices, ok := sp.Indices.Integers(math.MaxInt64)
	if !ok {
		return d, nil // external, or too many to be decoded
	}
	for i, at := range indices {
		most := total
		if byAxis {
			most = sp.Dims[i%len(sp.Dims)]
		}
		if at < 0 || at >= most {
			return fail("index %d: expected one in [0, %d)", at, most)
		}
	}
	return d, nil
}

// elements multiplies lengths; false if one is negative or the product overflows.
func elements(dims []int64) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			n = 0
		}
	}
	if n == 0 {
		return 0, true
	}
	for _, d := range dims {
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		n = int64(lo)
	}
	return n, true
}

// short shortens a long shape.
func short(dims []int64) string {
	if len(dims) > 16 {
		return fmt.Sprintf("%v… (%d axes)", dims[:16], len(dims))
	}
	return fmt.Sprint(dims)
}
