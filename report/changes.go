package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// mostListed is the number of nodes, tensors or causes that a list shows.
const mostListed = 10

// Changes prints the changes between two plans: the figures, the causes of the
// new peak, then nodes and tensors, the first ten of each kind.
func Changes(w io.Writer, d *plan.Diff) {
	a, b := &d.Before, &d.After
	fmt.Fprintf(w, "%-20s %15s %15s %15s\n", "bytes", "before", "after", "change")
	for _, f := range []struct {
		name          string
		before, after int64
	}{
		{"peak, planned order", a.PeakBytes, b.PeakBytes},
		{"peak, program order", a.ProgramPeakBytes, b.ProgramPeakBytes},
		{"lower bound", a.LowerBoundBytes, b.LowerBoundBytes},
		{"arena", a.ArenaBytes, b.ArenaBytes},
		{"resident", a.ResidentBytes, b.ResidentBytes},
		{"arena + resident", a.TotalBytes, b.TotalBytes},
	} {
		change := "="
		if f.before != f.after {
			change = signed(f.after - f.before)
		}
		line := fmt.Sprintf("%-20s %15s %15s %15s %s", f.name, units.Group(f.before), units.Group(f.after), change, percent(f.before, f.after))
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	for _, s := range d.Settings {
		fmt.Fprintln(w, Setting(s))
	}
	rangeChanges(w, d.Ranges)
	peakChanges(w, d)
	nodeChanges(w, "appeared", d.Nodes.Appeared, func(c plan.NodeChange) string { return fmt.Sprintf("step %d", c.After) })
	nodeChanges(w, "vanished", d.Nodes.Vanished, func(c plan.NodeChange) string { return fmt.Sprintf("step %d", c.Before) })
	nodeChanges(w, "moved", d.Nodes.Moved, func(c plan.NodeChange) string { return fmt.Sprintf("step %d, was %d", c.After, c.Before) })
	tensorChanges(w, "appeared", d.Tensors.Appeared)
	tensorChanges(w, "vanished", d.Tensors.Vanished)
	tensorChanges(w, "changed size", d.Tensors.Resized)
	tensorChanges(w, "changed place", d.Tensors.Moved)
}

// Setting describes a setting that differs between two plans.
func Setting(s plan.SettingChange) string {
	return fmt.Sprintf("not planned alike: %s is %s, was %s", units.Name(s.Name), orNone(s.After), orNone(s.Before))
}

func orNone(s string) string {
	if s == "" {
		return "not given"
	}
	return units.Name(s)
}

// signed prints a change of a size.
func signed(n int64) string {
	if n > 0 {
		return "+" + units.Group(n)
	}
	return units.Group(n)
}

// percent formats a change in per cent of the old figure, if that is not 0.
func percent(before, after int64) string {
	if before == 0 || before == after {
		return ""
	}
	return fmt.Sprintf("%+.2f %%", 100*(float64(after)-float64(before))/float64(before))
}

// peakChanges prints the causes of the new peak.
func peakChanges(w io.Writer, d *plan.Diff) {
	p := &d.Peak
	if d.Before.PeakBytes == d.After.PeakBytes {
		if len(p.Causes) > 0 && p.Same {
			fmt.Fprintf(w, "\nthe peak is the same, made up otherwise at %s:\n", units.Name(p.Node))
			causes(w, p.Causes)
		}
		return
	}
	verb := "grew"
	if d.After.PeakBytes < d.Before.PeakBytes {
		verb = "fell"
	}
	fmt.Fprintf(w, "\nthe peak %s; ", verb)
	switch {
	case p.Same:
		fmt.Fprintf(w, "at %s (step %d, was %d) the load is %s, was %s:\n", units.Name(p.Node), p.After, p.Before, units.Group(p.AfterBytes), units.Group(p.BeforeBytes))
	case p.Node != "":
		fmt.Fprintf(w, "%s is in one plan alone; what lives at step %d now against step %d before:\n", units.Name(p.Node), p.After, p.Before)
	default:
		fmt.Fprint(w, "what lives at the peaks:\n")
	}
	causes(w, p.Causes)
}

func causes(w io.Writer, list []plan.Cause) {
	for i, c := range list {
		if i == mostListed {
			fmt.Fprintf(w, "  and %d more\n", len(list)-i)
			return
		}
		fmt.Fprintf(w, "  %15s  %s: %s\n", signed(c.Bytes), causeName(c), c.Kind)
	}
}

func causeName(c plan.Cause) string {
	switch {
	case c.Tensor != "":
		return units.Name(c.Tensor)
	case c.Node != "":
		return "workspace of " + units.Name(c.Node)
	}
	return "the arena"
}

func rangeChanges(w io.Writer, list []plan.RangeChange) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\npoints of the ranges with other figures: %d\n", len(list))
	for i, c := range list {
		if i == mostListed {
			fmt.Fprintf(w, "  and %d more\n", len(list)-i)
			return
		}
		line := fmt.Sprintf("  %s: arena %s, was %s %s", PointName(c.Dims), units.Group(c.After.ArenaBytes), units.Group(c.Before.ArenaBytes), percent(c.Before.ArenaBytes, c.After.ArenaBytes))
		fmt.Fprintf(w, "%s; bound %s, was %s\n", strings.TrimRight(line, " "), units.Group(c.After.LowerBoundBytes), units.Group(c.Before.LowerBoundBytes))
	}
}

func nodeChanges(w io.Writer, what string, list []plan.NodeChange, where func(plan.NodeChange) string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\nnodes that %s: %d\n", what, len(list))
	for i, c := range list {
		if i == mostListed {
			fmt.Fprintf(w, "  and %d more\n", len(list)-i)
			return
		}
		fmt.Fprintf(w, "  %s (%s): %s\n", units.Name(c.Node), units.Name(c.Op), where(c))
	}
}

func tensorChanges(w io.Writer, what string, list []plan.TensorChange) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\ntensors that %s: %d\n", what, len(list))
	for i, c := range list {
		if i == mostListed {
			fmt.Fprintf(w, "  and %d more\n", len(list)-i)
			return
		}
		fmt.Fprintf(w, "  %15s  %s: %s\n", signedOrSize(c), units.Name(c.Tensor), places(c))
	}
}

// signedOrSize formats the change of a tensor's size, or its size if it only
// moved.
func signedOrSize(c plan.TensorChange) string {
	if n := c.Bytes(); n != 0 || c.Before == nil || c.After == nil {
		return signed(n)
	}
	return units.Group(c.After.Bytes)
}

// places formats the new and the old place of a tensor.
func places(c plan.TensorChange) string {
	at := func(p *plan.Place) string {
		return fmt.Sprintf("%s at %s, steps %d-%d", units.Name(p.Pool), units.Group(p.Offset), p.First, p.Last)
	}
	switch {
	case c.Before == nil:
		return at(c.After)
	case c.After == nil:
		return at(c.Before)
	}
	return fmt.Sprintf("%s, was %s", at(c.After), at(c.Before))
}

// Gate says in one line whether a plan meets a limit, and if not, why.
func Gate(p *plan.Plan, g plan.Gate) string {
	text := g.Figure
	if g.Point != nil {
		text += " at " + PointName(g.Point)
	}
	text += " is " + units.Bytes(g.Bytes)
	if g.Baseline != nil {
		text += fmt.Sprintf(", the baseline's %s%s", units.Bytes(*g.Baseline), change(*g.Baseline, g.Bytes))
	}
	text += ", expected at most " + units.Bytes(g.Most)
	if g.Met || len(g.Causes) == 0 {
		return text
	}
	const most = 3
	var list []string
	for _, c := range g.Causes[:min(len(g.Causes), most)] {
		what := units.Short(c.Bytes)
		if g.Baseline != nil || c.Kind != plan.CauseLives {
			what = "+" + what + ", " + c.Kind
		}
		list = append(list, fmt.Sprintf("%s (%s)", causeName(c), what))
	}
	where := ""
	if len(p.Steps) > 0 && g.Figure == "peak" {
		where = fmt.Sprintf("at step %d (%s) ", p.Summary.PeakStep, StepName(p, p.Summary.PeakStep))
	}
	text += ": " + where + strings.Join(list, ", ")
	if n := len(g.Causes) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func change(before, after int64) string {
	if p := percent(before, after); p != "" {
		return " " + p
	}
	return ""
}
