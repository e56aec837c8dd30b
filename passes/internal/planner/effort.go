package planner

import (
	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/schedule"
)

// Placement returns the effort of placement that has the same name as the effort
// of scheduling.
func Placement(e schedule.Effort) alloc.Effort {
	switch e {
	case schedule.EffortFast:
		return alloc.EffortFast
	case schedule.EffortMax:
		return alloc.EffortMax
	}
	return alloc.EffortDefault
}
