package subject

import "github.com/onnxmem/onnxmem/graph"

// names finds tensors by name. The tensors of a graph are listed once, when the first of
// them is asked for, so that a plan with very many entries takes time in proportion to
// their number and to the size of the graphs.
type names struct {
	graphs map[*graph.Graph]map[string]*graph.Tensor
	listed int // tensors that were gone through
}

// of returns the tensors of a graph, without those that it captures.
func (n *names) of(g *graph.Graph) map[string]*graph.Tensor {
	list, known := n.graphs[g]
	if known {
		return list
	}
	list = make(map[string]*graph.Tensor, len(g.Tensors))
	for _, t := range g.Tensors {
		if !t.Capture && list[t.Name] == nil {
			list[t.Name] = t
		}
	}
	if n.graphs == nil {
		n.graphs = map[*graph.Graph]map[string]*graph.Tensor{}
	}
	n.graphs[g] = list
	n.listed += len(g.Tensors)
	return list
}

// Tensors returns the tensors of a graph by name, without those that it captures.
func (s *Subject) Tensors(g *graph.Graph) map[string]*graph.Tensor { return s.names.of(g) }

// Listed is the number of tensors that were gone through to find those that a plan names.
func (s *Subject) Listed() int { return s.names.listed }
