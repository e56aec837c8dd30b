package constants

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
)

// OfNode returns the elements of a Constant node, or nil if it does not hold
// numbers.
func OfNode(n *graph.Node, name string) *graph.Data {
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

// Of returns the elements of a tensor that the file holds as an initializer
// or a Constant node, else nil.
func Of(g *graph.Graph, t *graph.Tensor) *graph.Data {
	if t.Data != nil || t.Maker < 0 {
		return t.Data
	}
	n := g.Nodes[t.Maker]
	if !ops.IsConstant(n) {
		return nil
	}
	return OfNode(n, t.Name)
}

// Texts decodes the strings of a constant.
func Texts(from *graph.Source, d *graph.Data) (list []string, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	if int64(len(d.Texts)) == d.Elements() {
		return slices.Clone(d.Texts), nil
	}
	if d.Sparse != nil || d.External != nil || d.Generate != nil || int64(len(d.Payload)) != d.Elements() {
		return nil, fmt.Errorf("has %d strings in the file, expected %d", len(d.Payload), d.Elements())
	}
	for _, p := range d.Payload {
		list = append(list, string(from.Bytes[p.Off:p.End()]))
	}
	return list, nil
}
