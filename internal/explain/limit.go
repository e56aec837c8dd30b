package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// explainLimit lists the recomputations and swaps of a plan below a limit, and
// the cost of other limits.
type explainLimit struct {
	plan.Limited
	TotalCost float64             `json:"total_cost_percent"` // with that of slices
	Again     []explainAgain      `json:"again"`              // the most expensive first
	Swaps     []explainSwap       `json:"swaps,omitempty"`    // the largest first
	Larger    *plan.FrontierPoint `json:"larger,omitempty"`   // the next limit of the frontier that costs less, else one that costs nothing
	Lower     *plan.FrontierPoint `json:"lower,omitempty"`    // the next lower limit
}

// explainAgain is a step that repeats another one.
type explainAgain struct {
	Node  string `json:"node"`
	Op    string `json:"op"`
	Step  int    `json:"step"`
	First int    `json:"first_step"`
	Cost  int64  `json:"cost_ns"`
	Bytes int64  `json:"bytes"` // sum of its outputs
}

// explainSwap is a tensor that is swapped out and in. The transfer out may begin
// at step Leaves and ends with step Out; the transfer back begins with step In
// and ends before step Read.
type explainSwap struct {
	Tensor string `json:"tensor"`
	Bytes  int64  `json:"bytes"`
	Leaves int    `json:"leaves_step"`
	Out    int    `json:"out_step"`
	In     int    `json:"in_step"`
	Read   int    `json:"read_step"`
}

// swapsOf lists the swaps of a planned graph, the largest first.
func swapsOf(g *graph.Graph, p *plan.Plan) []explainSwap {
	host := map[string]*plan.Buffer{}
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == plan.Host {
			host[b.Tensors[0]] = b
		}
	}
	var list []explainSwap
	for i, n := range g.Nodes {
		if !n.IsSwapOut() {
			continue
		}
		copied := g.Tensors[n.Outputs[0]]
		b := host[copied.Name]
		if b == nil {
			continue // its size depends on data
		}
		x := explainSwap{Tensor: g.Tensors[n.Inputs[0]].Name, Bytes: b.Bytes, Leaves: b.First, Out: i, In: i, Read: b.Last + 1}
		if len(copied.Readers) > 0 {
			x.In = int(copied.Readers[0])
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b explainSwap) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

// limitOf explains the limit of a plan for a graph; nil if it has none.
func limitOf(g *graph.Graph, p *plan.Plan) *explainLimit {
	if p == nil || p.Summary.Limited == nil {
		return nil
	}
	x := &explainLimit{Limited: *p.Summary.Limited, TotalCost: p.Summary.Extra(), Again: []explainAgain{}, Swaps: swapsOf(g, p)}
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
	ofLoss := p.Slices != nil && p.Slices.Mode == plan.SlicesOfLoss
	cost := x.TotalCost
	if ofLoss { // the plan without a limit has them, too, and the costs of limits count from there
		cost = x.ExtraCostPercent
	}
	for i := range p.Frontier { // in descending order of limits
		f := &p.Frontier[i]
		switch {
		case f.LimitBytes > x.LimitBytes && f.ExtraCostPercent != nil && *f.ExtraCostPercent < cost:
			x.Larger = f
		case f.LimitBytes < x.LimitBytes && x.Lower == nil:
			x.Lower = f
		}
	}
	if x.Larger == nil && cost > 0 {
		none, peak := 0.0, x.PlainPeakBytes
		if u := p.Summary.Unsliced; u != nil && !ofLoss {
			peak = u.UnslicedPeakBytes
		}
		x.Larger = &plan.FrontierPoint{LimitBytes: peak, ExtraCostPercent: &none, ExtraCostBound: &none}
	}
	return x
}

// print prints the explanation.
func (x *explainLimit) print(out io.Writer) {
	if x.Recast {
		fmt.Fprintf(out, "\nno limit was asked for; with each cast once, the peak is %s, with some again %s: ", units.Bytes(x.PlainPeakBytes), units.Bytes(x.LimitBytes))
	} else {
		fmt.Fprintf(out, "\nthe limit is %s, the peak without it %s: ", units.Bytes(x.LimitBytes), units.Bytes(x.Unlimited()))
	}
	switch {
	case len(x.Again) > 0 && len(x.Swaps) > 0:
		fmt.Fprintf(out, "%d nodes run again and %d tensors are swapped, %.2f %% more time by estimate; the most expensive nodes:\n", len(x.Again), len(x.Swaps), x.ExtraCostPercent)
	case len(x.Again) > 0:
		fmt.Fprintf(out, "%d nodes run again, %.2f %% more time by estimate; the most expensive:\n", len(x.Again), x.ExtraCostPercent)
	case len(x.Swaps) > 0:
		fmt.Fprintf(out, "%d tensors are swapped, %.2f %% more time by estimate\n", len(x.Swaps), x.ExtraCostPercent)
	default:
		fmt.Fprintln(out, "the order meets it, and no node runs again")
	}
	var rest int64
	for i, a := range x.Again {
		if i >= maxListed {
			rest += a.Cost
			continue
		}
		fmt.Fprintf(out, "  %12s  %s (%s) at step %d, first at step %d: %s\n", duration(a.Cost), units.Name(a.Node), units.Name(a.Op), a.Step, a.First, units.Short(a.Bytes))
	}
	if n := len(x.Again) - maxListed; n > 0 {
		fmt.Fprintf(out, "  %12s  in %d more\n", duration(rest), n)
	}
	x.printSwaps(out)
	if x.ExtraCostBound != nil && len(x.Again) > 0 && !x.Recast {
		fmt.Fprintf(out, "no plan below this limit takes less than %.2f %% more time, in any order\n", *x.ExtraCostBound)
	}
	switch f := x.Larger; {
	case f == nil:
	case *f.ExtraCostPercent == 0:
		fmt.Fprintf(out, "a limit of %s costs nothing\n", units.Bytes(f.LimitBytes))
	default:
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

// printSwaps lists the swapped tensors with their steps.
func (x *explainLimit) printSwaps(out io.Writer) {
	if len(x.Swaps) == 0 {
		return
	}
	fmt.Fprintf(out, "%s are swapped%s; the largest:\n", units.Bytes(x.SwappedBytes), report.Link(&x.Limited))
	var rest int64
	for i, s := range x.Swaps {
		if i >= maxListed {
			rest += s.Bytes
			continue
		}
		fmt.Fprintf(out, "  %12s  %s is swapped out at steps %d-%d, swapped in from step %d on and read at step %d\n", units.Short(s.Bytes), units.Name(s.Tensor), s.Leaves, s.Out, s.In, s.Read)
	}
	if n := len(x.Swaps) - maxListed; n > 0 {
		fmt.Fprintf(out, "  %12s  in %d more\n", units.Short(rest), n)
	}
}

// duration formats nanoseconds.
func duration(ns int64) string {
	if ns < 1_000_000 {
		return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
	}
	return fmt.Sprintf("%.2f ms", float64(ns)/1e6)
}
