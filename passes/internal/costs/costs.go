// Package costs says how long nodes take: as long as they took when they were measured, or as the
// model of a device estimates.
package costs

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// Model is what is known of the costs of nodes.
type Model struct {
	Device   Device
	Given    map[string]int64 // measured costs of nodes by name, in nanoseconds
	Measured *Measured        // nil: no costs were measured, or nothing may run in slices
}

// Of returns the cost of each node of a graph in nanoseconds: the measured one if there is one of
// that name, else the estimate, which measured costs correct for nodes in slices ([Measured]).
// Constants and swaps cost nothing.
func (m *Model) Of(g *graph.Graph) []int64 {
	list := make([]int64, len(g.Nodes))
	for i, n := range g.Nodes {
		ns, known := m.Given[n.Name]
		factor, scaled := m.Measured.of(n)
		switch {
		case n.IsSwap(): // the transfer takes time on the link, not on the device
		case known && n.Name != "":
			list[i] = min(ns, cost.Most)
		case calledBySlice(n):
			list[i] = m.ofCall(g, n)
		case ops.IsConstant(n):
		case scaled:
			list[i] = int64(min(factor*float64(m.Device.Of(cost.Whole(g, n))), cost.Most))
		default:
			list[i] = m.Device.Of(cost.Whole(g, n))
		}
	}
	return list
}

// Time returns the modelled time of all nodes of a graph in nanoseconds. Views take none.
func (m *Model) Time(g *graph.Graph) (ns float64) {
	costs := m.Of(g)
	for i, n := range g.Nodes {
		if len(n.Semantics.Views) == 0 {
			ns += float64(costs[i])
		}
	}
	return ns
}

// Unknown counts the names with measured costs that no node of a graph has, nor had one before the
// slices.
func (m *Model) Unknown(g *graph.Graph) (unknown int) {
	there := map[string]bool{}
	for _, n := range g.Nodes {
		there[n.Name] = n.Name != ""
	}
	for name := range m.Given {
		if !there[name] && !m.Measured.has(name) {
			unknown++
		}
	}
	return unknown
}

// InSlices estimates the time of a node of a graph with slices, to which [Model.Factors] apply.
func (m *Model) InSlices(w cost.Work) float64 {
	one := float64(m.Device.Of(w))
	if m.Measured != nil {
		one *= m.Measured.typical
	}
	return one
}

// calledBySlice reports whether a node calls a function with nodes of a slice.
func calledBySlice(n *graph.Node) bool {
	_, sliced := n.Prop(slicing.Prop)
	return sliced && n.Semantics.Call != nil
}

// ofCall is the cost of a call that has nodes of a slice: what these cost by
// themselves. Views cost nothing.
func (m *Model) ofCall(g *graph.Graph, call *graph.Node) (ns int64) {
	body := *call.Semantics.Call.Body
	body.Tensors = slices.Clone(body.Tensors)
	for i, t := range body.Inputs {
		if i < len(call.Inputs) && call.Inputs[i] >= 0 {
			x := *body.Tensors[t]
			x.Data = g.Tensors[call.Inputs[i]].Data // weights cost more than activations
			body.Tensors[t] = &x
		}
	}
	for _, n := range body.Nodes {
		if len(n.Semantics.Views) == 0 {
			one := m.Device.Of(cost.Whole(&body, n))
			if factor, scaled := m.Measured.of(n); scaled {
				one = int64(min(factor*float64(one), cost.Most))
			}
			ns = min(ns+one, cost.Most)
		}
	}
	return ns
}
