// Package report presents plans. Its functions take a consistent plan
// ([plan.Plan.Check]) and write to an io.Writer; equal plans give equal bytes.
//
//	text.go, text_curve.go  Summary and TextCurve, for a terminal
//	changes.go              Changes and Gate: a difference of two plans, a limit
//	page.go, data.go        Page: one HTML page, its template, scripts and data
//	picture.go              Pictures: the load over the steps, the map of the arena
//	placement.go            PlacementSVG: any placement, without a plan
//	frontier.go             Frontier and FrontierPicture: the cost of limits
//	ranges.go, ranges_picture.go
//	                        Ranges: what a plan needs at other lengths of dimensions
//	export.go               Exports, the table of formats for other tools
//	perfetto.go, c_header.go, c_header_ranges.go, buffers_csv.go, memory_viz.go, pickle.go
//	                        one format each; memory_viz writes a pickle
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// Fragmentation is (arena - peak) / arena in per cent, as OLLA defines it.
func Fragmentation(s plan.Summary) float64 { return FragmentationOf(s.ArenaBytes, s.PeakBytes) }

// FragmentationOf is (arena - peak) / arena in per cent, 0 for no arena.
func FragmentationOf(arena, peak int64) float64 {
	if arena == 0 {
		return 0
	}
	return 100 * float64(arena-peak) / float64(arena)
}

// aliased counts the tensors that lie in several buffers.
func aliased(p *plan.Plan) string {
	switch n := len(p.Spans); n {
	case 0:
		return "results of Slice or Gather are their operands"
	case 1:
		return "1 tensor lies in the bytes of others"
	default:
		return fmt.Sprintf("%d tensors lie in the bytes of others", n)
	}
}

// Summary prints the benefit of a plan: before and after, the bound, the arena,
// and the buffers at the peak.
func Summary(w io.Writer, p *plan.Plan) {
	s := &p.Summary
	fmt.Fprintf(w, "every buffer apart   %s\n", units.Bytes(s.NaiveBytes))
	if !p.IsPoint() {
		fmt.Fprintf(w, "peak, program order  %s\n", units.Bytes(s.ProgramPeakBytes))
	}
	fmt.Fprintf(w, "peak, planned order  %s%s\n", units.Bytes(s.PeakBytes), Less(s.ProgramPeakBytes, s.PeakBytes))
	fmt.Fprintf(w, "lower bound          %s: %s\n", units.Bytes(s.LowerBoundBytes), verdict(p))
	fmt.Fprintf(w, "arena                %s, fragmentation %.2f %%%s\n", units.Bytes(s.ArenaBytes), Fragmentation(*s), placement(s))
	for _, t := range p.Tiers() {
		fmt.Fprintf(w, "%-20s %s of %s", "pool "+t.Name, units.Bytes(t.Bytes), units.Short(t.Capacity))
		if s.Tiered != nil { // else it is the plan of a point without its model
			fmt.Fprintf(w, ": %s read, %s written", units.Short(t.ReadBytes), units.Short(t.WrittenBytes))
		}
		fmt.Fprintln(w)
	}
	if x := s.Tiered; x != nil {
		fmt.Fprintf(w, "slow traffic         %s, at least %s in this order; %s of constants\n", units.Bytes(x.SlowTrafficBytes), units.Short(x.SlowTrafficBoundBytes), units.Short(x.ResidentReadBytes))
		if x.MovedBuffers > 0 {
			fmt.Fprintf(w, "moved                %s in %d copies between pools, part of the traffic\n", units.Bytes(x.MovedBytes), x.MovedBuffers)
		}
	}
	fmt.Fprintf(w, "arena + resident     %s\n", units.Bytes(s.TotalBytes))
	Ranges(w, p)
	if p.Sharing.Runtime != "" {
		fmt.Fprintf(w, "sharing              %s\n", p.Sharing.Runtime)
	}
	if t := p.Traversal; t != nil {
		fmt.Fprintf(w, "order                the default of %s; the best has a peak of %s\n", t.Runtime, units.Bytes(t.BestPeakBytes))
	}
	if p.Sharing.Aliases {
		fmt.Fprintf(w, "aliases              %s; for a runtime that copies, plan with --no-aliases\n", aliased(p))
	}
	if f := p.Folded; f != nil {
		fmt.Fprintf(w, "folded               %s\n", folded(f))
	}
	if p.Slices != nil && s.Unsliced != nil {
		fmt.Fprintf(w, "slices               %s\n", sliced(p.Slices, s.Unsliced))
	}
	if l := s.Limited; l != nil {
		if l.Recast {
			fmt.Fprintf(w, "casts                %s\n", recast(l))
		} else {
			fmt.Fprintf(w, "limit                %s\n", limited(p))
		}
		if l.SwappedBuffers > 0 {
			fmt.Fprintf(w, "swapped              %s%s\n", units.Bytes(l.SwappedBytes), Link(l))
		}
		if s.Unsliced != nil && l.ExtraCostPercent > 0 {
			fmt.Fprintf(w, "extra time           %s\n", together(s))
		}
	}
	if x := p.Workspaces; x != nil {
		fmt.Fprintf(w, "workspaces           %s\n", workspaces(x))
	}
	if s.Dynamic > 0 {
		fmt.Fprintf(w, "left to the runtime  %d tensors whose size depends on data\n", s.Dynamic)
	}
	if len(p.Steps) > 0 {
		fmt.Fprintf(w, "peak at step         %d (%s)\n", s.PeakStep, StepName(p, s.PeakStep))
		for _, b := range LiveAt(p, s.PeakStep, 3) {
			fmt.Fprintf(w, "  %-18s %s\n", units.Short(b.Bytes), bufferName(p, b))
		}
	}
}

// folded describes what was computed from constants, and what it saves.
func folded(f *plan.Folded) string {
	var made []string
	if n := len(f.Tensors); n > 0 {
		bytes := int64(0)
		for _, t := range f.Tensors {
			bytes += t.Bytes
		}
		made = append(made, fmt.Sprintf("%s of %s computed once", number(n, "constant"), units.Short(bytes)))
	}
	if n := len(f.Products); n > 0 {
		made = append(made, fmt.Sprintf("constants read as they lie by %s", number(n, "product")))
	}
	return fmt.Sprintf("%s instead of %s; before: peak %s, total %s", strings.Join(made, ", "), number(f.Nodes, "node"),
		units.Short(f.UnfoldedPeakBytes), units.Short(f.UnfoldedTotalBytes))
}

// workspaces says where the recorded workspaces come from.
func workspaces(w *plan.Workspaces) string {
	most := int64(0)
	for _, n := range w.Nodes {
		most = max(most, n.Bytes)
	}
	text := fmt.Sprintf("%s, at most %s, recorded on %s", number(len(w.Nodes), "node"), units.Bytes(most), units.Name(w.Device))
	var with []string
	for _, library := range []string{w.Products, w.Convolutions} {
		if library != "" {
			with = append(with, units.Name(library))
		}
	}
	if with != nil {
		text += " with " + strings.Join(with, " and ")
	}
	return text
}

// sliced describes the regions that run in slices, and what they save.
func sliced(x *plan.Slices, u *plan.Unsliced) string {
	least, most, sums, inside := math.MaxInt, 0, 0, 0
	for _, r := range x.Regions {
		least, most = min(least, r.Count), max(most, r.Count)
		if !r.Exact {
			sums++
		}
		if r.Within != nil {
			inside++
		}
	}
	counts := fmt.Sprintf("in %d slices", most)
	if least < most {
		counts = fmt.Sprintf("in %d to %d slices", least, most)
	}
	what := number(len(x.Regions), "region")
	if x.Mode == plan.SlicesOfLoss {
		what = "the loss"
	}
	text := fmt.Sprintf("%s %s, %.2f %% more time by estimate; whole: peak %s, no order below %s", what, counts, u.SliceCostPercent, units.Short(u.UnslicedPeakBytes), units.Short(u.UnslicedBoundBytes))
	if x.Mode != plan.SlicesOfLoss { // else other regions were not looked for
		text += fmt.Sprintf("; more slices of them: not below %s; any slices: not below %s", units.Short(u.AnyCountBoundBytes), units.Short(u.AnySlicesBoundBytes))
	}
	if inside > 0 {
		text += fmt.Sprintf("; %d of the regions inside of slices", inside)
	}
	switch {
	case sums == 1:
		text += "; 1 region sums over slices"
	case sums > 1:
		text += fmt.Sprintf("; %d regions sum over slices", sums)
	}
	return text
}

// together gives the extra time of slices, recomputation and waiting, each and all.
func together(s *plan.Summary) string {
	parts := []string{fmt.Sprintf("slices %.2f %%", s.SliceCostPercent)}
	if again := s.ExtraCostPercent - s.WaitingPercent; s.RecomputedNodes > 0 {
		parts = append(parts, fmt.Sprintf("recomputation %.2f %%", again))
	}
	if s.SwappedBuffers > 0 {
		parts = append(parts, fmt.Sprintf("waiting %.2f %%", s.WaitingPercent))
	}
	return fmt.Sprintf("%s: together %.2f %% more by estimate", strings.Join(parts, ", "), s.TotalCostPercent)
}

// number writes a count with its noun.
func number(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// limited describes the cost of the limit of a plan.
func limited(p *plan.Plan) string {
	l, u := p.Summary.Limited, p.Summary.Unsliced
	text := fmt.Sprintf("%s, %.1f %% of the peak without: ", units.Bytes(l.LimitBytes), percentOf(l.LimitBytes, p.Unlimited()))
	if l.RecomputedNodes == 0 && l.SwappedBuffers == 0 {
		if u != nil {
			return text + "the slices meet it"
		}
		return text + "the order meets it, at no cost"
	}
	if l.RecomputedNodes > 0 || l.SwappedBuffers == 0 {
		text += fmt.Sprintf("%d nodes run again, ", l.RecomputedNodes)
	}
	if l.SwappedBuffers > 0 {
		text += fmt.Sprintf("%d tensors are swapped, ", l.SwappedBuffers)
	}
	text += fmt.Sprintf("%.2f %% more time by estimate", l.ExtraCostPercent)
	if l.ExtraCostBound != nil {
		text += fmt.Sprintf(" (no plan below %.2f %%)", *l.ExtraCostBound)
	}
	return text
}

// recast describes what it costs to run casts again.
func recast(l *plan.Limited) string {
	return fmt.Sprintf("%d run again, %.2f %% more time by estimate; once each, the peak is %s", l.RecomputedNodes, l.ExtraCostPercent, units.Bytes(l.PlainPeakBytes))
}

// Link describes the link over which tensors are swapped, and how long steps wait
// for it; "" if that is not known.
func Link(l *plan.Limited) string {
	if l.HostLink == 0 {
		return ""
	}
	return fmt.Sprintf(" over %v each way: steps wait %.2f %% of a step for it", units.Rate(l.HostLink), l.WaitingPercent)
}

// percentOf is part as a percentage of whole, 0 if whole is 0.
func percentOf(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// Less says by how many per cent after is below before.
func Less(before, after int64) string {
	switch {
	case before == 0 || before == after:
		return ""
	case after < before:
		return fmt.Sprintf(", %.1f %% less", 100*float64(before-after)/float64(before))
	}
	return fmt.Sprintf(", %.1f %% more", 100*float64(after-before)/float64(before))
}

func verdict(p *plan.Plan) string {
	s := &p.Summary
	switch who := p.ClaimedBy(); {
	case s.ScheduleOptimal && who != "":
		return "met, no order does better (claimed by " + units.Name(who) + ")"
	case s.ScheduleOptimal && s.PeakBytes == s.LowerBoundBytes:
		return "met, no order does better"
	case s.ScheduleOptimal:
		return "no order does better (by search)"
	case s.PeakBytes == 0:
		return "nothing to order"
	}
	return fmt.Sprintf("not met, gap %.2f %% of the peak", 100*float64(s.PeakBytes-s.LowerBoundBytes)/float64(s.PeakBytes))
}

// placement says what is known of an arena that is larger than the peak; "" if it
// is not.
func placement(s *plan.Summary) string {
	switch {
	case s.ArenaBytes == s.PeakBytes:
		return ""
	case s.PlacementOptimal && s.PlacementClaimedBy != "":
		return ": no placement of these buffers does better, claimed by " + units.Name(s.PlacementClaimedBy)
	case s.PlacementOptimal:
		return ": proven, no placement of these buffers does better"
	}
	return ": not proven, a placement as small as the peak may exist"
}

// StepName names a step: its node, if that has a name, and its operator.
func StepName(p *plan.Plan, step int) string {
	s := p.Steps[step]
	if s.Name == "" {
		return units.Name(s.Op)
	}
	return units.Name(s.Name) + ", " + units.Name(s.Op)
}

// LiveAt returns the largest buffers, at most most, that are live at a step
// outside the resident and host pools.
func LiveAt(p *plan.Plan, step, most int) []*plan.Buffer {
	var live []*plan.Buffer
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Pool != plan.Resident && b.Pool != plan.Host && b.First <= step && step <= b.Last && b.Bytes > 0 {
			live = append(live, b)
		}
	}
	slices.SortStableFunc(live, func(a, b *plan.Buffer) int {
		switch {
		case a.Bytes > b.Bytes:
			return -1
		case a.Bytes < b.Bytes:
			return 1
		}
		return 0
	})
	return live[:min(len(live), most)]
}

func bufferName(p *plan.Plan, b *plan.Buffer) string {
	if len(b.Tensors) == 0 && b.Node != nil {
		return "workspace of " + StepName(p, *b.Node)
	}
	if len(b.Tensors) == 0 {
		if whole := p.PartOf(b); whole != "" {
			return "part of " + units.Name(whole)
		}
	}
	const most = 3
	var names []string
	for _, t := range b.Tensors[:min(len(b.Tensors), most)] {
		names = append(names, units.Name(t))
	}
	text := strings.Join(names, ", ")
	if len(b.Tensors) > most {
		text += fmt.Sprintf(" and %d more", len(b.Tensors)-most)
	}
	return text
}
