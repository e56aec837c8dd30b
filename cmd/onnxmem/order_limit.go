package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// limited is the part of an ordering for "order --limit" and "order --frontier".
type limited struct {
	plan     *budget.Plan     // nil without --limit and --least
	missed   *budget.Plan     // what --limit gave before --least replaced it; nil if the limit is kept
	swap     *budget.SwapPlan // nil without --limit and a host; plan is then its Plan
	frontier []*budget.Plan   // nil without --frontier
	least    bool             // plan is the one with the smallest peak
	host     bool             // tensors may be swapped: no bound is known
	peak     int64            // the best order's peak, to which percentages refer
	took     time.Duration
}

// frontierStep is the step between the limits of the frontier, in per cent of the
// best order's peak: package budget fills its archive for these limits.
const frontierStep = 5

// limit makes plans with repetitions from the orders found.
func (o *ordering) limit(ctx context.Context) error {
	began := time.Now()
	o.limited.peak = o.found.Evaluation.Peak
	plan := o.repeatLimit
	if o.limited.host = o.cmd.Linked(); o.limited.host {
		plan = o.swapLimit
	}
	if err := plan(ctx); err != nil {
		return err
	}
	plans := o.limited.frontier
	for len(plans) > 0 && plans[len(plans)-1].Feasible == budget.Impossible {
		plans = plans[:len(plans)-1]
	}
	o.limited.frontier = plans
	o.limited.took = time.Since(began)
	return nil
}

// limits returns the limits of the frontier, or the one of --limit; nil if none
// is asked for.
func (o *ordering) limits(frontier bool) (limits []int64) {
	switch {
	case frontier && o.cmd.Frontier:
		for percent := 100 - frontierStep; percent > 0; percent -= frontierStep {
			limits = append(limits, units.Limit{Percent: float64(percent)}.Of(o.limited.peak))
		}
	case !frontier && o.cmd.Limit != nil:
		limits = []int64{o.cmd.Limit.Of(o.limited.peak)}
	}
	return limits
}

// repeatLimit makes plans with repetitions only.
func (o *ordering) repeatLimit(ctx context.Context) error {
	solver, err := budget.New(o.problem, o.found.Orders, budget.Options{
		Effort: optimize.Efforts[o.cmd.Effort], KeepOrders: o.cmd.Strategy != "",
	})
	if err != nil {
		return &failure{exitRefused, fmt.Sprintf("%s: %v", o.file, err)}
	}
	if list := o.limits(false); list != nil {
		o.limited.plan = solver.Solve(ctx, list[0])
	}
	if o.cmd.Least && (o.limited.plan == nil || !o.limited.kept()) {
		o.limited.missed, o.limited.plan, o.limited.least = o.limited.plan, solver.Least(ctx), true
	}
	if list := o.limits(true); list != nil {
		o.limited.frontier = solver.Frontier(ctx, list)
	}
	return nil
}

// kept reports whether there is a plan below the limit, or no limit.
func (l *limited) kept() bool { return l.plan == nil || l.plan.Feasible == budget.Found }

// limitJSON has the fields that --limit and --least add to the object of --json.
type limitJSON struct {
	Limit      int64      `json:"limit_bytes"`
	Feasible   *bool      `json:"feasible"` // null: none found
	BestOrder  int64      `json:"best_order_peak_bytes"`
	ExtraCost  *float64   `json:"extra_cost_percent"`             // null without steps
	LowerBound *float64   `json:"extra_cost_lower_bound_percent"` // null if no plan is possible
	Repeated   int        `json:"repeated_nodes"`
	Least      *leastJSON `json:"least,omitempty"` // with --least, or if the limit is not kept
	Steps      []int      `json:"steps,omitempty"`
}

// leastJSON says how small the peak can be.
type leastJSON struct {
	Peak    int64   `json:"peak_bytes"`        // the smallest that was found
	Bound   int64   `json:"lower_bound_bytes"` // of every plan: what the step below needs, or what comes before it
	At      string  `json:"at"`                // "node", "start", "end" or "way"
	Node    *int32  `json:"node,omitempty"`    // with "way", none is the end
	Tensors []int32 `json:"tensors"`           // held then besides the node's own results, the largest first
}

// pointJSON is a point of the frontier.
type pointJSON struct {
	Limit      int64    `json:"limit_bytes"`
	ExtraCost  *float64 `json:"extra_cost_percent"`
	LowerBound *float64 `json:"extra_cost_lower_bound_percent"`
}

func (l *limited) percents(p *budget.Plan) (extra, bound *float64) {
	if p.Feasible == budget.Found {
		extra = &p.ExtraPercent
	}
	if p.Feasible != budget.Impossible && !l.host {
		bound = &p.LowerBoundPercent
	}
	return extra, bound
}

// limitJSON returns the fields of --limit and of --frontier, each nil without it.
func (o *ordering) limitJSON() (limit *limitJSON, frontier *[]pointJSON) {
	l := &o.limited
	if p := l.plan; p != nil {
		limit = &limitJSON{Limit: p.Limit, BestOrder: l.peak}
		limit.ExtraCost, limit.LowerBound = l.percents(p)
		asked := p
		if l.missed != nil {
			asked = l.missed
			limit.Limit = asked.Limit
		}
		if asked.Feasible != budget.NoneFound {
			found := asked.Feasible == budget.Found
			limit.Feasible = &found
		}
		if (l.least || !l.kept()) && !l.host {
			limit.Least = o.leastJSON(p)
		}
		limit.Steps, limit.Repeated = p.Steps, repeated(p)
	}
	if l.frontier != nil {
		points := []pointJSON{}
		for _, p := range l.frontier {
			extra, bound := l.percents(p)
			points = append(points, pointJSON{p.Limit, extra, bound})
		}
		frontier = &points
	}
	return limit, frontier
}

// leastJSON returns what a plan and its bound say about the smallest peak.
func (o *ordering) leastJSON(p *budget.Plan) *leastJSON {
	x := &leastJSON{Peak: p.Lowest, Bound: p.LeastBytes, At: "node", Tensors: slices.Clone(p.Highest.Tensors)}
	switch p.Highest.Node {
	case budget.AtStart:
		x.At = "start"
	case budget.AtEnd:
		x.At = "end"
	default:
		x.Node = &p.Highest.Node
	}
	if p.Highest.Way {
		x.At = "way"
	}
	slices.SortStableFunc(x.Tensors, func(a, b int32) int { return cmp.Compare(o.problem.Tensors[b].Bytes, o.problem.Tensors[a].Bytes) })
	return x
}

// repeated counts the repetitions of a plan.
func repeated(p *budget.Plan) int {
	nodes := map[int]bool{}
	for _, v := range p.Steps {
		nodes[v] = true
	}
	return len(p.Steps) - len(nodes)
}

// limitText prints the plan and the frontier.
func (o *ordering) limitText(w io.Writer) {
	l := &o.limited
	if p := l.plan; p != nil {
		what := "limit"
		if l.least {
			what = "smallest peak found"
		}
		fmt.Fprintf(w, "%-20s %s, %.1f %% of the best order's peak\n", what, units.Bytes(p.Limit), 100*float64(p.Limit)/float64(max(l.peak, 1)))
		if l.least {
			fmt.Fprintf(w, "no peak is below     %s: %s\n", units.Bytes(p.LeastBytes), o.obstacle(&p.Highest))
		}
		if p.Feasible == budget.Found {
			fmt.Fprintf(w, "peak, these steps    %s; nodes that run again: %s\n", units.Bytes(p.PeakBytes), units.Group(int64(repeated(p))))
			if l.host {
				o.swapText(w)
			} else {
				fmt.Fprintf(w, "extra time           %.2f %% of a step; no plan needs less than %.2f %%\n", p.ExtraPercent, p.LowerBoundPercent)
			}
		}
	}
	if l.frontier != nil {
		fmt.Fprintf(w, "%10s  %28s  %12s  %12s\n", "of peak", "limit", "extra time", "at least")
		for i, p := range l.frontier {
			extra, bound := p.Feasible.String(), "-"
			if p.Feasible == budget.Found {
				extra = fmt.Sprintf("%.2f %%", p.ExtraPercent)
			}
			if p.Feasible != budget.Impossible && !l.host {
				bound = fmt.Sprintf("%.2f %%", p.LowerBoundPercent)
			}
			fmt.Fprintf(w, "%8d %%  %28s  %12s  %12s\n", 100-frontierStep*(i+1), units.Bytes(p.Limit), extra, bound)
		}
	}
	if l.plan != nil || l.frontier != nil {
		fmt.Fprintf(w, "planned in           %.1f ms\n", optimize.Milliseconds(l.took))
	}
}

// verdict ends the command with status 1 if the limit is not met.
func (l *limited) verdict(o *ordering) error {
	if l.kept() {
		return nil
	}
	p := l.plan
	if p.Feasible == budget.NoneFound {
		return &failure{exitFailed, fmt.Sprintf("%s: the smallest peak found is %s (try more --effort)", o.missed(p), units.Bytes(p.Lowest))}
	}
	return &failure{exitFailed, o.missed(p)}
}

// missed says that there is no plan within a limit, and why.
func (o *ordering) missed(p *budget.Plan) string {
	if p.Feasible == budget.NoneFound {
		return fmt.Sprintf("%s: no plan found within %s, but it is not proven impossible", o.file, units.Bytes(p.Limit))
	}
	return fmt.Sprintf("%s: no plan fits %s, whatever is recomputed: %s", o.file, units.Bytes(p.Limit), o.obstacle(p.Obstacle))
}

// obstacle says what does not fit within a limit.
func (o *ordering) obstacle(x *budget.Obstacle) string {
	needs, names := units.Bytes(x.Bytes), o.largest(x.Tensors)
	switch {
	case x.Way && x.Node == budget.AtEnd:
		return fmt.Sprintf("no plan gets to its end, which holds all outputs, in less than %s: %s", needs, names)
	case x.Way:
		return fmt.Sprintf("no plan gets to %s, which needs %s then, in less than %s", o.label(x.Node), cmp.Or(names, "nothing"), needs)
	case x.Node == budget.AtStart:
		return fmt.Sprintf("the first step holds all inputs, and needs %s: %s", needs, names)
	case x.Node == budget.AtEnd:
		return fmt.Sprintf("the last step holds all outputs, and needs %s: %s", needs, names)
	}
	if names != "" {
		names = ", its own results and " + names
	}
	return fmt.Sprintf("%s needs %s%s", o.label(x.Node), needs, names)
}

// largest names the largest of some tensors.
func (o *ordering) largest(tensors []int32) string {
	const most = 3
	var names []string
	left := append([]int32{}, tensors...)
	for len(names) < most && len(left) > 0 {
		at := 0
		for i, t := range left {
			if o.problem.Tensors[t].Bytes > o.problem.Tensors[left[at]].Bytes {
				at = i
			}
		}
		t := &o.problem.Tensors[left[at]]
		names = append(names, fmt.Sprintf("%s (%s)", tensorName(t, left[at]), units.Short(t.Bytes)))
		left = append(left[:at], left[at+1:]...)
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + more(len(left))
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func tensorName(t *schedule.Tensor, i int32) string {
	if t.Name == "" {
		return fmt.Sprint("tensor ", i)
	}
	return units.Name(t.Name)
}
