package verify

import (
	"math"

	flow "gonum.org/v1/gonum/graph/network"
	"gonum.org/v1/gonum/graph/simple"
)

// dinic is gonum's maximum flow through some vertices of the network. All capacities
// are whole and their sum is exact, so the flow is.
func (w *network) dinic(part []int32) int64 {
	at := make(map[int32]int64, len(part))
	for k, v := range part {
		at[v] = int64(k)
	}
	source, sink := simple.Node(len(part)), simple.Node(len(part)+1)
	g := simple.NewWeightedDirectedGraph(0, 0)
	for k := range len(part) + 2 {
		g.AddNode(simple.Node(k))
	}
	add := func(from, to int64, grains int64) {
		weight := float64(grains)
		switch {
		case grains == 0:
			return
		case grains >= unlimited:
			weight = math.Inf(1)
		}
		g.SetWeightedEdge(g.NewWeightedEdge(simple.Node(from), simple.Node(to), weight))
	}
	for k, v := range part {
		if e := w.excess[v]; e > 0 {
			add(int64(source), int64(k), e)
		} else {
			add(int64(k), int64(sink), -e)
		}
		for _, a := range w.arcs[v] {
			if to, inside := at[a.to]; inside {
				add(int64(k), to, a.out)
			}
		}
	}
	return int64(flow.MaxFlowDinic(g, source, sink, 0.5))
}
