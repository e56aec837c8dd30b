package verify

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// checkSummary compares the plan's summary with the computed one.
func (v *verifier) checkSummary() bool {
	v.sum.Unsliced = v.Plan.Summary.Unsliced // claimed
	v.r.Summary = v.sum
	want, found := v.sum, v.Plan.Summary
	figure := func(name string, want, found any) {
		if want != found {
			v.Fault(CodeSummary, "summary: %s: expected %v, found %v", name, want, found)
		}
	}
	figure("nodes", want.Nodes, found.Nodes)
	figure("tensors", want.Tensors, found.Tensors)
	figure("dynamic", want.Dynamic, found.Dynamic)
	figure("resident_bytes", want.ResidentBytes, found.ResidentBytes)
	figure("naive_bytes", want.NaiveBytes, found.NaiveBytes)
	figure("program_order_peak_bytes", want.ProgramPeakBytes, found.ProgramPeakBytes)
	figure("peak_bytes", want.PeakBytes, found.PeakBytes)
	figure("arena_bytes", want.ArenaBytes, found.ArenaBytes)
	figure("total_bytes", want.TotalBytes, found.TotalBytes)
	figure("peak_step", want.PeakStep, found.PeakStep)
	figure("schedule_optimal", want.ScheduleOptimal, found.ScheduleOptimal)
	figure("placement_optimal", want.PlacementOptimal, found.PlacementOptimal)
	figure("placement_claimed_by", graph.Short(want.PlacementClaimedBy), graph.Short(found.PlacementClaimedBy))

	switch {
	case (want.Tiered == nil) != (found.Tiered == nil):
		v.Fault(CodeSummary, "summary: slow_traffic_bytes: expected it with pools of a capacity alone")
	case want.Tiered != nil:
		figure("slow_traffic_bytes", want.SlowTrafficBytes, found.SlowTrafficBytes)
		figure("slow_traffic_lower_bound_bytes", want.SlowTrafficBoundBytes, found.SlowTrafficBoundBytes)
		figure("moved_buffers", want.MovedBuffers, found.MovedBuffers)
		figure("moved_bytes", want.MovedBytes, found.MovedBytes)
		figure("resident_read_bytes", want.ResidentReadBytes, found.ResidentReadBytes)
	}

	switch {
	case want.ArenaBytes == want.PeakBytes:
		v.r.Placement = "proven"
	case found.PlacementOptimal:
		v.r.Placement = "claimed"
		if who := found.PlacementClaimedBy; who != "" {
			v.r.Placement += " by " + graph.Short(who)
		}
		v.Claim("placement_optimal")
		v.Claim("placement_claimed_by")
	default:
		v.r.Placement = fmt.Sprintf("gap %d bytes", want.ArenaBytes-want.PeakBytes)
	}
	return true
}
