package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/schedule"
)

// Print prints the explanation for people.
func (w *Explanation) Print(out io.Writer) {
	gap := "no order does better"
	if w.Bound < w.Peak {
		gap = fmt.Sprintf("no order goes below %s; the gap of %.2f %% is open", units.Bytes(w.Bound), units.GapPercent(w.Bound, w.Peak))
	}
	fmt.Fprintf(out, "%s: the peak is %s: %s\n", units.Name(w.file), units.Bytes(w.Peak), gap)
	where := "there are no nodes; "
	if w.PeakNode >= 0 {
		where = fmt.Sprintf("it is first reached at step %d of %d, %s; ", w.PeakStep, len(w.order), w.node(w.PeakNode))
	}
	fmt.Fprintf(out, "\n%slive buffers:\n", where)
	w.listBuffers(out, w.Live, w.PeakNode)
	if w.wide != nil {
		w.wide.print(out)
	}
	w.proofs(out)
	if w.slices != nil {
		w.slices.print(out)
	}
	if w.limit != nil {
		w.limit.print(out)
	}
	w.relief(out)
	if w.hint != nil {
		fmt.Fprintln(out, "\n"+FoldHint(w.hint))
		for i, t := range w.hint.Tensors {
			if i == maxListed {
				fmt.Fprintf(out, "  … and %d more\n", len(w.hint.Tensors)-maxListed)
				break
			}
			fmt.Fprintf(out, "  %s would be read as it lies, not transposed\n", units.Name(t))
		}
	}
}

// maxListed is the number of buffers that a list shows.
const maxListed = 8

// listBuffers lists buffers, each with its maker and the readers that keep it alive.
func (w *Explanation) listBuffers(out io.Writer, live []schedule.Holding, here int32) {
	var rest int64
	for i, h := range live {
		if i >= maxListed {
			rest += h.Bytes
			continue
		}
		fmt.Fprintf(out, "  %15s  %s: %s\n", units.Group(h.Bytes), w.buffer(h), w.describeLife(h, here))
	}
	if n := len(live) - maxListed; n > 0 {
		fmt.Fprintf(out, "  %15s  in %d more\n", units.Group(rest), n)
	}
}

// buffer names the tensors of a buffer.
func (w *Explanation) buffer(h schedule.Holding) string {
	var names []string
	for _, t := range h.Tensors {
		names = append(names, w.tensor(t))
	}
	if len(names) == 0 {
		return "workspace"
	}
	return strings.Join(names, ", over it ")
}

func (w *Explanation) tensor(t int32) string {
	if name := w.p.Tensors[t].Name; name != "" {
		return units.Name(name)
	}
	return fmt.Sprint("tensor ", t)
}

// node names a node, its operator and its step.
func (w *Explanation) node(v int32) string {
	n := &w.p.Nodes[v]
	name := units.Name(n.Name)
	if name == "" {
		name = fmt.Sprint("node ", v)
	}
	if n.Op != "" {
		name += fmt.Sprintf(" (%s)", units.Name(n.Op))
	}
	return name
}

// describeLife says where a buffer comes from and what keeps it alive while a node runs.
func (w *Explanation) describeLife(h schedule.Holding, here int32) string {
	var parts []string
	switch {
	case len(h.Tensors) == 0:
		return "of " + w.node(h.Maker)
	case h.Maker < 0:
		parts = append(parts, "live from the start")
	case h.Maker == here:
		parts = append(parts, "made here")
	default:
		parts = append(parts, fmt.Sprintf("made by %s", w.at(h.Maker)))
	}
	const most = 3 // of many readers, the line of a screen has room for one
	readers := slices.DeleteFunc(slices.Clone(h.Keepers), func(v int32) bool { return v == here })
	if len(readers) < len(h.Keepers) {
		parts = append(parts, "read here")
	}
	switch n := len(readers); {
	case n > most:
		parts = append(parts, fmt.Sprintf("kept for %s and %d more", w.at(readers[0]), n-1))
	case n > 0:
		var list []string
		for _, v := range readers {
			list = append(list, w.at(v))
		}
		parts = append(parts, "kept for "+strings.Join(list, ", "))
	}
	if h.Output {
		parts = append(parts, "an output")
	}
	return strings.Join(parts, "; ")
}

func (w *Explanation) at(v int32) string { return fmt.Sprintf("%s at step %d", w.node(v), w.step[v]) }

// proofs says why no order does better.
func (w *Explanation) proofs(out io.Writer) {
	if w.Bound < w.Peak {
		fmt.Fprintf(out, "\nwhy no order goes below %s:\n", units.Group(w.Bound))
	} else {
		fmt.Fprint(out, "\nwhy no order does better:\n")
	}
	for _, f := range w.Proofs {
		switch {
		case f.Kind == schedule.KindSearch:
			fmt.Fprintf(out, "  an exhausted search finds no order below %s\n", units.Bytes(f.Value))
			continue
		case f.Node < 0:
			fmt.Fprintf(out, "  %s proves %s\n", f.Kind, units.Bytes(f.Value))
			continue
		}
		w.proof(out, f)
	}
	if len(w.Proofs) == 0 {
		fmt.Fprintf(out, "  the first step, the last step, or a node by itself needs %s\n", units.Bytes(w.Bound))
	}
}

// proof explains one certificate: the nodes that must have run, and the buffers
// that they leave live.
func (w *Explanation) proof(out io.Writer, f schedule.Proof) {
	switch f.Kind {
	case schedule.KindFirst:
		fmt.Fprintf(out, "  of %s one runs first, before the others; at the least load that is\n", w.set(f.Nodes))
	case schedule.KindLast:
		fmt.Fprintf(out, "  of %s one runs last, after the others; at the least load that is\n", w.set(f.Nodes))
	}
	fmt.Fprintf(out, "  %s: %s must run before it, %s only after it\n", w.node(f.Node), nodes(f.Before), nodes(f.After))
	var forced, chosen []schedule.Holding
	var sum, total int64
	for _, h := range f.Live {
		total += h.Bytes
		if h.Forced {
			forced = append(forced, h)
			sum += h.Bytes
		} else {
			chosen = append(chosen, h)
		}
	}
	fmt.Fprintf(out, "  in every order, %s are live while it runs:\n", units.Bytes(sum))
	w.listBuffers(out, forced, f.Node)
	if len(chosen) > 0 {
		fmt.Fprintf(out, "  and at least %s more; the cheapest state, in which %s, holds\n", units.Bytes(f.Value-sum), nodesHaveRun(f.Ran))
		w.listBuffers(out, chosen, f.Node)
	}
	if total > f.Value {
		fmt.Fprintf(out, "  of which in-place results may save %s\n", units.Bytes(total-f.Value))
	}
	fmt.Fprintf(out, "  together %s\n", units.Bytes(f.Value))
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%s nodes", units.Group(int64(n)))
}

func nodesHaveRun(n int) string {
	if n == 1 {
		return "1 node has run"
	}
	return nodes(n) + " have run"
}

// set names a few nodes of a set.
func (w *Explanation) set(list []int32) string {
	const most = 3
	var names []string
	for _, v := range list[:min(len(list), most)] {
		names = append(names, w.node(v))
	}
	text := strings.Join(names, ", ")
	if n := len(list) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// relief says how much less memory for a tensor lowers the bound and the peak.
func (w *Explanation) relief(out io.Writer) {
	if len(w.Relief) == 0 {
		return
	}
	fmt.Fprint(out, "\nwhat would lower it: the proven bound (and the peak of an order found):\n")
	fmt.Fprintf(out, "  %15s %15s %15s %15s\n", "without it", "(found)", "half of it", "(found)")
	for _, r := range w.Relief {
		absent, foundAbsent := w.formatOutlook(r.Absent)
		half, foundHalf := w.formatOutlook(r.Half)
		fmt.Fprintf(out, "  %15s %15s %15s %15s  %s\n", absent, foundAbsent, half, foundHalf, w.buffer(r.Holding))
	}
}

// formatOutlook formats a bound and a peak. A smaller tensor can raise the peak,
// because it no longer fits the tensor that it overwrites, or that overwrites it.
func (w *Explanation) formatOutlook(o schedule.Outlook) (bound, peak string) {
	if o.Bound >= w.Peak {
		return "no gain", ""
	}
	return units.Group(o.Bound), units.Group(o.Peak)
}
