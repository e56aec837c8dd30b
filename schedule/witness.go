package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// witness turns certificates into states that a reader can check by adding up.
type witness struct {
	f        *indexed.Graph
	g        *indexed.Problem // nil: too large for cuts
	preds    indexed.Lists
	succs    indexed.Lists
	cut      *bounds.Cutter
	match    *match.Matcher
	mustRun  []bool // before the node that around was called for
	mustWait []bool // after it
}

func newWitness(f *indexed.Graph) *witness {
	w := &witness{f: f, cut: bounds.NewCutter(meter.New(nil)), preds: f.Precedence(), match: match.New(len(f.Size))}
	w.succs = w.preds.Inverse(f.Nodes)
	if g := indexed.NewProblem(f); !g.TooLarge() {
		w.g = g
	}
	return w
}

// around marks what runs before a node in any order, and what after it.
func (w *witness) around(v int32) {
	w.mustRun, w.mustWait = reached(v, w.preds, w.f.Nodes), reached(v, w.succs, w.f.Nodes)
}

// reached marks what is reached from a node, without itself. v may be -1.
func reached(v int32, next indexed.Lists, nodes int) []bool {
	seen := make([]bool, nodes)
	if v < 0 {
		return seen
	}
	stack := []int32{v}
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, x := range next.Of(u) {
			if !seen[x] {
				seen[x] = true
				stack = append(stack, x)
			}
		}
	}
	return seen
}

// proof gives the state that shows a certificate.
func (w *witness) proof(c Certificate) Proof {
	p := Proof{Certificate: c, Node: -1}
	if len(c.Nodes) == 0 || w.g == nil && c.Kind != KindCut {
		return p
	}
	ran := make([]bool, w.f.Nodes)
	if w.g == nil {
		p.Node = c.Nodes[0]
		copy(ran, reached(p.Node, w.preds, w.f.Nodes))
	} else {
		p.Node = w.cut.Witness(w.g, bounds.Certificate(c), ran)
	}
	w.around(p.Node)
	p.Before, p.After, p.Ran = count(w.mustRun), count(w.mustWait), count(ran)
	p.Live = w.holdings(ran, p.Node, false)
	return p
}

func count(set []bool) (n int) {
	for _, x := range set {
		if x {
			n++
		}
	}
	return n
}

// holdings lists what lives while v runs and the nodes of ran have run, the
// largest first. Its sizes add up to the load. Inputs that nobody reads live at
// the first step alone. With v = -1 it lists all inputs.
func (w *witness) holdings(ran []bool, v int32, first bool) []Holding {
	var list []Holding
	for t := range w.f.Size {
		h := Holding{Tensors: []int32{int32(t)}, Bytes: w.f.Size[t], Maker: w.f.Producer[t], Output: w.f.Output[t]}
		if h.Bytes == 0 || h.Maker >= 0 && h.Maker != v && !ran[h.Maker] {
			continue
		}
		for _, r := range w.f.Readers.Of(int32(t)) {
			if !ran[r] {
				h.Keepers = append(h.Keepers, r)
			}
		}
		slices.SortStableFunc(h.Keepers, func(a, b int32) int { return w.rank(a, v) - w.rank(b, v) })
		idle := h.Maker < 0 && !w.f.Kept(int32(t)) && (first || v < 0)
		if made := v >= 0 && h.Maker == v; len(h.Keepers) == 0 && !h.Output && !made && !idle {
			continue
		}
		here := h.Maker == v || slices.Contains(h.Keepers, v)
		h.Forced = here || (h.Maker < 0 || w.mustRun[h.Maker]) &&
			(h.Output || slices.ContainsFunc(h.Keepers, func(r int32) bool { return w.mustWait[r] }))
		list = append(list, h)
	}
	if v >= 0 {
		list = w.share(list, ran, v)
		if w.f.Workspace[v] > 0 {
			list = append(list, Holding{Bytes: w.f.Workspace[v], Maker: v, Forced: true})
		}
	}
	slices.SortStableFunc(list, func(a, b Holding) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

// rank puts v first, then what must run after it, which alone keeps a tensor
// whatever the order.
func (w *witness) rank(reader, v int32) int {
	switch {
	case reader == v:
		return 0
	case w.mustWait[reader]:
		return 1
	}
	return 2
}

// share makes one of what v writes over what it reads, as [Problem.Evaluate]
// counts it.
func (w *witness) share(list []Holding, ran []bool, v int32) []Holding {
	var free []Pair
	for _, pair := range w.f.PairsOf(v) {
		if !slices.ContainsFunc(w.f.Readers.Of(pair.Over), func(r int32) bool { return r != v && !ran[r] }) {
			free = append(free, pair)
		}
	}
	at := map[int32]int{}
	for i, h := range list {
		at[h.Tensors[0]] = i
	}
	for _, pair := range w.match.Largest(nil, free) {
		over, result := &list[at[pair.Over]], &list[at[pair.Result]]
		over.Tensors = append(over.Tensors, result.Tensors...)
		over.Keepers = append(over.Keepers, result.Keepers...)
		over.Output = result.Output
		result.Bytes = 0
	}
	return slices.DeleteFunc(list, func(h Holding) bool { return h.Bytes == 0 })
}
