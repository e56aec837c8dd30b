package passes

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Device is the roofline model of a device, from which the costs of nodes are
// estimated.
type Device struct {
	FLOPS     float64 // floating-point operations per second
	Bandwidth float64 // memory bandwidth in bytes per second
}

// DefaultDevice is a mid-range GPU. Which nodes are recomputed depends only on
// ratios of costs.
var DefaultDevice = Device{FLOPS: 15e12, Bandwidth: 700e9}

// leastCost is the time in nanoseconds that it takes to launch any node.
const leastCost = 1000

// mostCost limits a cost in nanoseconds so that sums of costs cannot overflow.
const mostCost = math.MaxInt64 >> 24

// costs returns the cost of each node of a region in nanoseconds: the measured
// one if Options.Costs has the node's name, else max(flops / FLOPS, bytes moved /
// Bandwidth), but at least 1 µs. Constants and swaps cost nothing. unknown counts
// the names in Options.Costs that no node has.
func (s *State) costs(r *region) (list []int64, unknown int) {
	list = make([]int64, len(r.g.Nodes))
	used := map[string]bool{}
	for i, n := range r.g.Nodes {
		ns, known := s.opt.Costs[n.Name]
		if known = known && n.Name != ""; known {
			used[n.Name] = true
		}
		switch {
		case n.IsSwap(): // the transfer takes time on the link, not on the device
		case known:
			list[i] = min(ns, mostCost)
		case !ops.IsConstant(n):
			list[i] = s.opt.Device.cost(n.Semantics.FLOPs, moved(r.g, n))
		}
	}
	return list, len(s.opt.Costs) - len(used)
}

// cost is the roofline estimate, in nanoseconds.
func (d Device) cost(flops int64, bytes float64) int64 {
	if d == (Device{}) {
		d = DefaultDevice
	}
	seconds := max(float64(flops)/d.FLOPS, bytes/d.Bandwidth)
	return int64(math.Round(min(max(seconds*1e9, leastCost), mostCost)))
}

// moved returns the bytes that a node reads and writes, each input and output
// counted once. A view moves nothing.
func moved(g *graph.Graph, n *graph.Node) float64 {
	if n.IsPutRows() { // in place, only the part moves
		return 2 * float64(g.Tensors[n.Inputs[1]].Bytes)
	}
	sum := 0.0
	for k, t := range n.Outputs {
		view := slices.ContainsFunc(n.Semantics.Views, func(a graph.Alias) bool { return a.Out == k })
		if t >= 0 && !view {
			sum += float64(g.Tensors[t].Bytes)
		}
	}
	if sum == 0 || ops.ReadsOutput(n) {
		return 2 * sum
	}
	var seen []graph.TensorID
	n.Reads(func(t graph.TensorID) {
		if !slices.Contains(seen, t) {
			seen = append(seen, t)
			sum += float64(g.Tensors[t].Bytes)
		}
	})
	return sum
}

// checkCosts validates the device and the measured costs.
func (o *Options) checkCosts() error {
	if d := o.Device; d != (Device{}) {
		for _, c := range []struct {
			name  string
			value float64
		}{{"flops", d.FLOPS}, {"bandwidth", d.Bandwidth}} {
			if !(c.value > 0) || math.IsInf(c.value, 0) {
				return fmt.Errorf("device: %s of %v: expected more than 0 per second", c.name, c.value)
			}
		}
	}
	for name, ns := range o.Costs {
		if ns < 0 {
			return fmt.Errorf("costs: %q takes %d ns: expected 0 or more", graph.Short(name), ns)
		}
	}
	return nil
}
