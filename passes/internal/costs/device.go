package costs

import (
	"math"

	"github.com/onnxmem/onnxmem/internal/cost"
)

// Device is the model of a device.
type Device struct {
	FLOPS     float64 // floating-point operations per second
	Bandwidth float64 // memory bandwidth in bytes per second
	Kind      Kind
}

// Kind says how a device spends its time.
type Kind int

// The kinds of devices.
const (
	// Roofline computes and moves bytes at the same time, at full rate.
	Roofline Kind = iota
	// GPU does so, too, but a product that is too small for all processors takes longer.
	GPU
	// CPU is one core that waits for memory, and for each node, plane and narrow product.
	CPU
)

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

// Of estimates the time of a node in nanoseconds.
func (d Device) Of(w cost.Work) int64 {
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
