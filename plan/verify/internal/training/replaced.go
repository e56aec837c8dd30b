package training

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// replaced compares a tensor that the step makes otherwise than the source: by the nodes that an operator
// without a gradient becomes. What these nodes compute is claimed; but they read nothing besides
// constants that the source's node does not read. A basic operator of the source that one other operator
// would replace is no such case.
func (p *prover) replaced(t, of graph.TensorID) string {
	s := p.of.Graph.Tensors[of]
	old := p.of.Graph.Nodes[s.Maker]
	reads := map[graph.TensorID]bool{}
	old.Reads(func(in graph.TensorID) { reads[in], reads[p.base(in)] = true, true })
	product := p.step.Made.Products[p.g.Tensors[t].Name]        // it reads constants as they lie
	anywhere := product || strings.Contains(old.Op, "Sequence") // items of sequences are read where they were made
	p.claimed[plan.OpName(old)] = true
	nodes, sliced, wrong := p.within(t, func(u, id graph.TensorID) bool {
		if reads[id] || reads[p.base(id)] || anywhere {
			p.meet(u, id)
			return true
		}
		return false
	})
	at, n := p.g.Label(p.g.Tensors[t].Maker), p.g.Nodes[p.g.Tensors[t].Maker]
	switch {
	case wrong != "" && sliced: // it reads rows of what the source's node reads
		return p.sliced(t)
	case wrong != "":
		return fmt.Sprintf("%s: expected operator %s, as in the source, or nodes that read what it reads, found one that reads %s", at, plan.OpName(old), wrong)
	case nodes == 1 && n.Domain == "" && old.Domain == "" && len(n.Bodies()) == 0 && !anywhere:
		return fmt.Sprintf("%s: expected operator %s, as in the source, found %s", at, plan.OpName(old), n.Op)
	}
	return ""
}

// sliced compares what a region that runs in slices reads; that its nodes compute what the source's do is
// claimed, as slices are.
func (p *prover) sliced(t graph.TensorID) string {
	p.claimed["nodes in slices"] = true
	_, _, wrong := p.within(t, func(u, id graph.TensorID) bool {
		p.meet(u, id)
		return true
	})
	if wrong != "" {
		return fmt.Sprintf("%s: expected nodes in slices that read tensors of the source, found one that reads %s", p.maker(t), wrong)
	}
	return ""
}

// within goes from a tensor back to those of the source, and counts the nodes on the way. ends is asked
// whether it may end at a tensor that is one of the source; wrong is what is read and is none that may be.
// sliced reports whether some node on the way runs in slices.
func (p *prover) within(t graph.TensorID, ends func(u, id graph.TensorID) bool) (nodes int, sliced bool, wrong string) {
	made := map[graph.NodeID]bool{}
	seen := map[graph.TensorID]bool{t: true}
	stack := []graph.TensorID{t}
	for len(stack) > 0 && wrong == "" {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		x := p.g.Tensors[u]
		id, known := p.counterpart(u)
		switch {
		case u != t && known && ends(u, id):
		case p.adapters.trained[x.Name]:
		case x.Data != nil && !known, x.Input && x.Data == nil && x.Name == "labels":
		case x.Maker < 0 || u != t && known && !p.beside(u, t):
			wrong = label(p.g, u)
		case ops.OfShape(p.g.Nodes[x.Maker]): // with ranges, nodes compute shapes
		default:
			made[x.Maker] = true
			sliced = sliced || p.isSliced(p.g.Nodes[x.Maker])
			p.g.Nodes[x.Maker].Reads(func(in graph.TensorID) {
				if !seen[in] {
					seen[in] = true
					stack = append(stack, in)
				}
			})
		}
	}
	return len(made), sliced, wrong
}

// beside reports whether two tensors of the step are, in the source, results of one node.
func (p *prover) beside(t, u graph.TensorID) bool {
	a, known := p.counterpart(t)
	b, both := p.counterpart(u)
	return known && both && p.of.Graph.Tensors[a].Maker == p.of.Graph.Tensors[b].Maker
}

// counterpart is the tensor of the source with the name of one of the step, or of one that it makes again.
func (p *prover) counterpart(t graph.TensorID) (graph.TensorID, bool) {
	for _, name := range slices.Concat([]string{p.g.Tensors[t].Name}, p.names[t]) {
		if of, is := p.copies[name]; is {
			name = of
		}
		if id, known := p.sources[name]; known {
			return id, true
		}
	}
	return none, false
}
