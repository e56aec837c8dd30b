package training

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// bodies compares the bodies of a node with those of the source's, in which operators without a gradient
// have become others, too. alike is false if other attributes differ, or if bodies have other inputs and
// outputs. captured are what they capture, which then has to be the same.
func (p *prover) bodies(n *graph.Node, want []*graph.Attr) (captured [][2]graph.TensorID, wrong string, alike bool) {
	if len(n.Attrs) != len(want) {
		return nil, "", false
	}
	var pairs [][2]*graph.Graph
	for _, b := range want {
		a := n.Attr(b.Name)
		switch {
		case a == nil || len(a.All()) != len(b.All()), len(b.All()) == 0 && !p.same.Attribute(a, b):
			return nil, "", false
		}
		for k, body := range b.All() {
			if g := a.All()[k]; len(g.Inputs) != len(body.Inputs) || len(g.Outputs) != len(body.Outputs) {
				return nil, "", false
			}
			pairs = append(pairs, [2]*graph.Graph{a.All()[k], body})
		}
	}
	for _, pair := range pairs {
		c := &prover{
			Subject: p.Subject, g: pair[0], outer: p, version: p.version, to: p.to, same: p.same, files: p.files, claimed: p.claimed,
			step: Step{Made: p.step.InBodies, InBodies: p.step.InBodies},
			of:   &graph.Model{Opsets: p.of.Opsets, Graph: pair[1]}, adapters: &adapters{},
		}
		c.index()
		for k, t := range pair[0].Inputs {
			c.pairs[t] = pair[1].Inputs[k]
		}
		for k, t := range pair[0].Outputs {
			c.meet(t, pair[1].Outputs[k])
		}
		if wrong, _ := c.compare(); wrong != "" {
			return nil, fmt.Sprintf("in a body of node %q: %s", graph.Short(n.Name), wrong), false
		}
		p.compared += c.compared
		captured = append(captured, c.captured...)
	}
	return captured, "", true
}

// outside is what a body captures, none if a tensor is no capture.
func outside(g *graph.Graph, t graph.TensorID) graph.TensorID {
	for _, c := range g.Captures {
		if c.Inner == t {
			return c.Outer
		}
	}
	return none
}
