package passes

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
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

// costModel is what the options say of the costs of nodes.
func (o *Options) costModel() costs.Model {
	d := o.Device
	if d == (Device{}) {
		d = DefaultDevice
	}
	return costs.Model{Device: costs.Device{FLOPS: d.FLOPS, Bandwidth: d.Bandwidth, Kind: costs.Kind(d.Kind)}, Given: o.Costs}
}

// noteUnknownCosts warns of names in Options.Costs that no node of the main graph has.
func (s *State) noteUnknownCosts() {
	switch unknown := s.costs.Unknown(s.now.Main.G); {
	case unknown == 1:
		s.Warn("costs: 1 name matches no node")
	case unknown > 1:
		s.Warn("costs: %d names match no node", unknown)
	}
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
