package trial

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
)

// Class is a text that findings of the same cause share: what is said without numbers and
// names.
func (r *Result) Class() string {
	var b strings.Builder
	b.WriteString(r.Kind + ": ")
	quoted := false
	for _, c := range r.Says {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted || c >= '0' && c <= '9':
		default:
			b.WriteRune(c)
		}
	}
	text := b.String()
	return text[:min(len(text), 120)]
}

// patience is how long the shrinking of a trial may take.
const patience = 20 * time.Second

// Shrink returns the smallest trial it finds with the same class of finding.
func (t *Trial) Shrink(ctx context.Context, r *Result) *Trial {
	class, end := r.Class(), time.Now().Add(patience)
	same := func(c *Trial) bool {
		if time.Now().After(end) {
			return false
		}
		return c.Try(ctx).Class() == class
	}
	best := &Trial{t.Name, t.Model, t.Options, t.Set}
	for again := true; again; {
		again = false
		for _, list := range fewer(best.Options) {
			if c := (&Trial{t.Name, best.Model, list, t.Set}); same(c) {
				best, again = c, true
				break
			}
		}
	}
	for again := true; again; {
		again = false
		for k := 0; ; k++ {
			model, ok := smaller(best, k)
			if !ok {
				break
			}
			if model == nil || len(model) == len(best.Model) && string(model) == string(best.Model) {
				continue
			}
			if c := (&Trial{t.Name, model, best.Options, t.Set}); same(c) {
				best, again = c, true
				k--
			}
		}
	}
	return best
}

// fewer returns lists of options without one of them.
func fewer(list []string) [][]string {
	var all [][]string
	for i := 0; i < len(list); i++ {
		n := 1
		if i+1 < len(list) && !strings.HasPrefix(list[i+1], "--") {
			n = 2
		}
		if list[i] != "--dim" {
			all = append(all, slices.Concat(list[:i], list[i+n:]))
		}
		i += n - 1
	}
	return all
}

// smaller returns the model of a trial after the k-th edit; nil if that edit is none. ok is
// false if there are no more edits.
func smaller(t *Trial, k int) (model []byte, ok bool) {
	m, err := onnx.Parse(t.Name, t.Model)
	if err != nil {
		return nil, false
	}
	_, opt, err := parse(t.Options)
	if err != nil {
		return nil, false
	}
	dims := map[string]int64{}
	for name, n := range opt.Dims {
		dims[name] = n
	}
	if _, err := ops.Infer(m, ops.Options{Dims: dims}); err != nil {
		return nil, false
	}
	if !edit(m.Graph, k) {
		return nil, false
	}
	unspan(m.Graph)
	tidy(m.Graph)
	m.Graph.NameCaptures()
	if graph.Check(m) != nil {
		return nil, true
	}
	model, err = encoded(m)
	if err != nil {
		return nil, true
	}
	return model, true
}

// edit applies the k-th edit to a graph.
func edit(g *graph.Graph, k int) bool {
	count := func(n int) bool { // k counts within these n edits, or goes on
		if k < n {
			return true
		}
		k -= n
		return false
	}
	switch {
	case count(1): // what nothing reads goes
		for {
			g.Link()
			n := len(g.Nodes)
			g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool {
				return !slices.ContainsFunc(n.Outputs, func(o graph.TensorID) bool {
					return o >= 0 && (len(g.Tensors[o].Readers) > 0 || g.Tensors[o].Output)
				})
			})
			if len(g.Nodes) == n {
				break
			}
		}
		g.Link()
		g.Inputs = slices.DeleteFunc(g.Inputs, func(t graph.TensorID) bool {
			return len(g.Tensors[t].Readers) == 0 && !g.Tensors[t].Output
		})
	case count(len(g.Outputs)): // an output
		if len(g.Outputs) < 2 {
			return true
		}
		g.Outputs = slices.Delete(slices.Clone(g.Outputs), k, k+1)
	case count(len(g.Nodes)): // a node whose outputs become inputs
		i := len(g.Nodes) - 1 - k
		n := g.Nodes[i]
		for _, o := range n.Outputs {
			if o < 0 {
				continue
			}
			x := g.Tensors[o]
			if len(x.Readers) == 0 && !x.Output {
				continue
			}
			if !x.Type.Exact() {
				return true
			}
			x.Declared = &graph.Declared{Type: x.Type, Symbols: make([]string, len(x.Type.Shape))}
			g.Inputs = append(g.Inputs, o)
		}
		g.Nodes = slices.Delete(slices.Clone(g.Nodes), i, i+1)
	case count(len(g.Nodes)): // a node whose first output becomes its first input
		i := len(g.Nodes) - 1 - k
		n := g.Nodes[i]
		if len(n.Inputs) == 0 || n.Inputs[0] < 0 || len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			return true
		}
		for _, o := range n.Outputs[1:] {
			if o >= 0 && (len(g.Tensors[o].Readers) > 0 || g.Tensors[o].Output) {
				return true
			}
		}
		from, to := n.Outputs[0], n.Inputs[0]
		if a, b := g.Tensors[from].Type, g.Tensors[to].Type; a.Elem != b.Elem || !slices.Equal(a.Shape, b.Shape) {
			return true
		}
		g.Nodes = slices.Delete(slices.Clone(g.Nodes), i, i+1)
		replace(g, from, to)
	default:
		for _, n := range g.Nodes { // in a body
			for _, a := range n.Bodies() {
				for _, b := range a.All() {
					before := k
					if edits := 3*len(b.Nodes) + len(b.Outputs) + 1; k < edits {
						if k < 1+len(b.Outputs)+len(b.Nodes) { // neither outputs nor inputs of a body change
							return true
						}
						return edit(b, k)
					}
					k = before - (3*len(b.Nodes) + len(b.Outputs) + 1)
				}
			}
		}
		return false
	}
	return true
}

func replace(g *graph.Graph, from, to graph.TensorID) {
	swap := func(list []graph.TensorID) {
		for i := range list {
			if list[i] == from {
				list[i] = to
			}
		}
	}
	swap(g.Outputs)
	for _, n := range g.Nodes {
		swap(n.Inputs)
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				for i := range b.Captures {
					if b.Captures[i].Outer == from {
						b.Captures[i].Outer = to
					}
				}
			}
		}
	}
}

// unspan makes a graph be encoded and not copied, but for the elements of its tensors.
func unspan(g *graph.Graph) {
	g.Span = graph.Span{}
	for _, n := range g.Nodes {
		n.Span = graph.Span{}
		for _, a := range n.Bodies() {
			a.Span = graph.Span{}
			for _, b := range a.All() {
				unspan(b)
			}
		}
	}
}

// tidy links a graph again and drops what is left of removed nodes.
func tidy(g *graph.Graph) {
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				tidy(b)
			}
		}
		n.SetCaptures()
	}
	g.Link()
	used := make([]bool, len(g.Tensors))
	for _, list := range [][]graph.TensorID{g.Inputs, g.Outputs} {
		for _, t := range list {
			used[t] = true
		}
	}
	for _, n := range g.Nodes {
		n.Reads(func(t graph.TensorID) { used[t] = true })
		for _, t := range n.Outputs {
			if t >= 0 {
				used[t] = true
			}
		}
	}
	g.Captures = slices.DeleteFunc(g.Captures, func(c graph.Capture) bool { return !used[c.Inner] })
	g.DropTensors(func(t graph.TensorID) bool { return !used[t] })
	for _, t := range g.Tensors {
		if t.Maker >= 0 && !t.Output {
			t.Declared = nil
		}
	}
	g.Link()
}
