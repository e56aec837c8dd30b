package vm

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/npy"
)

// descrs are numpy's names of dtypes.
var descrs = map[graph.DType]string{
	graph.Float32: "<f4", graph.Float64: "<f8", graph.Float16: "<f2", graph.Bool: "|b1",
	graph.Int64: "<i8", graph.Int32: "<i4", graph.Int16: "<i2", graph.Int8: "|i1",
	graph.Uint64: "<u8", graph.Uint32: "<u4", graph.Uint16: "<u2", graph.Uint8: "|u1",
	graph.Complex64: "<c8", graph.Complex128: "<c16",
}

// FromArray is a value that was read from one of numpy's files.
func FromArray(a *npy.Array) (Value, error) {
	for d, name := range descrs {
		if a.Descr == name || len(name) > 1 && name[0] == '|' && a.Descr[1:] == name[1:] {
			return Value{d, a.Shape, a.Data}, nil
		}
	}
	return Value{}, fmt.Errorf("element type %q: expected a number or bool", a.Descr)
}

// Array is the value as numpy's files have it; dtypes that numpy lacks are
// written as raw bytes of their width.
func (v Value) Array() *npy.Array {
	name, ok := descrs[v.Type]
	if !ok {
		name = fmt.Sprintf("|V%d", max(1, v.Type.Bits()/8))
	}
	return &npy.Array{Descr: name, Shape: v.Shape, Data: v.Data}
}
