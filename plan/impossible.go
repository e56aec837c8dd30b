package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// rounding is the relative error that sums of costs may have.
const rounding = 1e-9

// Fault is an impossible figure of a plan.
type Fault struct {
	Field   string // the field of the plan: "model", "steps", "frontier", "slices"
	Message string // where, what was expected, what was found
}

// Impossible lists the figures that are impossible for any model: they have no
// meaning, or contradict the rest of the plan. It checks the figures that cannot
// be computed from the model: the identity of the files, costs of steps, costs of
// other limits, values of certificates, and bounds and costs of slices.
func (p *Plan) Impossible() []Fault {
	var f faults
	f.file("model", &p.Model)
	f.file("source", &p.Source)
	f.costs(p)
	f.frontier(p)
	f.slices(p)
	f.certificates(p)
	f.workspaces(p)
	f.traversal(p)
	return f
}

// faults collects the faults found so far.
type faults []Fault

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, Fault{field, fmt.Sprintf(format, args...)})
}

// file checks the identity of a file. A model that was built in memory has no
// file, so no name, length or hash.
func (f *faults) file(field string, x *File) {
	if *x == (File{}) {
		return
	}
	if name := x.File; name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		f.add(field, "%s: file: expected a base name, found %q", field, graph.Short(name))
	}
	if x.Bytes < 0 {
		f.add(field, "%s: bytes: expected a figure >= 0, found %d", field, x.Bytes)
	}
	if none := x.Bytes == 0 && x.GraphSHA256 == ""; !none && !isSHA256(x.GraphSHA256) {
		f.add(field, "%s: graph_sha256: expected 64 digits of 0-9 and a-f, found %q", field, graph.Short(x.GraphSHA256))
	}
}

// certificates checks the values of certificates, and that certificates of kind
// search have no nodes.
func (f *faults) certificates(p *Plan) {
	for i := range p.Certificates {
		c := &p.Certificates[i]
		switch {
		case c.ValueBytes < 0:
			f.add("certificates", "certificate %d: expected a value >= 0, found %d", i, c.ValueBytes)
		case c.Kind == CertificateSearch && c.ValueBytes > p.Summary.PeakBytes:
			f.add("certificates", "certificate %d: no order is said to be below %d bytes: expected at most the peak of this one, %d", i, c.ValueBytes, p.Summary.PeakBytes)
		case c.Kind == CertificateSearch && len(c.Nodes)+len(c.Steps) > 0:
			f.add("certificates", "certificate %d: expected no nodes of kind %q, found %d names and %d steps", i, c.Kind, len(c.Nodes), len(c.Steps))
		}
	}
}

// traversal checks that the peak of the best order lies between the bound and the plan's
// peak.
func (f *faults) traversal(p *Plan) {
	t := p.Traversal
	switch {
	case t == nil:
	case t.Runtime != TraversalONNXRuntime:
		f.add("traversal", "traversal: runtime: expected %q, found %q", TraversalONNXRuntime, graph.Short(t.Runtime))
	case t.BestPeakBytes < p.Summary.LowerBoundBytes || t.BestPeakBytes > p.Summary.PeakBytes:
		f.add("traversal", "traversal: best_peak_bytes: expected from %d, the bound, to %d, the peak, found %d", p.Summary.LowerBoundBytes, p.Summary.PeakBytes, t.BestPeakBytes)
	}
}

// workspaces checks the recorded workspaces: each of another step, with some bytes.
func (f *faults) workspaces(p *Plan) {
	if p.Workspaces == nil {
		return
	}
	after, all := -1, int64(0)
	for i, w := range p.Workspaces.Nodes {
		switch {
		case w.Step <= after || w.Step >= len(p.Steps):
			f.add("workspaces", "workspaces: entry %d: expected a step from %d to %d, found %d", i, after+1, len(p.Steps)-1, w.Step)
			return
		case w.Bytes < 1 || w.Bytes > MaxScratch || w.Bytes > MaxAllScratch-all:
			f.add("workspaces", "workspaces: step %d: expected from 1 to %d bytes, and at most %d in all, found %d", w.Step, int64(MaxScratch), int64(MaxAllScratch), w.Bytes)
			return
		}
		after, all = w.Step, all+w.Bytes
	}
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// costs checks the costs of steps, which only plans below a limit have. Nodes of
// bodies have no cost and never run again.
func (f *faults) costs(p *Plan) {
	said := p.Summary.Limited != nil
	for i := range p.Steps {
		switch cost := p.Steps[i].CostNS; {
		case cost < 0:
			f.add("steps", "steps: step %d: cost_ns: expected a figure >= 0, found %d", i, cost)
		case cost > 0 && !said:
			said = true // one message is enough
			f.add("steps", "steps: step %d: cost_ns: expected none in a plan without a limit, found %d", i, cost)
		}
	}
	for k := range p.Subgraphs {
		for i := range p.Subgraphs[k].Steps {
			if st := &p.Subgraphs[k].Steps[i]; st.Again != nil || st.CostNS != 0 {
				f.add("subgraphs", "subgraph %d: step %d: expected neither again nor cost_ns in a body", k, i)
			}
		}
	}
}

// frontier checks the list of other limits: they descend, and their costs do not.
func (f *faults) frontier(p *Plan) {
	impossible := false
	var cheapest *FrontierPoint // the last point so far with a plan
	for i := range p.Frontier {
		x := &p.Frontier[i]
		wrong := func(format string, args ...any) {
			f.add("frontier", "frontier: point %d: "+format, append([]any{i}, args...)...)
		}
		switch {
		case x.LimitBytes < 0:
			wrong("limit_bytes: expected a figure >= 0, found %d", x.LimitBytes)
		case i > 0 && x.LimitBytes > p.Frontier[i-1].LimitBytes:
			wrong("limit_bytes: expected at most %d, that of the point before, found %d", p.Frontier[i-1].LimitBytes, x.LimitBytes)
		case x.Impossible && x.LimitBytes >= p.Summary.PeakBytes:
			wrong("a limit of %d bytes is said to be impossible: this plan has a peak of %d", x.LimitBytes, p.Summary.PeakBytes)
		case x.Impossible && (x.ExtraCostPercent != nil || x.ExtraCostBound != nil):
			wrong("expected no cost for a limit that is impossible")
		case x.ExtraCostBound != nil && *x.ExtraCostBound < 0:
			wrong("extra_cost_lower_bound_percent: expected a figure >= 0, found %v", *x.ExtraCostBound)
		case x.ExtraCostPercent == nil:
		case impossible:
			wrong("expected no plan below a limit that is impossible")
		case *x.ExtraCostPercent < 0:
			wrong("extra_cost_percent: expected a figure >= 0, found %v", *x.ExtraCostPercent)
		case cheapest != nil && *x.ExtraCostPercent < *cheapest.ExtraCostPercent*(1-rounding):
			wrong("extra_cost_percent: expected at least %v, that of the larger limit %d, found %v", *cheapest.ExtraCostPercent, cheapest.LimitBytes, *x.ExtraCostPercent)
		case x.ExtraCostBound != nil && *x.ExtraCostBound > *x.ExtraCostPercent*(1+rounding):
			wrong("extra_cost_lower_bound_percent: expected at most %v, which a plan costs, found %v", *x.ExtraCostPercent, *x.ExtraCostBound)
		default:
			cheapest = x
		}
		impossible = impossible || x.Impossible
	}
	f.alone(p)
}

// alone checks the costs of limits by each means alone: they do not fall with the limit,
// and all means together cost no more.
func (f *faults) alone(p *Plan) {
	for _, means := range []struct {
		name string
		of   func(*FrontierAlone) *float64
	}{
		{"slices_percent", func(x *FrontierAlone) *float64 { return x.Slices }},
		{"recompute_percent", func(x *FrontierAlone) *float64 { return x.Recompute }},
		{"swap_percent", func(x *FrontierAlone) *float64 { return x.Swap }},
	} {
		least := 0.0
		for i := range p.Frontier {
			x := &p.Frontier[i]
			if x.Alone == nil || means.of(x.Alone) == nil {
				continue
			}
			cost := *means.of(x.Alone)
			switch {
			case x.ExtraCostPercent == nil || cost < *x.ExtraCostPercent*(1-rounding):
				f.add("frontier", "frontier: point %d: alone: %s: expected at least extra_cost_percent, found %v", i, means.name, cost)
			case cost < least*(1-rounding):
				f.add("frontier", "frontier: point %d: alone: %s: expected at least %v, that of a larger limit, found %v", i, means.name, least, cost)
			}
			least = max(least, cost)
		}
	}
}

// slices checks the figures of a plan with slices against each other.
func (f *faults) slices(p *Plan) {
	u, x := p.Summary.Unsliced, p.Slices
	if u == nil || x == nil {
		return // package plan/verify reports one without the other
	}
	extra, again := 0.0, false
	if l := p.Summary.Limited; l != nil {
		extra, again = l.ExtraCostPercent, l.RecomputedNodes > 0 || l.SwappedBuffers > 0
	}
	if u.SliceCostPercent <= -100 {
		f.add("slices", "summary: slice_cost_percent: expected a figure above -100, since the slices take time, found %v", u.SliceCostPercent)
	}
	if want := Together(u.SliceCostPercent, extra); math.Abs(u.TotalCostPercent-want) > rounding*(100+math.Abs(want)) {
		f.add("slices", "summary: total_cost_percent: expected %v, of the slices and of extra_cost_percent together, found %v", want, u.TotalCostPercent)
	}
	for _, b := range []struct {
		name, path string
		figure     int64
		bound      *SliceBound
		most       int64
		because    string
	}{
		{"any_slices_lower_bound_bytes", "any_slices", u.AnySlicesBoundBytes, &x.AnySlices, min(p.Summary.PeakBytes, u.AnyCountBoundBytes), "the peak and any_count_lower_bound_bytes"},
		{"any_count_lower_bound_bytes", "any_count", u.AnyCountBoundBytes, &x.AnyCount, p.Summary.PeakBytes, "the peak"},
	} {
		switch {
		case b.figure < 0:
			f.add("slices", "summary: %s: expected a figure >= 0, found %d", b.name, b.figure)
		case b.figure > b.most && !(again && b.path == "any_count"):
			f.add("slices", "summary: %s: expected at most %d, %s, found %d", b.name, b.most, b.because, b.figure)
		}
		if b.bound.Bytes != b.figure {
			f.add("slices", "slices: %s: bytes: expected %d, as in the summary, found %d", b.path, b.figure, b.bound.Bytes)
		}
		if why := b.bound.Why; why != BoundInputs && why != BoundOutputs && why != BoundNode && (why != BoundOrder || b.path == "any_slices") {
			f.add("slices", "slices: %s: why: expected a reason such as %q, found %q", b.path, BoundNode, graph.Short(why))
		}
	}
	if u.UnslicedBoundBytes > u.UnslicedPeakBytes {
		f.add("slices", "summary: unsliced_lower_bound_bytes: expected at most %d, unsliced_peak_bytes, found %d", u.UnslicedPeakBytes, u.UnslicedBoundBytes)
	}
}
