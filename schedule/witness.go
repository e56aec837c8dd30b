package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// witness turns certificates into states that a reader can check by adding up.
type witness struct {
	*indexed.Graph
	g        *indexed.Problem // nil: too large for cuts
	preds    indexed.Lists
	succs    indexed.Lists
	cutter   cutter
	match    *match.Matcher
	mustRun  []bool // before the node that around was called for
	mustWait []bool // after it
}

func newWitness(f *indexed.Graph) *witness {
	w := &witness{Graph: f, preds: f.Precedence(), match: match.New(len(f.Size))}
	w.succs = w.preds.Inverse(f.Nodes)
	if g := indexed.NewProblem(f); !g.TooLarge() {
		w.g = g
	}
	return w
}

// around marks what runs before a node in any order, and what after it.
func (w *witness) around(v int32) {
	w.mustRun, w.mustWait = reached(v, w.preds, w.Nodes), reached(v, w.succs, w.Nodes)
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
	ran := make([]bool, w.Nodes)
	switch {
	case w.g == nil:
		p.Node = c.Nodes[0]
		copy(ran, reached(p.Node, w.preds, w.Nodes))
	case c.Kind == KindCut:
		p.Node = c.Nodes[0]
		w.cutter.nodeSplit(w.g, p.Node)
		w.cutter.minimiser(false, ran)
	default:
		p.Node = w.cheapest(c, ran)
	}
	w.around(p.Node)
	p.Before, p.After, p.Ran = count(w.mustRun), count(w.mustWait), count(ran)
	p.Live = w.holdings(ran, p.Node, false)
	return p
}

// cheapest gives the node of a set that can run first, or last, at the least
// load, and the state from which it does: see [FirstBound] and [LastBound].
func (w *witness) cheapest(c Certificate, ran []bool) (at int32) {
	k, g := &w.cutter, w.g
	away, side, toward, other := &g.Succs, outside, &g.Preds, inside
	if c.Kind == KindLast {
		away, side, toward, other = &g.Preds, inside, &g.Succs, outside
	}
	k.begin(g)
	for _, u := range c.Nodes {
		k.spread(u, side, away)
	}
	k.base = append(k.base[:0], k.mark...)
	at = -1
	least := indexed.Infinite
	for _, v := range c.Nodes {
		if marked(k.base, toward.Of(v), side) {
			continue // another one of the set stands in its way
		}
		copy(k.mark, k.base)
		k.mark[v] = free
		k.spread(v, other, toward)
		k.mark[v] = outside
		if x, choice := k.choose(v, indexed.Infinite); x < least {
			least, at = x, v
			k.again(v, choice)
			k.minimiser(false, ran)
		}
	}
	return at
}

// again leaves behind the cut of one choice of a node, if it is not the last.
func (c *cutter) again(v int32, choice int) {
	if choices, _ := c.g.Choices(v); choice != len(choices)-1 {
		c.least(v, choices[choice], indexed.Infinite)
	}
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
	for t := range w.Size {
		h := Holding{Tensors: []int32{int32(t)}, Bytes: w.Size[t], Maker: w.Producer[t], Output: w.Output[t]}
		if h.Bytes == 0 || h.Maker >= 0 && h.Maker != v && !ran[h.Maker] {
			continue
		}
		for _, r := range w.Readers.Of(int32(t)) {
			if !ran[r] {
				h.Keepers = append(h.Keepers, r)
			}
		}
		slices.SortStableFunc(h.Keepers, func(a, b int32) int { return w.rank(a, v) - w.rank(b, v) })
		idle := h.Maker < 0 && !w.Kept(int32(t)) && (first || v < 0)
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
		if w.Workspace[v] > 0 {
			list = append(list, Holding{Bytes: w.Workspace[v], Maker: v, Forced: true})
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
	for _, pair := range w.PairsOf(v) {
		if !slices.ContainsFunc(w.Readers.Of(pair.Over), func(r int32) bool { return r != v && !ran[r] }) {
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
