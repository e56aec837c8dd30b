package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// joinBias makes one Gemm of a product in 16 bits and of the Add that gives it a bias, if nothing
// else reads the product, and reports whether it did. The two nodes round twice, where PyTorch's
// linear function, of which exporters make them for more than two axes, rounds once.
// nodes are those of the graph before.
func (s *trainer) joinBias(n *graph.Node, nodes []*graph.Node) bool {
	if n.Op != "Add" || n.Domain != "" || s.inBody || !is16Bits(s.typeOf(n.Outputs[0]).Elem) {
		return false
	}
	for k, t := range n.Inputs {
		bias := n.Inputs[1-k]
		m := s.productFor(t, nodes)
		if m == nil {
			continue
		}
		a, b, c, out := s.shape(m.Inputs[0]), s.shape(m.Inputs[1]), s.shape(bias), s.shape(n.Outputs[0])
		if !s.initial(bias, nodes) || len(a) < 2 || len(b) != 2 || len(out) != len(a) || elements(c) != b[1] || len(c) == 0 || c[len(c)-1] != b[1] {
			continue
		}
		first := len(s.g.Nodes)
		s.scope = s.of + "/"
		if s.of == "" {
			s.scope = s.g.Tensors[n.Outputs[0]].Name + "/"
		}
		rows := s.reshape(m.Inputs[0], []int64{elements(a[:len(a)-1]), b[0]})
		made := s.reshape(s.op("Gemm", rows, m.Inputs[1], s.reshape(bias, b[1:])), out)
		s.scope = ""
		if s.err != nil {
			return false
		}
		s.rename(s.g.Nodes[first:], made, n.Outputs[0])
		s.g.Nodes = slices.DeleteFunc(s.g.Nodes, func(o *graph.Node) bool { return o == m })
		return true
	}
	return false
}

// initial reports whether a tensor is an initializer, or a Cast of one: a bias. What is computed in
// each step, such as the product to which an adapter adds, is none, also where it has one row.
func (s *trainer) initial(t ID, nodes []*graph.Node) bool {
	x := s.g.Tensors[t]
	if x.Maker >= 0 && int(x.Maker) < len(nodes) && ops.Casts(nodes[x.Maker]) {
		x = s.g.Tensors[nodes[x.Maker].Inputs[0]]
	}
	return x.Data != nil
}

// productFor is the MatMul that makes a tensor for one reader, nil if there is none.
func (s *trainer) productFor(t ID, nodes []*graph.Node) *graph.Node {
	x := s.g.Tensors[t]
	if x.Output || len(x.Readers) != 1 || x.Maker < 0 || int(x.Maker) >= len(nodes) {
		return nil
	}
	m := nodes[x.Maker]
	if m.Op != "MatMul" || m.Domain != "" || m.Outputs[0] != t {
		return nil
	}
	return m
}
