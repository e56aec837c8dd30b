package exec

import (
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/device"
)

// DeviceUse returns what the session takes and does on its GPU; nil if it has none.
func (s *Session) DeviceUse() *device.Use {
	g := s.gpu
	if g == nil {
		return nil
	}
	u := g.Uses(s.Mem.Resident)
	u.Machine, u.Measured.GraphBytes = deviceMachine, g.replay.taken
	u.FallbackNodes, u.FallbackOps, u.ReplayedSteps = g.nodes, slices.Sorted(slices.Values(g.ops)), g.replay.steps
	return u
}
