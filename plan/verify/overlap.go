package verify

import (
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// extent is a buffer of a scope as the core takes it.
type extent struct {
	core.Extent

	s    *scope
	list []plan.Buffer
	k    int
}

// extents returns the buffers of a pool whose size is not 0.
func (s *scope) extents(list []plan.Buffer, pool string) []extent {
	n := 0
	for k := range list {
		if list[k].Pool == pool {
			n++
		}
	}
	all := make([]extent, 0, n)
	for k := range list {
		b, p := &list[k], &s.buffers[k]
		end := b.Offset + p.Bytes
		if p.Known && b.Pool == pool && p.Bytes > 0 && b.Offset >= 0 && end > 0 {
			all = append(all, extent{core.Extent{Offset: b.Offset, End: end, First: p.First, Last: p.Last}, s, list, k})
		}
	}
	return all
}

// checkOverlap checks one pool of the scope.
func (s *scope) checkOverlap(pool string) {
	s.v.overlap(s.extents(s.list, pool))
}

// overlapResident checks the resident buffers of all graphs: they are always live.
func (v *verifier) overlapResident() {
	for i := range v.resident {
		v.resident[i].First, v.resident[i].Last = 0, 0
	}
	v.overlap(v.resident)
}

// overlap reports buffers that share bytes at some step.
func (v *verifier) overlap(all []extent) {
	list := make([]core.Extent, len(all))
	for i := range all {
		list[i] = all[i].Extent
	}
	core.Overlap(list, func(a, b int) { v.reportOverlap(&all[a], &all[b]) })
}

func (v *verifier) reportOverlap(a, b *extent) {
	pool := a.list[a.k].Pool
	what := fmt.Sprintf("%s (pool %s, bytes %d-%d", a.label(), pool, a.Offset, a.End-1)
	if pool == plan.Resident {
		v.Fault(CodeOverlap, "%s) and %s (%d-%d) overlap", what, b.label(), b.Offset, b.End-1)
		return
	}
	v.Fault(CodeOverlap, "%s, steps %d-%d) and %s (%d-%d, steps %d-%d) overlap at step %d", what, a.First, a.Last,
		strings.TrimPrefix(b.label(), b.s.where), b.Offset, b.End-1, b.First, b.Last, max(a.First, b.First))
}

func (x *extent) label() string { return x.s.where + x.s.label(x.list, x.k) }
