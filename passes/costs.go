package passes

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// DefaultDevice is a mid-range GPU. Which nodes are recomputed depends only on
// ratios of costs.
var DefaultDevice = Device{FLOPS: 15e12, Bandwidth: 700e9, Kind: GPU}

// OneCore is one core with AVX-512 of the machine on which bench/efficiency fitted the
// constants of a CPU to the times of onnxmem's kernels.
var OneCore = Device{FLOPS: 245e9, Bandwidth: 125e9, Kind: CPU}

// Devices are devices by name.
var Devices = map[string]Device{
	"gpu": DefaultDevice, "cpu": OneCore,
	"roofline": {FLOPS: DefaultDevice.FLOPS, Bandwidth: DefaultDevice.Bandwidth, Kind: Roofline},
}

// Constants of a CPU, as bench/efficiency prints them; cpuLaunch is that of a network, and
// cpuExp that of a core with AVX2.
const (
	cpuLaunch  = 800  // nanoseconds between two nodes
	cpuPlane   = 19   // nanoseconds between two planes of an image
	cpuLanes   = 2.2  // columns: a product of n takes the time of n + cpuLanes
	cpuExp     = 38   // operations that take as long as an exp of an element
	cpuWeights = 0.41 // the part of the bandwidth at which weights come from memory
)

// Constants of a GPU, from the way in which its kernels divide a product: into square
// tiles, of which each processor computes one at a time.
const (
	gpuProcessor = 300e9 // operations per second of a processor: 128 multiply-adds at 1.2 GHz
	gpuTile      = 64    // rows and columns
)

// launchCost is the time in nanoseconds that it takes to launch any node of a GPU. Launches
// overlap with what was launched before.
const launchCost = 1000

// costs returns the cost of each node of a region in nanoseconds: the measured one if
// Options.Costs has the node's name, else the estimate for Options.Device, which measured
// costs correct for nodes in slices ([measuredCosts]). Constants and swaps cost nothing.
// unknown counts the names in Options.Costs that no node has.
func (s *task) costs(r *planner.Region) (list []int64, unknown int) {
	list = make([]int64, len(r.G.Nodes))
	used := map[string]bool{}
	for i, n := range r.G.Nodes {
		ns, known := s.opt.Costs[n.Name]
		if known = known && n.Name != ""; known {
			used[n.Name] = true
		}
		factor, scaled := s.measured.of(n)
		switch {
		case n.IsSwap(): // the transfer takes time on the link, not on the device
		case known:
			list[i] = min(ns, cost.Most)
		case calledBySlice(n):
			list[i] = s.callCost(r.G, n)
		case ops.IsConstant(n):
		case scaled:
			list[i] = int64(min(factor*float64(s.opt.Device.cost(cost.Whole(r.G, n))), cost.Most))
		default:
			list[i] = s.opt.Device.cost(cost.Whole(r.G, n))
		}
	}
	for name := range s.opt.Costs {
		if !used[name] && !s.measured.has(name) {
			unknown++
		}
	}
	return list, unknown
}

// noteUnknownCosts warns of names in Options.Costs that no node of the main graph has.
func (s *State) noteUnknownCosts() {
	switch _, unknown := s.costs(s.main); {
	case unknown == 1:
		s.Warn("costs: 1 name matches no node")
	case unknown > 1:
		s.Warn("costs: %d names match no node", unknown)
	}
}

// calledBySlice reports whether a node calls a function with nodes of a slice.
func calledBySlice(n *graph.Node) bool {
	_, sliced := n.Prop(slicing.Prop)
	return sliced && n.Semantics.Call != nil
}

// callCost is the cost of a call that has nodes of a slice: what these cost by
// themselves. Views cost nothing.
func (s *task) callCost(g *graph.Graph, call *graph.Node) (ns int64) {
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
			one := s.opt.Device.cost(cost.Whole(&body, n))
			if factor, scaled := s.measured.of(n); scaled {
				one = int64(min(factor*float64(one), cost.Most))
			}
			ns = min(ns+one, cost.Most)
		}
	}
	return ns
}

// cost estimates the time of a node in nanoseconds.
func (d Device) cost(w cost.Work) int64 {
	if d == (Device{}) {
		d = DefaultDevice
	}
	compute, move := w.FLOPs/d.FLOPS, (w.Bytes+w.Weights)/d.Bandwidth
	var ns float64
	switch d.Kind {
	case CPU:
		if w.Columns > 0 {
			compute *= 1 + cpuLanes/w.Columns
		}
		compute += cpuExp * w.Functions / d.FLOPS
		move = (w.Bytes + w.Weights/cpuWeights) / d.Bandwidth
		if ns = 1e9*(compute+move) + cpuPlane*w.Planes + cpuLaunch; w.Fused {
			ns = 1e9 * compute
		}
	case GPU:
		if tiles := w.Batch * math.Ceil(w.Rows/gpuTile) * math.Ceil(w.Columns/gpuTile); tiles > 0 && w.Planes == 0 {
			compute *= 1 + d.FLOPS/gpuProcessor/(2*tiles) // half of the last wave is idle
		}
		fallthrough
	default:
		ns = max(1e9*max(compute, move), launchCost)
	}
	return int64(math.Round(min(ns, cost.Most)))
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
