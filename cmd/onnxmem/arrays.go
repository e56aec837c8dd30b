package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/npy"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/vm"
)

// maxArray limits the bytes of an array that is read.
const maxArray = 1 << 36

// readArrays reads a .npz file whose elements take at most room bytes; accepts is as for
// npy.ReadZip.
func readArrays(path string, room int64, accepts func(name string, a *npy.Array) error) (map[string]vm.Value, error) {
	f, err := readable.Open(path)
	if err != nil {
		return nil, refusedf(path, "%w", err)
	}
	defer f.Close()
	if f.IsPipe() {
		return nil, refusedf(path, "is a pipe, expected a file: a .npz file has its table of contents at the end")
	}
	arrays, err := npy.ReadZip(f, f.Info.Size(), min(room, maxArray), accepts)
	if err != nil {
		return nil, refusedf(path, "%w", err)
	}
	values := map[string]vm.Value{}
	for name, a := range arrays {
		if values[name], err = fromArray(a); err != nil {
			return nil, refusedf(path, "%s: %w", name, err)
		}
	}
	return values, nil
}

// readValue reads a .npy file, or a TensorProto, SequenceProto or OptionalProto for an
// input of type t, whose elements take at most room bytes.
func readValue(path string, t graph.Type, room int64) (vm.Value, error) {
	f, err := readable.Open(path)
	if err != nil {
		return vm.Value{}, refusedf(path, "%w", err)
	}
	defer f.Close()
	if strings.HasSuffix(path, ".npy") {
		a, err := npy.Read(f, min(room, maxArray))
		if err != nil {
			return vm.Value{}, refusedf(path, "%w", err)
		}
		v, err := fromArray(a)
		if err != nil {
			return vm.Value{}, refusedf(path, "%w", err)
		}
		return v, nil
	}
	if size := f.Info.Size(); size > room {
		return vm.Value{}, refusedf(path, "%d bytes: %w of %d bytes", size, npy.ErrTooLarge, room)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return vm.Value{}, refusedf(path, "%w", err)
	}
	return vm.ParseValue(path, b, t)
}

// writeArrays writes the outputs to a .npz file.
func writeArrays(path string, program *vm.Program, out map[string]vm.Value) error {
	return writeWith(path, func(w io.Writer) error {
		z := npy.NewZipWriter(w)
		for _, t := range program.Outputs() {
			for _, part := range parts(t.Name, out[t.Name]) {
				a, err := toArray(part.value)
				if err != nil {
					return fmt.Errorf("%s: %w", part.name, err)
				}
				if err := z.Write(part.name, a); err != nil {
					return err
				}
			}
		}
		return z.Close()
	})
}

// part is one of the tensors that a value consists of.
type part struct {
	name  string
	value vm.Value
}

// parts lists the tensors of a value: those of a sequence as NAME.0, NAME.1 and so on, the
// keys and the values of a map as NAME.keys and NAME.values, and what an optional holds as
// NAME.
func parts(name string, v vm.Value) []part {
	if v.IsTensor() {
		return []part{{name, v}}
	}
	var list []part
	for i, item := range v.Items {
		of := name
		switch v.Kind {
		case graph.KindSequence:
			of = fmt.Sprintf("%s.%d", name, i)
		case graph.KindMap:
			of = name + [2]string{".keys", ".values"}[i]
		}
		list = append(list, parts(of, item)...)
	}
	return list
}

// joined takes the tensors of an input from the arrays that parts names.
func joined(given map[string]vm.Value, name string, t graph.Type) (vm.Value, bool) {
	v := vm.Value{Kind: t.Kind}
	take := func(name string) bool {
		item, ok := given[name]
		if ok {
			v.Items = append(v.Items, item)
			delete(given, name)
		}
		return ok
	}
	if whole, ok := given[name]; ok && (t.Kind != graph.KindOptional || whole.Kind == graph.KindOptional) {
		return whole, true
	}
	switch t.Kind {
	case graph.KindMap:
		return v, take(name+".keys") && take(name+".values")
	case graph.KindOptional:
		return v, take(name)
	case graph.KindSequence:
		for i := 0; take(fmt.Sprintf("%s.%d", name, i)); i++ {
			v.Type = v.Items[0].Type
		}
		return v, len(v.Items) > 0
	}
	return v, false
}

// writeValue writes a value as a .npy file, or as a TensorProto.
func writeValue(path, name string, v vm.Value) error {
	if !v.IsTensor() {
		return refusedf(path, "%q is %v, expected a tensor (say --outputs FILE.npz)", graph.Short(name), v)
	}
	return writeWith(path, func(w io.Writer) error {
		if strings.HasSuffix(path, ".npy") {
			a, err := toArray(v)
			if err != nil {
				return err
			}
			return npy.Write(w, a)
		}
		_, err := w.Write(v.Tensor(name))
		return err
	})
}

// writeWith writes a complete file, or none.
func writeWith(path string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Abort()
		return err
	}
	return f.Commit(false)
}

// descrs are numpy's names of dtypes.
var descrs = map[graph.DType]string{
	graph.Float32: "<f4", graph.Float64: "<f8", graph.Float16: "<f2", graph.Bool: "|b1",
	graph.Int64: "<i8", graph.Int32: "<i4", graph.Int16: "<i2", graph.Int8: "|i1",
	graph.Uint64: "<u8", graph.Uint32: "<u4", graph.Uint16: "<u2", graph.Uint8: "|u1",
	graph.Complex64: "<c8", graph.Complex128: "<c16",
}

// fromArray converts an array from one of numpy's files.
func fromArray(a *npy.Array) (vm.Value, error) {
	if list, ok := a.Strings(); ok {
		return vm.Value{Type: graph.String, Shape: a.Shape, Strings: list}, nil
	}
	for d, name := range descrs {
		if a.Descr == name || len(name) > 1 && name[0] == '|' && a.Descr[1:] == name[1:] {
			return vm.Value{Type: d, Shape: a.Shape, Data: a.Data}, nil
		}
	}
	return vm.Value{}, fmt.Errorf("element type %q: expected a number, bool or string", a.Descr)
}

// toArray converts a value for one of numpy's files. A dtype that numpy lacks is
// written as raw bytes of its width.
func toArray(v vm.Value) (*npy.Array, error) {
	if v.Type == graph.String {
		return npy.OfStrings(v.Strings, v.Shape, maxArray)
	}
	name, ok := descrs[v.Type]
	if !ok {
		name = fmt.Sprintf("|V%d", max(1, v.Type.Bits()/8))
	}
	return &npy.Array{Descr: name, Shape: v.Shape, Data: v.Data}, nil
}
