// Package constant computes tensors that depend on constants alone, bit for bit as
// any runtime does: elements are moved, or computed by operations whose result IEEE
// 754 or the integers determine. What runtimes may compute differently is refused.
//
//	weight.go    weights in Constant nodes
//	tensor.go    tensors, and how they are read from a model's files
//	eval.go      the table of operators, and Eval
//	move.go      operators that move elements
//	shape.go     operators that an input tells the shape of the result
//	number.go    operators that compute
package constant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
)

// Tensor holds elements in row-major order, little-endian. The dtype has whole bytes.
type Tensor struct {
	Type  graph.DType
	Shape []int64
	Raw   []byte
}

// Holds reports whether elements of a dtype can be moved: each has 1 to 8 whole bytes.
func Holds(t graph.DType) bool {
	return t.Bits() > 0 && t.Bits() <= 64 && t.Bits()%8 == 0 && t != graph.Complex64
}

// width is the number of bytes of an element.
func (t *Tensor) width() int { return int(t.Type.Bits() / 8) }

// len is the number of elements.
func (t *Tensor) len() int { return int(count(t.Shape)) }

func count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Files reads the constants of a model. It maps each external data file once.
type Files struct {
	m    *graph.Model
	open map[string]*mapped.File
}

// NewFiles returns a reader of the constants of m.
func NewFiles(m *graph.Model) *Files { return &Files{m, map[string]*mapped.File{}} }

// Close unmaps the files. It fails if one was written since it was mapped.
func (f *Files) Close() error {
	var all []error
	for _, file := range f.open {
		all = append(all, file.Check(), file.Close())
	}
	f.open = nil
	return errors.Join(all...)
}

// Drop gives the pages of the mapped files back to the system; they are read again when they
// are used.
func (f *Files) Drop() {
	for _, file := range f.open {
		file.Drop()
	}
}

// errForm is the error of elements that are stored in a form that is not read.
var errForm = errors.New("its elements are stored in another form than raw data")

// errBool: whether 2 and 1 gives true depends on the runtime.
var errBool = errors.New("a bool is neither 0 nor 1")

// Read returns the elements of a constant, in the mapped file where they lie there.
func (f *Files) Read(d *graph.Data) (*Tensor, error) {
	if !Holds(d.Type) || d.Sparse != nil {
		return nil, errForm
	}
	n := d.Elements()
	size, err := d.Type.SizeBytes(n)
	if err != nil {
		return nil, err
	}
	t := &Tensor{Type: d.Type, Shape: d.Dims}
	switch {
	case d.External != nil:
		t.Raw, err = f.external(d.External, size)
	case d.Raw != nil:
		t.Raw = d.Raw
	case d.Generate != nil:
		var b bytes.Buffer
		err = d.Generate(&b)
		t.Raw = b.Bytes()
	case len(d.Payload) == 1 && d.Payload[0].Len == size && f.m != nil && f.m.Source != nil && (d.Type == graph.Float32 || d.Type == graph.Float64):
		t.Raw = f.m.Source.Bytes[d.Payload[0].Off:d.Payload[0].End()]
	case int64(len(d.Floats)) == n && (d.Type == graph.Float32 || d.Type == graph.Float64):
		t.Raw = make([]byte, 0, size)
		for _, v := range d.Floats {
			if d.Type == graph.Float32 {
				t.Raw = binary.LittleEndian.AppendUint32(t.Raw, math.Float32bits(float32(v)))
			} else {
				t.Raw = binary.LittleEndian.AppendUint64(t.Raw, math.Float64bits(v))
			}
		}
	case int64(len(d.Ints)) == n: // 16-bit floats are stored as integers, too
		t.Raw = make([]byte, 0, size)
		for _, v := range d.Ints {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], uint64(v))
			t.Raw = append(t.Raw, b[:t.width()]...)
		}
	default:
		err = errForm
	}
	if err == nil {
		err = mapped.Load(t.Raw)
	}
	if err == nil && int64(len(t.Raw)) != size {
		err = fmt.Errorf("has %d bytes of elements, expected %d", len(t.Raw), size)
	}
	if err == nil && d.Type == graph.Bool && slices.ContainsFunc(t.Raw, func(b byte) bool { return b > 1 }) {
		err = errBool
	}
	return t, err
}

// external returns elements of an external data file.
func (f *Files) external(x *graph.External, size int64) ([]byte, error) {
	file := f.open[x.Location]
	if file == nil {
		if f.m.Source == nil {
			return nil, fmt.Errorf("external data in %q: the model has no folder", x.Location)
		}
		root, err := os.OpenRoot(f.m.Source.Dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		name := filepath.FromSlash(x.Location)
		from, err := root.Open(name)
		if err != nil {
			return nil, fmt.Errorf("external data in %q: %w", x.Location, err)
		}
		if file, err = mapped.Map(from, filepath.Join(f.m.Source.Dir, name)); err != nil {
			from.Close()
			return nil, fmt.Errorf("external data in %q: %w", x.Location, err)
		}
		f.open[x.Location] = file
	}
	if x.Offset < 0 || x.Offset > int64(len(file.Bytes))-size {
		return nil, fmt.Errorf("external data in %q: expected %d bytes from byte %d on, found a file of %d", x.Location, size, x.Offset, len(file.Bytes))
	}
	return file.Bytes[x.Offset : x.Offset+size], nil
}

// Of returns the elements that a Constant node holds, as data; nil if it holds
// texts, a sparse tensor, or refers to an attribute of a function.
func Of(n *graph.Node) *graph.Data {
	for _, a := range n.Attrs {
		if a.Ref != "" {
			return nil
		}
		switch a.Name {
		case "value":
			return a.Tensor
		case "value_int":
			return &graph.Data{Type: graph.Int64, Ints: []int64{a.Int}, Bytes: 8}
		case "value_ints":
			k := int64(len(a.Ints))
			return &graph.Data{Type: graph.Int64, Dims: []int64{k}, Ints: a.Ints, Bytes: 8 * k}
		case "value_float":
			return &graph.Data{Type: graph.Float32, Raw: floats(a.Float), Bytes: 4}
		case "value_floats":
			k := int64(len(a.Floats))
			return &graph.Data{Type: graph.Float32, Dims: []int64{k}, Raw: floats(a.Floats...), Bytes: 4 * k}
		}
	}
	return nil
}

func floats(v ...float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
