package vm

import (
	"encoding/binary"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// constantNode returns the elements of a Constant node, or nil if it does not hold
// numbers.
func constantNode(n *graph.Node, name string) *graph.Data {
	for _, a := range n.Attrs {
		if a.Name == "value" && a.Tensor != nil {
			return a.Tensor
		}
	}
	return scalarConstant(n, name)
}

// scalarConstant returns the elements of a Constant node that holds numbers in
// attributes other than value.
func scalarConstant(n *graph.Node, name string) *graph.Data {
	d := &graph.Data{Name: name, Dims: []int64{}}
	var raw []byte
	for _, a := range n.Attrs {
		switch a.Name {
		case "value_int":
			d.Type, raw = graph.Int64, binary.LittleEndian.AppendUint64(raw, uint64(a.Int))
		case "value_float":
			d.Type, raw = graph.Float32, binary.LittleEndian.AppendUint32(raw, math.Float32bits(a.Float))
		case "value_ints":
			d.Type, d.Dims = graph.Int64, []int64{int64(len(a.Ints))}
			for _, v := range a.Ints {
				raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
			}
		case "value_floats":
			d.Type, d.Dims = graph.Float32, []int64{int64(len(a.Floats))}
			for _, v := range a.Floats {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
		case "sparse_value":
			return sparseConstant(a, name)
		}
	}
	if d.Type == graph.Undefined {
		return nil
	}
	if raw == nil {
		raw = []byte{}
	}
	d.Raw, d.Bytes = raw, int64(len(raw))
	return d
}

func sparseConstant(a *graph.Attr, name string) *graph.Data {
	if a.Sparse == nil {
		return nil
	}
	return &graph.Data{Name: name, Type: a.Sparse.Values.Type, Dims: a.Sparse.Dims, Sparse: a.Sparse}
}
