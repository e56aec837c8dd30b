package training

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/pairs"
)

// ancestors marks the nodes that some tensors need.
func (p *prover) ancestors(list []graph.TensorID) []bool {
	needed := make([]bool, len(p.g.Nodes))
	stack := slices.Clone(list)
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if m := p.g.Tensors[t].Maker; m >= 0 && !needed[m] {
			needed[m] = true
			p.g.Nodes[m].Reads(func(in graph.TensorID) { stack = append(stack, in) })
		}
	}
	return needed
}

// listed are the gradients that the metadata list, by parameter.
func (p *prover) listed() (map[string]graph.TensorID, string) {
	text, _ := p.Model.Prop("onnxmem.gradients")
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil, fmt.Sprintf("onnxmem.gradients: expected a list, found %q", graph.Short(text))
	}
	trained := func(name string) bool { return p.step.Trained[name] }
	there := func(name string) bool { _, known := p.byName[name]; return known }
	of := map[string]graph.TensorID{}
	for _, entry := range list {
		w, d, err := pairs.Split(entry, trained, there)
		if err != nil {
			return nil, fmt.Sprintf("onnxmem.gradients: %v: expected PARAMETER=TENSOR", err)
		}
		if _, twice := of[w]; twice {
			return nil, fmt.Sprintf("onnxmem.gradients: %q is listed twice", graph.Short(w))
		}
		of[w] = p.byName[d]
	}
	return of, ""
}

// gradients checks of what gradients are made: of values of the forward pass, parameters and inputs. What
// the optimizer keeps, its rates and its results are no part of a derivative. A gradient has the shape of
// its parameter.
func (p *prover) gradients() (wrong string, _ error) {
	p.grads, wrong = p.listed()
	if wrong != "" {
		return wrong, nil
	}
	var all []graph.TensorID
	for _, w := range sorted(p.grads) {
		d := p.grads[w]
		if !p.sameShape(d, p.byName[w]) || !p.g.Tensors[d].Type.Elem.Floating() {
			return fmt.Sprintf("gradient of %q: expected its shape, %v, found %v", graph.Short(w), p.g.Tensors[p.byName[w]].Type, p.g.Tensors[d].Type), nil
		}
		all = append(all, d)
	}
	needed := p.ancestors(all)
	for i, n := range p.g.Nodes {
		if !needed[i] || p.forward[i] {
			continue
		}
		p.gradientNodes++
		n.Reads(func(t graph.TensorID) {
			if x := p.g.Tensors[t]; wrong == "" && x.Input && x.Data == nil && p.ofUpdates(x.Name) {
				wrong = fmt.Sprintf("%s: expected a gradient of values of the forward pass, found one that reads %q", p.g.Label(graph.NodeID(i)), graph.Short(x.Name))
			}
		})
		if wrong != "" {
			return wrong, nil
		}
	}
	return "", nil
}

// ofUpdates reports whether an input is of updates alone: a rate, a counter, or a state of the optimizer.
func (p *prover) ofUpdates(name string) bool {
	if p.step.Updates[name] == "" {
		return p.sourceOf(name) == nil && (name == rate || len(name) > len(rate) && name[:len(rate)+1] == rate+".")
	}
	return !p.step.Trained[name] && name != scaleName && p.sourceOf(p.original(name)) == nil
}

// original is the name of the initializer of which a parameter or a statistic is a copy, or its own.
func (p *prover) original(name string) string {
	if of, is := p.copies[name]; is {
		return of
	}
	return name
}
