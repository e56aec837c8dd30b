package ops

import (
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Unpermitted is an input of a node whose element type is not among those that the ONNX
// specification permits for this version of the operator. The operator may well be
// defined for it, in a later version or in this package, but runtimes that follow the
// specification refuse the model.
type Unpermitted struct {
	Node      string // with its operator, as [graph.Graph.Label] gives it
	Input     int
	Tensor    string
	Elem      graph.DType
	Domain    string
	Opset     int64
	Permitted []graph.DType
}

// Text says what is wrong, without the node.
func (u *Unpermitted) Text() string {
	var types []string
	for _, d := range u.Permitted {
		types = append(types, d.String())
	}
	opset := fmt.Sprintf("opset %d", u.Opset)
	if u.Domain != "" {
		opset += " of " + u.Domain
	}
	return fmt.Sprintf("input %d %q has elements of type %v, which %s does not permit: expected %s",
		u.Input, graph.Short(u.Tensor), u.Elem, opset, strings.Join(types, ", "))
}

// UnpermittedInputs lists the inputs of a model's nodes, of those in bodies and of those in
// the local functions that are called, whose element types their opset does not permit. It
// returns the first most of them, and how many there are in all. Infer must have set the
// types. Inputs that may be sequences or optionals, and operators of other domains than
// ONNX's own, are not checked.
func UnpermittedInputs(m *graph.Model, most int) (list []Unpermitted, all int) {
	w := permission{most: most, called: map[*graph.Call]bool{}}
	w.graph(m.Graph, m.Opsets)
	return w.list, w.all
}

// permission is one run of UnpermittedInputs.
type permission struct {
	most   int
	list   []Unpermitted
	all    int
	called map[*graph.Call]bool
}

func (w *permission) graph(g *graph.Graph, opsets []graph.Opset) {
	for id, n := range g.Nodes {
		if c := n.Semantics.Call; c != nil {
			if !w.called[c] {
				w.called[c] = true
				w.graph(c.Body, c.Function.Opsets)
			}
			continue
		}
		w.node(g, graph.NodeID(id), graph.FindOpset(opsets, n.Domain))
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				w.graph(b, opsets)
			}
		}
	}
}

// node checks the inputs of one node.
func (w *permission) node(g *graph.Graph, id graph.NodeID, version int64) {
	n := g.Nodes[id]
	if n.Domain != "" && !strings.HasPrefix(n.Domain, "ai.onnx.") {
		return
	}
	s, f := signatureOf(n.Domain, n.Op, version)
	if f == nil || version < f.since {
		return
	}
	for i, t := range n.Inputs {
		p := at(f.in, i)
		if p == nil || p.any || t < 0 {
			continue
		}
		typ := g.Tensors[t].Type
		if typ.Kind != graph.KindTensor || typ.Elem == graph.Undefined {
			continue
		}
		permitted := []typeRange{{elem: p.elem}}
		if p.symbol != "" {
			permitted = s.symbols[p.symbol]
		}
		if holds(permitted, typ.Elem, version) {
			continue
		}
		if w.all++; len(w.list) < w.most {
			w.list = append(w.list, Unpermitted{
				Node: g.Label(id), Input: i, Tensor: g.Tensors[t].Name, Elem: typ.Elem,
				Domain: n.Domain, Opset: version, Permitted: types(permitted, version),
			})
		}
	}
}
