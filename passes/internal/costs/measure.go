package costs

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
)

// Measure compares the measured costs with the estimates for the nodes of a graph without slices; nil
// if no node has both.
func (of *Model) Measure(g *graph.Graph) *Measured {
	if len(of.Given) == 0 {
		return nil
	}
	m := &Measured{names: map[string]bool{}, byName: map[string]float64{}, byKind: map[string]float64{}}
	type sum struct{ measured, estimated float64 }
	var all sum
	kinds := map[string]sum{}
	for _, n := range g.Nodes {
		m.names[n.Name] = true
		ns, known := of.Given[n.Name]
		if !known || n.Name == "" || n.IsSwap() || ops.IsConstant(n) || len(n.Semantics.Views) > 0 {
			continue
		}
		took, estimate := float64(min(ns, cost.Most)), float64(of.Device.Of(cost.Whole(g, n)))
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

// Factors returns for each node of a graph what its time is, as a multiple of its estimate
// times typical: the same for all nodes that are alike, so that the regions of repeated
// blocks stay alike.
func (of *Model) Factors(g *graph.Graph) []float64 {
	m := of.Measured
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
