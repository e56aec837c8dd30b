package verify

import (
	"math"

	"github.com/onnxmem/onnxmem/plan"
)

// rounding is the relative error that figures computed in floating point may
// have.
const rounding = 1e-9

// limit checks the plan's figures about its limit against the steps.
func (v *verifier) limit() bool {
	s, again, sum := v.main, v.again, &v.sum
	claim := v.Plan.Summary.Limited
	if claim == nil {
		if again != nil || v.added != nil && len(v.Plan.Tiers()) == 0 {
			v.Fault(CodeLimit, "summary: limit_bytes is missing: expected it if nodes run again or tensors are swapped out")
		}
		return true
	}
	l := *claim
	l.RecomputedNodes, l.SwappedBuffers, l.SwappedBytes = 0, 0, 0
	for i := range s.Storages {
		if s.Storages[i].Host {
			l.SwappedBuffers++
			l.SwappedBytes = v.add(l.SwappedBytes, s.Storages[i].Bytes)
		}
	}
	plain, extra := 0.0, 0.0
	for i := range min(len(v.Plan.Steps), len(s.g.Nodes)) {
		cost := v.Plan.Steps[i].CostNS
		if cost > 0 {
			v.Claim("steps.cost_ns")
		}
		if cost > 0 && s.g.Nodes[i].IsSwap() {
			v.Fault(CodeLimit, "steps: step %d: cost_ns: expected none of a transfer, found %d", i, cost)
		}
		if again != nil && again[i] != none {
			l.RecomputedNodes++
			extra += float64(cost)
			continue
		}
		plain += float64(cost)
	}
	waiting := 0.0
	if l.HostLink > 0 {
		waiting = float64(s.waiting(func(i int) int64 {
			if i >= len(v.Plan.Steps) {
				return 0
			}
			return min(max(v.Plan.Steps[i].CostNS, 0), math.MaxInt64>>24)
		}, l.HostLink))
	}
	if l.ExtraCostPercent, l.WaitingPercent = 0, 0; plain > 0 {
		l.WaitingPercent = 100 * waiting / plain
		l.ExtraCostPercent = 100 * (extra + waiting) / plain
	}
	held, what := sum.PeakBytes, "peak"
	if l.LimitArena {
		held, what = sum.ArenaBytes, "arena"
	}
	switch {
	case held > l.LimitBytes:
		v.Fault(CodeLimit, "summary: limit_bytes: expected at least the %s, %d, found %d", what, held, l.LimitBytes)
	case l.HostLink < 0:
		v.Fault(CodeLimit, "summary: host_link_bytes_per_second: expected a figure >= 0, found %d", l.HostLink)
	case math.Abs(claim.WaitingPercent-l.WaitingPercent) > rounding*(1+l.WaitingPercent):
		v.Fault(CodeLimit, "summary: waiting_percent: expected %v, by the costs of the steps and the link, found %v", l.WaitingPercent, claim.WaitingPercent)
	case math.Abs(claim.ExtraCostPercent-l.ExtraCostPercent) > rounding*(1+l.ExtraCostPercent):
		v.Fault(CodeLimit, "summary: extra_cost_percent: expected %v, by the costs of the steps, found %v", l.ExtraCostPercent, claim.ExtraCostPercent)
	case l.ExtraCostBound != nil && l.HostLink > 0:
		v.Fault(CodeLimit, "summary: extra_cost_lower_bound_percent: expected none if tensors may be swapped out, found %v", *l.ExtraCostBound)
	case l.ExtraCostBound != nil && *l.ExtraCostBound < 0:
		v.Fault(CodeLimit, "summary: extra_cost_lower_bound_percent: expected a figure >= 0, found %v", *l.ExtraCostBound)
	case l.ExtraCostBound != nil && *l.ExtraCostBound > l.ExtraCostPercent*(1+rounding):
		v.Fault(CodeLimit, "summary: extra_cost_lower_bound_percent: expected at most %v, which the plan costs, found %v", l.ExtraCostPercent, *l.ExtraCostBound)
	case claim.RecomputedNodes != l.RecomputedNodes:
		v.Fault(CodeLimit, "summary: recomputed_nodes: expected %d, found %d", l.RecomputedNodes, claim.RecomputedNodes)
	case claim.SwappedBuffers != l.SwappedBuffers:
		v.Fault(CodeLimit, "summary: swapped_buffers: expected %d, found %d", l.SwappedBuffers, claim.SwappedBuffers)
	case claim.SwappedBytes != l.SwappedBytes:
		v.Fault(CodeLimit, "summary: swapped_bytes: expected %d, found %d", l.SwappedBytes, claim.SwappedBytes)
	default: // equal but for rounding
		l.ExtraCostPercent, l.WaitingPercent = claim.ExtraCostPercent, claim.WaitingPercent
	}
	if l.ExtraCostBound != nil && *l.ExtraCostBound > 0 {
		v.Claim("extra_cost_lower_bound_percent")
	}
	if l.HostLink > 0 {
		v.Claim("host_link_bytes_per_second")
	}
	v.plainPeak(&l, sum.PeakBytes)
	sum.Limited = &l
	return true
}

// recastPeak checks the plan's figure for the peak of the plan without a limit, in which casts run again.
// They do where that is below the peak of the best order, and a plan without a limit says so otherwise.
func (v *verifier) recastPeak(l *plan.Limited) {
	found := l.RecastPeakBytes
	switch {
	case found == 0:
		return
	case found < 0, l.Recast, found >= l.PlainPeakBytes:
		v.Fault(CodeLimit, "summary: recast_peak_bytes: expected a figure below plain_peak_bytes, %d, and none with recast, found %d", l.PlainPeakBytes, found)
	}
	v.Claim("recast_peak_bytes")
}

// plainPeak checks the plan's figure for the peak of the best order without the
// added nodes. It is at least the bytes that one node takes in every order, and
// it exceeds the limit. The plan does not contain that order.
func (v *verifier) plainPeak(l *plan.Limited, peak int64) {
	found := l.PlainPeakBytes
	v.recastPeak(l)
	if v.added == nil {
		if found != peak {
			v.Fault(CodeLimit, "summary: plain_peak_bytes: expected the peak, %d, if no node runs again and nothing is swapped out, found %d", peak, found)
		}
		return
	}
	least := int64(0)
	if v.plain != nil { // of ranges that are checked at the corner alone, the sharing is not known
		for i := range v.plain.g.Nodes {
			least = max(least, v.plain.AtNode(int32(i)))
		}
	}
	switch {
	case found < least:
		v.Fault(CodeLimit, "summary: plain_peak_bytes: expected at least %d, which one node takes in every order, found %d", least, found)
	case !l.LimitArena && found <= l.LimitBytes:
		v.Fault(CodeLimit, "summary: plain_peak_bytes: expected more than the limit, %d, if nodes run again or tensors are swapped out, found %d", l.LimitBytes, found)
	}
	v.Claim("plain_peak_bytes")
}
