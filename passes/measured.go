package passes

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// measuredCosts carry the measured costs of nodes (Options.Costs) over to what slices run
// in their place. A copy of a node takes what the device's model says of it, times what the
// node took when it was measured for what the model says of the node. Nodes that have no
// counterpart, as those that take rows, do so by what all measured nodes took together.
type measuredCosts struct {
	names   map[string]bool    // of all nodes of the graph without slices
	byName  map[string]float64 // by the name of a node of the graph without slices
	byKind  map[string]float64 // by operator and types: of all nodes that are alike
	typical float64            // of all nodes
}

// measure compares the measured costs with the estimates; nil if no node has both.
func (s *State) measure() *measuredCosts {
	if len(s.opt.Costs) == 0 {
		return nil
	}
	m := &measuredCosts{names: map[string]bool{}, byName: map[string]float64{}, byKind: map[string]float64{}}
	type sum struct{ measured, estimated float64 }
	var all sum
	kinds := map[string]sum{}
	g := s.model.Graph
	for _, n := range g.Nodes {
		m.names[n.Name] = true
		ns, known := s.opt.Costs[n.Name]
		if !known || n.Name == "" || n.IsSwap() || ops.IsConstant(n) || len(n.Semantics.Views) > 0 {
			continue
		}
		took, estimate := float64(min(ns, mostCost)), float64(s.opt.Device.cost(cost.Whole(g, n)))
		if estimate <= 0 {
			continue
		}
		m.byName[n.Name] = took / estimate
		kind := kindOf(g, n)
		k := kinds[kind]
		kinds[kind] = sum{k.measured + took, k.estimated + estimate}
		all.measured += took
		all.estimated += estimate
	}
	if all.measured <= 0 {
		return nil
	}
	for kind, k := range kinds {
		m.byKind[kind] = k.measured / k.estimated
	}
	m.typical = all.measured / all.estimated
	return m
}

// kindOf identifies nodes that do the same work: those of repeated blocks.
func kindOf(g *graph.Graph, n *graph.Node) string {
	var b strings.Builder
	b.WriteString(n.OpName())
	for _, list := range [][]graph.TensorID{n.Inputs, n.Outputs} {
		b.WriteByte('|')
		for _, t := range list {
			if t >= 0 {
				fmt.Fprint(&b, g.Tensors[t].Type, g.Tensors[t].Data != nil)
			}
			b.WriteByte(',')
		}
	}
	return b.String()
}

// copiedNode matches the name of a node that stands for one of the graph without slices:
// in a slice, for one reader, or for some of its columns.
var copiedNode = regexp.MustCompile(`^(.+)/(?:s|for|part)\d+(?:\.\d+)?$`)

// has reports whether a node of that name was there before the slices.
func (m *measuredCosts) has(name string) bool { return m != nil && m.names[name] }

// of returns what the time of a node is, as a multiple of its estimate; known is false if
// the estimate stands.
func (m *measuredCosts) of(n *graph.Node) (factor float64, known bool) {
	if m == nil {
		return 1, false
	}
	for name := n.Name; ; {
		if f, ok := m.byName[name]; ok {
			return f, true
		}
		match := copiedNode.FindStringSubmatch(name)
		if match == nil {
			break
		}
		name = match[1]
	}
	if _, sliced := n.Prop(slicing.Prop); sliced {
		return m.typical, true
	}
	return 1, false
}

// factors returns for each node of a graph what its time is, as a multiple of its estimate
// times typical: the same for all nodes that are alike, so that the regions of repeated
// blocks stay alike.
func (m *measuredCosts) factors(g *graph.Graph) []float64 {
	if m == nil {
		return nil
	}
	list := make([]float64, len(g.Nodes))
	for i, n := range g.Nodes {
		f, known := m.byKind[kindOf(g, n)]
		if !known {
			f, _ = m.of(n)
		}
		list[i] = f / m.typical
	}
	return list
}
