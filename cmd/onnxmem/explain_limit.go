package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// explainLimit is what a plan below a limit makes again, and what other limits cost.
type explainLimit struct {
	plan.Limited
	Again  []explainAgain      `json:"again"`            // the dearest first
	Larger *plan.FrontierPoint `json:"larger,omitempty"` // the next limit that costs less
	Lower  *plan.FrontierPoint `json:"lower,omitempty"`  // the next limit below
}

// explainAgain is a step that repeats another.
type explainAgain struct {
	Node  string `json:"node"`
	Op    string `json:"op"`
	Step  int    `json:"step"`
	First int    `json:"first_step"`
	Cost  int64  `json:"cost_ns"`
	Bytes int64  `json:"bytes"` // of what it makes
}

// limitOf explains the limit of a plan; nil where it has none.
func limitOf(p *plan.Plan) *explainLimit {
	if p == nil || p.Summary.Limited == nil {
		return nil
	}
	x := &explainLimit{Limited: *p.Summary.Limited, Again: []explainAgain{}}
	made := make([]int64, len(p.Steps))
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == plan.Arena && b.First < len(made) {
			made[b.First] += b.Bytes
		}
	}
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Again != nil {
			x.Again = append(x.Again, explainAgain{s.Name, s.Op, i, *s.Again, s.CostNS, made[i]})
		}
	}
	slices.SortStableFunc(x.Again, func(a, b explainAgain) int { return cmp.Compare(b.Cost, a.Cost) })
	for i := range p.Frontier { // the largest limit first
		f := &p.Frontier[i]
		switch {
		case f.LimitBytes > x.LimitBytes && f.ExtraCostPercent != nil && *f.ExtraCostPercent < x.ExtraCostPercent:
			x.Larger = f
		case f.LimitBytes < x.LimitBytes && x.Lower == nil:
			x.Lower = f
		}
	}
	if x.Larger == nil && len(x.Again) > 0 {
		none := 0.0
		x.Larger = &plan.FrontierPoint{LimitBytes: x.PlainPeakBytes, ExtraCostPercent: &none, ExtraCostBound: &none}
	}
	return x
}

// print explains in words.
func (x *explainLimit) print(out io.Writer) {
	fmt.Fprintf(out, "\nthe limit is %s, the peak without it %s: ", units.Bytes(x.LimitBytes), units.Bytes(x.PlainPeakBytes))
	if len(x.Again) == 0 {
		fmt.Fprintln(out, "the order keeps it, and nothing runs again")
	} else {
		fmt.Fprintf(out, "%d nodes run again, %.2f %% more time by estimate; the dearest:\n", len(x.Again), x.ExtraCostPercent)
	}
	var rest int64
	for i, a := range x.Again {
		if i >= mostHeld {
			rest += a.Cost
			continue
		}
		fmt.Fprintf(out, "  %12s  %s (%s) at step %d, first at step %d: %s\n", duration(a.Cost), units.Name(a.Node), units.Name(a.Op), a.Step, a.First, units.Short(a.Bytes))
	}
	if n := len(x.Again) - mostHeld; n > 0 {
		fmt.Fprintf(out, "  %12s  in %d more\n", duration(rest), n)
	}
	if x.ExtraCostBound != nil && len(x.Again) > 0 {
		fmt.Fprintf(out, "no plan below this limit takes less than %.2f %% more time, in any order\n", *x.ExtraCostBound)
	}
	if f := x.Larger; f != nil {
		fmt.Fprintf(out, "the next limit that costs less is %s, at %.2f %%\n", units.Bytes(f.LimitBytes), *f.ExtraCostPercent)
	}
	if f := x.Lower; f != nil {
		switch {
		case f.Impossible:
			fmt.Fprintf(out, "%s is impossible\n", units.Bytes(f.LimitBytes))
		case f.ExtraCostPercent == nil:
			fmt.Fprintf(out, "no plan is known for %s\n", units.Bytes(f.LimitBytes))
		default:
			fmt.Fprintf(out, "%s would cost %.2f %%\n", units.Bytes(f.LimitBytes), *f.ExtraCostPercent)
		}
	}
}

// duration prints nanoseconds.
func duration(ns int64) string {
	if ns < 1_000_000 {
		return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
	}
	return fmt.Sprintf("%.2f ms", float64(ns)/1e6)
}
