package limits

import (
	"encoding/binary"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// settle replaces small integer tensors whose elements inference knows by constants,
// and drops the nodes that nobody reads then, but for those in which the plan lists folded
// constants. Their elements must be the same at other points, too. It returns the names of the
// tensors that are left.
func settle(m *graph.Model, inf *ops.Inference, folds *folding.Result, points []slicing.Elsewhere) (names []string) {
	g := m.Graph
	listed, bodies := folds.Listed()
	var settled []*graph.Tensor
	for id, v := range inf.Values {
		t := g.Tensors[id]
		elements, known := v.Ints()
		if !known || t.Maker < 0 || t.Output || t.Type.Kind != graph.KindTensor || !t.Type.Exact() || !t.Type.Elem.Integer() && t.Type.Elem != graph.Bool || t.Type.Elem.Bits() < 8 || ops.IsConstant(g.Nodes[t.Maker]) {
			continue
		}
		d := integerData(t, elements)
		n := g.Nodes[t.Maker]
		if n.Semantics.Random || len(n.Outputs) != 1 || !settledEverywhere(id, elements, points) {
			continue
		}
		t.Data = d
		n.Outputs = []graph.TensorID{graph.None}
		settled = append(settled, t)
	}
	live := make([]bool, len(g.Tensors))
	for _, t := range g.Outputs {
		live[t] = true
	}
	for i, t := range g.Tensors {
		live[i] = live[i] || listed[t.Name]
	}
	order, err := g.Topological()
	if err != nil {
		return nil // inference found the order, so there is one
	}
	keep := make([]bool, len(g.Nodes))
	for i := len(order) - 1; i >= 0; i-- {
		n := g.Nodes[order[i]]
		needed := n.Semantics.Random || bodies && len(n.Bodies()) > 0 || ops.Copies(n) && listed[g.Tensors[n.Inputs[0]].Name]
		for _, t := range n.Outputs {
			needed = needed || t >= 0 && live[t]
		}
		if keep[order[i]] = needed; needed {
			n.Reads(func(t graph.TensorID) { live[t] = true })
		}
	}
	nodes := g.Nodes[:0:0]
	for i, n := range g.Nodes {
		if keep[i] {
			nodes = append(nodes, n)
		}
	}
	g.Nodes = nodes
	dead := make([]bool, len(g.Tensors))
	for i, t := range g.Tensors {
		dead[i] = !live[i] && !t.Input && t.Maker >= 0 || t.Data != nil && !live[i] && !t.Input && !t.Output
	}
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				dead[t] = false
			}
		}
	}
	for _, t := range settled {
		if live[slices.Index(g.Tensors, t)] {
			names = append(names, t.Name)
		}
	}
	g.DropTensors(func(t graph.TensorID) bool { return dead[t] })
	g.Link()
	return names
}

// integerData returns an initializer with these elements in the place of a tensor.
func integerData(t *graph.Tensor, elements []int64) *graph.Data {
	d := &graph.Data{Name: t.Name, Type: t.Type.Elem, Dims: make([]int64, len(t.Type.Shape)), Raw: []byte{}}
	for i, n := range t.Type.Shape {
		d.Dims[i] = int64(n)
	}
	for _, v := range elements {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], uint64(v))
		d.Raw = append(d.Raw, word[:d.Type.Bits()/8]...)
	}
	d.Bytes = int64(len(d.Raw))
	return d
}

// settledEverywhere reports whether the elements of a tensor that inference knows at the corner are
// those of other points, too.
func settledEverywhere(id int, elements []int64, points []slicing.Elsewhere) bool {
	return !slices.ContainsFunc(points, func(e slicing.Elsewhere) bool {
		if id >= len(e.Inference.Values) {
			return true
		}
		list, known := e.Inference.Values[id].Ints()
		return !known || !slices.Equal(list, elements)
	})
}
