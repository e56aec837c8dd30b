package lora

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// choose returns the sites that get an adapter.
func choose(g *graph.Graph, sites []*site, targets *regexp.Regexp) ([]*site, error) {
	if targets != nil {
		chosen := slices.DeleteFunc(slices.Clone(sites), func(s *site) bool { return !targets.MatchString(s.module) })
		if len(chosen) == 0 {
			return nil, graph.Errorf("adapters: %q matches no module beside which one can stand: expected a pattern of their names, such as %s", targets, modules(sites))
		}
		return chosen, nil
	}
	chosen := slices.DeleteFunc(slices.Clone(sites), func(s *site) bool { return !s.pointwise() })
	if attends(g) {
		c := newChooser(g, sites)
		body := slices.DeleteFunc(slices.Clone(chosen), func(s *site) bool { return s.kind != Linear || c.head(s) })
		if len(body) > 0 {
			chosen = body
		}
	}
	if len(chosen) == 0 {
		return nil, graph.Errorf("adapters: expected products by a constant matrix or 1 x 1 convolutions in the main graph, found none (others: --lora-targets, of %s)", modules(sites))
	}
	return chosen, nil
}

// modules lists some names of modules.
func modules(sites []*site) string {
	var names []string
	for _, s := range sites {
		if !slices.Contains(names, s.module) {
			names = append(names, s.module)
		}
	}
	const most = 5
	switch n := len(names); {
	case n == 0:
		return "none"
	case n > most:
		names = append(names[:most-1:most-1], "…", names[n-1])
	}
	for i, n := range names {
		names[i] = graph.Short(n)
	}
	return strings.Join(names, ", ")
}

// attends reports whether a graph has attention: an operator of that name, or a product of two
// tensors neither of which is constant.
func attends(g *graph.Graph) bool {
	dynamic := dependent(g)
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		if strings.Contains(n.Op, "Attention") {
			return true
		}
		op := ops.Lookup(n.Domain, n.Op)
		return op != nil && op.Class == ops.Product && len(n.Inputs) > 1 && dynamic[n.Inputs[0]] && dynamic[n.Inputs[1]]
	})
}

// dependent marks the tensors that depend on graph inputs.
func dependent(g *graph.Graph) map[graph.TensorID]bool {
	d := map[graph.TensorID]bool{}
	for _, t := range g.Inputs {
		d[t] = true
	}
	order, err := g.Topological()
	if err != nil {
		return d // refused elsewhere
	}
	for _, k := range order {
		n, any := g.Nodes[k], false
		n.Reads(func(t graph.TensorID) { any = any || d[t] })
		for _, t := range n.Outputs {
			if any && t >= 0 {
				d[t] = true
			}
		}
	}
	return d
}

// chooser knows of a graph what tells heads from other products.
type chooser struct {
	g        *graph.Graph
	dynamic  map[graph.TensorID]bool
	products map[*graph.Node]bool // those with a site
}

func newChooser(g *graph.Graph, sites []*site) *chooser {
	c := &chooser{g, dependent(g), map[*graph.Node]bool{}}
	for _, s := range sites {
		if s.kind == Linear {
			c.products[s.node] = true
		}
	}
	return c
}

// head reports whether a product is a head: its result becomes a graph output, and until then
// meets no further product and nothing else that depends on the graph's inputs, such as a
// residual.
func (c *chooser) head(s *site) bool {
	of := map[graph.TensorID]bool{s.last.Outputs[0]: true}
	waiting := map[graph.NodeID]bool{}
	out := false
	reach := func(t graph.TensorID) {
		of[t] = true
		out = out || c.g.Tensors[t].Output
		for _, r := range c.g.Tensors[t].Readers {
			waiting[r] = true
		}
	}
	reach(s.last.Outputs[0])
	for len(waiting) > 0 {
		first := graph.NodeID(-1)
		for r := range waiting { // the others may read what it makes
			if first < 0 || r < first {
				first = r
			}
		}
		delete(waiting, first)
		n := c.g.Nodes[first]
		if c.products[n] && n != s.node {
			return false
		}
		alone := true
		n.Reads(func(t graph.TensorID) { alone = alone && (of[t] || !c.dynamic[t]) })
		if !alone {
			return false
		}
		for _, t := range n.Outputs {
			if t >= 0 {
				reach(t)
			}
		}
	}
	return out
}
