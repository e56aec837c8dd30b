package passes

import (
	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/schedule"
)

// placement is the effort of placement that goes with that of scheduling: the one
// of the same name.
func placement(e schedule.Effort) alloc.Effort {
	switch e {
	case schedule.EffortFast:
		return alloc.EffortFast
	case schedule.EffortMax:
		return alloc.EffortMax
	}
	return alloc.EffortDefault
}
