package program

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// movedBytes is an output of a node of a plan for ranges of dimensions, some bytes of which
// are those of an input, and lie there at the corner.
type movedBytes struct {
	node    graph.NodeID
	out, in graph.TensorID
	index   int // of the range in the node's semantics
}

// movedIn lists these outputs of the main graph, which is inferred at the corner.
func movedIn(g *graph.Graph, p *plan.Plan) (list []movedBytes) {
	if !p.Sharing.Aliases {
		return nil
	}
	at := placesIn(g, p)
	for i, n := range g.Nodes {
		for k, x := range n.Semantics.Ranges {
			m := movedBytes{graph.NodeID(i), n.Outputs[x.Out], n.Inputs[x.In], k}
			in, placed := at[m.in]
			if out, is := at[m.out]; placed && is && in+x.From == out+x.At {
				list = append(list, m)
			}
		}
	}
	return list
}

// placesIn returns the offsets of the tensors in the arena.
func placesIn(g *graph.Graph, p *plan.Plan) map[graph.TensorID]int64 {
	named := ByName(g)
	at := make(map[graph.TensorID]int64, len(named))
	add := func(b plan.Buffer) {
		for _, name := range b.Tensors {
			at[named[name]] = b.Offset
		}
	}
	for i := range p.Buffers {
		if p.Buffers[i].Pool == plan.Arena {
			add(p.Buffers[i])
		}
	}
	for i := range p.Spans {
		add(p.Whole(i))
	}
	return at
}

// checkMoved checks the plan at a point: a tensor in several buffers has their size, and
// bytes that lie at the corner where a node moves them do so here. g is inferred at the point.
func (r *ranged) checkMoved(g *graph.Graph, p *plan.Plan, round func(int64) int64) error {
	wrong := func(id graph.TensorID, format string, args ...any) error {
		e := graph.Errorf(format, args...)
		e.Tensor = g.Tensors[id].Name
		return e
	}
	if len(p.Spans) == 0 && len(r.moved) == 0 {
		return nil
	}
	named := ByName(g)
	for i := range p.Spans {
		b := p.Whole(i)
		for _, name := range b.Tensors {
			if id := named[name]; round(g.Tensors[id].Bytes) != b.Bytes {
				return wrong(id, "expected the %d bytes of its %d buffers, found %d", b.Bytes, len(p.Spans[i].Buffers), g.Tensors[id].Bytes)
			}
		}
	}
	at := placesIn(g, p)
	for _, m := range r.moved {
		n := g.Nodes[m.node]
		if m.index < len(n.Semantics.Ranges) {
			x := n.Semantics.Ranges[m.index]
			if n.Outputs[x.Out] == m.out && n.Inputs[x.In] == m.in && at[m.in]+x.From == at[m.out]+x.At {
				continue
			}
		}
		return wrong(m.out, "expected the bytes of %q where they lie", graph.Short(g.Tensors[m.in].Name))
	}
	return nil
}
