package optimize

import (
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/explain"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// Summary prints the figures of a planned model, after Plan.
func (t *Task) Summary(out io.Writer) {
	r := t.Result
	if r.Step != nil {
		printStep(out, r)
	}
	report.Summary(out, r.Plan)
	if most := ProcessBytes(r.Plan); most > 0 {
		fmt.Fprintf(out, "process of run       at most about %s, program, Go's heap and scratch included\n", units.Short(most))
	}
	if !t.NoVerify {
		fmt.Fprintf(out, "verified             in %.0f ms\n", t.Times.Verify)
	}
	if s := r.OrderSolver; s != nil {
		fmt.Fprintf(out, "%-20s %s\n", s.Name, SolverText(s.Version, string(s.Status), s.Why, s.Whole, s.Bound, s.Seconds))
	}
	if s := r.PlacementSolver; s != nil {
		fmt.Fprintf(out, "%-20s %s\n", s.Name+", placement", SolverText(s.Version, string(s.Status), s.Why, s.Whole, s.Bound, s.Seconds))
	}
	t.Accuracy.print(out)
	if h := r.FoldHint; h != nil {
		fmt.Fprintln(out, explain.FoldHint(h))
	}
	if h := r.AttentionHint; h != nil {
		fmt.Fprintln(out, explain.AttentionHint(h, r.Plan.Summary.PeakBytes))
	}
}

// printStep describes a training graph.
func printStep(w io.Writer, r *passes.Result) {
	var parameters, states int64
	for _, b := range r.Plan.Buffers {
		switch b.Kind {
		case plan.KindParameter:
			parameters += b.Bytes
		case plan.KindState:
			states += b.Bytes
		}
	}
	fmt.Fprintf(w, "training step        %d nodes, %d parameters of %s, states of %s\n",
		r.Plan.Summary.Nodes, len(r.Step.Parameters), units.Bytes(parameters), units.Bytes(states))
	fmt.Fprintf(w, "trained              %s\n", byKind(r.Step.Trained))
	if len(r.Step.NotTrained) > 0 {
		fmt.Fprintf(w, "not trained          %s\n", byKind(r.Step.NotTrained))
	}
	if n := len(r.Step.Tied); n > 0 {
		nodes, equal := 0, 0
		for _, t := range r.Step.Tied {
			nodes += len(t.Nodes)
			if t.Equal {
				equal++
			}
		}
		fmt.Fprintf(w, "tied                 %d of these are read by %d nodes; all elements are equal in %d (--untie)\n", n, nodes, equal)
	}
	if n := len(r.Step.Copies); n > 0 {
		fmt.Fprintf(w, "untied               %d copies of merged initializers\n", n)
	}
}

// byKind lists initializers by kind.
func byKind(list []autodiff.Count) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%s %d (%s elements)", c.Kind, c.Initializers, units.Group(c.Elements)))
	}
	return strings.Join(parts, ", ")
}
