package slicing

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Part is a tensor with rows of a tensor of the model before.
type Part struct {
	Tensor, Of string
	Range
	Modulo bool // the elements are those of the rows but for multiples
}

// Divided says what Divide has added to a graph.
type Divided struct {
	Parts   []Part   // tensors that nodes make, makers before readers
	Weights []Weight // initializers with rows of one of the model before
	Lists   []string // initializers with the shapes that nodes of parts state
}

// Divide computes the outputs of each Split by itself where these are rows that few nodes
// make of the rows of weights: a product with the columns of queries, keys and values side
// by side becomes three. So a region can cut all of them along their columns, and so
// attention along its heads. The product must have at least that many bytes. Divide
// changes the graph, whose types must have been inferred; those of the parts are not.
//
// The k-th part of node N is called N/part<k> and makes T/part<k>.
func (p *Program) Divide(least int64) *Divided {
	w := &writer{p: p, g: p.g, tensors: map[string]bool{}, labels: map[string]bool{}, ints: map[string]graph.TensorID{}, cut: map[graph.TensorID]bool{}}
	note(p.g, w.tensors, w.labels)
	var parts []Part
	gone := map[*graph.Node]bool{}
	instead := map[graph.TensorID]graph.TensorID{}
	for v, n := range p.g.Nodes {
		if chain := p.divisible(v, least); chain != nil {
			gone[n] = true
			for _, link := range chain {
				gone[p.g.Nodes[link.node]] = true
			}
			d := &divider{regionWriter: regionWriter{writer: w, weights: map[taken]graph.TensorID{}}, chain: chain}
			from := int64(0)
			for k, t := range n.Outputs {
				d.slice = k
				rows := int64(p.g.Tensors[t].Type.Shape[chain[0].axis])
				instead[t] = d.part(from, from+rows)
				from += rows
			}
			parts = append(parts, d.parts...)
		}
		w.nodes = append(w.nodes, n)
	}
	if len(parts) == 0 {
		return &Divided{}
	}
	nodes := w.nodes[:0]
	for _, n := range w.nodes {
		if gone[n] {
			continue
		}
		nodes = append(nodes, n)
		for j, t := range n.Inputs {
			if x, divided := instead[t]; divided {
				n.Inputs[j] = x
			}
		}
	}
	dead := map[graph.TensorID]bool{}
	for n := range gone {
		for _, t := range n.Outputs {
			dead[t] = true
		}
	}
	for t := range w.cut {
		dead[t] = true
	}
	lists := map[string]bool{}
	for _, t := range w.ints {
		lists[p.g.Tensors[t].Name] = true
	}
	p.g.Nodes = nodes
	p.g.DropTensors(func(t graph.TensorID) bool { return dead[t] })
	p.g.Link()
	out := &Divided{Parts: parts, Weights: w.list}
	for _, t := range p.g.Tensors {
		if lists[t.Name] {
			out.Lists = append(out.Lists, t.Name)
		}
	}
	return out
}

// link is a node of a chain, with the axis of its output that is divided, and its input
// that the next node of the chain makes; -1: it divides weights alone.
type link struct {
	node, axis, from int
	cut              *ops.Cut
}

// divisible returns the chain of nodes that make the input of a Split, beginning with the
// last, if its parts can be made of parts of weights.
func (p *Program) divisible(v int, least int64) (chain []link) {
	split := p.g.Nodes[v]
	if split.Op != "Split" || split.Domain != "" || len(split.Outputs) < 2 || !p.Divisible(v) {
		return nil
	}
	x := split.Inputs[0]
	shape := p.shape(x)
	axis := -1
	for _, t := range split.Outputs {
		if t < 0 || p.g.Tensors[t].Output || p.Keep[p.g.Tensors[t].Name] {
			return nil
		}
		for _, q := range p.g.Tensors[t].Readers {
			if len(p.g.Nodes[q].Captures) > 0 {
				return nil
			}
		}
		for a, n := range p.shape(t) {
			if a < len(shape) && n != shape[a] {
				axis = a
			}
		}
	}
	if axis < 0 || p.g.Tensors[x].Bytes < least {
		return nil
	}
	for {
		t := p.g.Tensors[x]
		if t.Maker < 0 || len(t.Readers) != 1 || t.Output || p.Keep[t.Name] {
			return nil
		}
		l := link{node: int(t.Maker), axis: axis, from: -1}
		n := p.g.Nodes[l.node]
		if l.cut = p.cut(l.node, axis); l.cut == nil || len(n.Outputs) != 1 {
			return nil
		}
		weights := 0
		for j, u := range n.Inputs {
			if u < 0 || l.cut.In[j].Axis == ops.Whole {
				continue
			}
			switch w := p.g.Tensors[u]; {
			case w.Data == nil && l.from >= 0:
				return nil
			case w.Data == nil:
				l.from = j
			case len(w.Readers) != 1 || w.Input || w.Output || p.Keep[w.Name] || !p.readable(u):
				return nil
			default:
				weights++
			}
		}
		if chain = append(chain, l); l.from < 0 {
			if weights == 0 {
				return nil
			}
			break
		}
		x, axis = n.Inputs[l.from], l.cut.In[l.from].Axis
	}
	// Each part must be rows of its own.
	from := int64(0)
	for _, t := range split.Outputs {
		lo, hi := from, from+int64(p.g.Tensors[t].Type.Shape[chain[0].axis])
		from = hi
		for _, l := range chain {
			ok := true
			for _, in := range l.cut.In {
				if in.Axis != ops.Whole && ok {
					_, _, ok = in.Of(lo, hi)
				}
			}
			if !ok {
				return nil
			}
			if l.from >= 0 {
				lo, hi, _ = l.cut.In[l.from].Of(lo, hi)
			}
		}
	}
	return chain
}

// divider writes the parts of a chain.
type divider struct {
	regionWriter
	chain []link
	parts []Part
}

// part adds the nodes that make rows of the chain's result, and returns it.
func (d *divider) part(lo, hi int64) graph.TensorID {
	type rows struct{ lo, hi int64 }
	list := make([]rows, len(d.chain))
	for x, l := range d.chain {
		if list[x] = (rows{lo, hi}); l.from >= 0 {
			lo, hi, _ = l.cut.In[l.from].Of(lo, hi)
		}
	}
	made := graph.TensorID(graph.None)
	for x := len(d.chain) - 1; x >= 0; x-- {
		l, old := d.chain[x], d.p.g.Nodes[d.chain[x].node]
		n := *old
		n.Span, n.Props, n.Semantics = graph.Span{}, nil, graph.Semantics{}
		keepProps(&n, old)
		setPurpose(&n, old)
		if n.Name != "" {
			n.Name = d.label(fmt.Sprintf("%s/part%d", n.Name, d.slice))
		}
		n.Inputs = append([]graph.TensorID{}, old.Inputs...)
		for j, t := range old.Inputs {
			in := l.cut.In[j]
			if t < 0 || in.Axis == ops.Whole {
				continue
			}
			if j == l.from {
				n.Inputs[j] = made
				continue
			}
			from, to, _ := in.Of(list[x].lo, list[x].hi)
			n.Inputs[j] = d.weight(t, Range{in.Axis, from, to})
		}
		if l.cut.Change != nil {
			d.change(&n, l.cut.Change(list[x].lo, list[x].hi))
		}
		made = d.tensor(d.name(old.Outputs[0], "part"))
		n.Outputs = []graph.TensorID{made}
		d.nodes = append(d.nodes, &n)
		d.parts = append(d.parts, Part{d.g.Tensors[made].Name, d.g.Tensors[old.Outputs[0]].Name, Range{l.axis, list[x].lo, list[x].hi}, false})
	}
	return made
}
