package reduce

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// Extractor makes the problem of some nodes of another problem. It reuses its memory.
type Extractor struct {
	Where  []int32 // node -> its place in the part, or Before or After
	tensor []int32 // tensor -> its place in the part, if seen says now
	seen   []int32
	now    int32
}

// Where a node outside of the part runs.
const (
	Before = int32(-1)
	After  = int32(-2)
)

// PlaceAll sets Where of every node to Before or After.
func (p *Extractor) PlaceAll(g *indexed.Problem, where int32) {
	p.Where = indexed.Resize(p.Where, g.Nodes)
	for i := range p.Where {
		p.Where[i] = where
	}
}

// PlaceAround sets Where for the part of some nodes as far as Extract asks for it: of the
// nodes that share a tensor or precedence with one of them. Those of a smaller place than
// the part's first node run before it. PlaceAll must have set Where once.
func (p *Extractor) PlaceAround(g *indexed.Problem, nodes, place []int32, from int32) {
	side := func(v int32) {
		p.Where[v] = After
		if place[v] < from {
			p.Where[v] = Before
		}
	}
	for _, v := range nodes {
		for _, u := range g.Preds.Of(v) {
			side(u)
		}
		for _, list := range [2][]int32{g.Makes.Of(v), g.Reads.Of(v)} {
			for _, t := range list {
				if m := g.Maker[t]; m >= 0 {
					side(m)
				}
				for _, r := range g.Readers.Of(t) {
					side(r)
				}
			}
		}
	}
}

// Extract returns the problem of some nodes; its node i is nodes[i]. Where must say of the
// other nodes whether they run before or after the part; live are the live bytes right
// before it. A
// tensor that is live throughout counts into the base. A saving over a tensor that is an
// output, or is read after the part, is void; a saving whose other readers ran before is
// always given.
func (p *Extractor) Extract(g *indexed.Problem, nodes []int32, live int64) *indexed.Problem {
	h := &indexed.Problem{Nodes: len(nodes), Base: live, Transient: make([]int64, len(nodes)), Matcher: g.Matcher}
	for i, v := range nodes {
		p.Where[v] = int32(i)
		h.Transient[i] = g.Transient[v]
	}
	edges := 0
	for _, v := range nodes {
		edges += len(g.Preds.Of(v))
	}
	h.Preds = indexed.Lists{Start: make([]int32, 1, len(nodes)+1), Items: make([]int32, 0, edges)}
	for _, v := range nodes {
		for _, u := range g.Preds.Of(v) {
			if x := p.Where[u]; x >= 0 {
				h.Preds.Items = append(h.Preds.Items, x)
			}
		}
		h.Preds.Add()
	}
	h.Succs = h.Preds.Inverse(h.Nodes)
	p.tensor = indexed.Resize(p.tensor, len(g.Size))
	if len(p.seen) < len(g.Size) {
		p.seen, p.now = make([]int32, len(g.Size)), 0
	}
	p.now++
	for i, v := range nodes {
		for _, t := range g.Makes.Of(v) {
			p.made(g, h, t, int32(i))
		}
		for _, t := range g.Reads.Of(v) {
			p.read(g, h, t)
		}
	}
	h.FinishTensors()
	if g.SavingsAt != nil {
		p.savings(g, h, nodes)
	}
	return h
}

func (p *Extractor) made(g, h *indexed.Problem, t, maker int32) {
	output := g.Output[t]
	for _, r := range g.Readers.Of(t) {
		if x := p.Where[r]; x >= 0 {
			h.Readers.Items = append(h.Readers.Items, x)
		} else {
			output = true
		}
	}
	p.place(g, h, t, maker, output)
}

// read adds an input of the part when its first reader is met. A tensor that is an output,
// or is read after the part, stays in the base.
func (p *Extractor) read(g, h *indexed.Problem, t int32) {
	if m := g.Maker[t]; p.seen[t] == p.now || m >= 0 && p.Where[m] >= 0 || g.Output[t] {
		return
	}
	from := len(h.Readers.Items)
	for _, r := range g.Readers.Of(t) {
		switch x := p.Where[r]; {
		case x >= 0:
			h.Readers.Items = append(h.Readers.Items, x)
		case x == After:
			h.Readers.Items = h.Readers.Items[:from]
			p.seen[t], p.tensor[t] = p.now, Before // in the base: not looked at again
			return
		}
	}
	h.Base -= g.Size[t]
	p.place(g, h, t, -1, false)
}

func (p *Extractor) place(g, h *indexed.Problem, t, maker int32, output bool) {
	p.seen[t] = p.now
	p.tensor[t] = h.AddTensor(g.Size[t], maker, output, nil)
}

// savings takes over the savings that the part can still give.
func (p *Extractor) savings(g, h *indexed.Problem, nodes []int32) {
	holds := func(t int32) bool { return p.seen[t] == p.now && p.tensor[t] >= 0 && !h.Output[p.tensor[t]] }
	for i, v := range nodes {
		if g.SavingsAt[v] == 0 {
			continue
		}
		old := &g.Savings[g.SavingsAt[v]-1]
		s := indexed.Savings{Choices: make([][]indexed.Saving, len(old.Choices)), Many: old.Many}
		for k, choice := range old.Choices {
			for _, x := range choice {
				if x.Over < 0 {
					s.Choices[k] = append(s.Choices[k], x)
				} else if holds(x.Over) {
					s.Choices[k] = append(s.Choices[k], indexed.Saving{Over: p.tensor[x.Over], Size: x.Size})
				}
			}
		}
		for _, pair := range old.Pairs {
			if pair.Over >= 0 {
				if !holds(pair.Over) {
					continue
				}
				pair.Over = p.tensor[pair.Over]
			}
			s.Pairs = append(s.Pairs, pair)
		}
		for _, t := range old.Credits {
			if holds(t) {
				s.Credits = append(s.Credits, p.tensor[t])
			}
		}
		if s.Many {
			// The part has no more tensors than the whole: its matcher serves.
			s.Most = h.Largest(s.Pairs, func(int32) bool { return true })
		}
		h.SetSavings(int32(i), s)
	}
}

// Relist returns the problem with its nodes listed in a given order.
func (p *Extractor) Relist(g *indexed.Problem, order []int32) *indexed.Problem {
	p.PlaceAll(g, Before)
	return p.Extract(g, order, g.LiveFirst())
}

// Separators returns where the parts of a topological order end: after each separator, which is
// a node that is ordered with all others, and at the end. The same nodes run before a
// separator in every order, so the parts can be solved separately. Two linear sweeps find the
// separators: a node is ordered with all nodes before it if, when it is placed, no other
// placed node is without a placed successor; the sweep from the end is the mirror image.
func Separators(g *indexed.Problem, order []int32) (ends []int) {
	n := len(order)
	alone := make([]bool, n)
	sweep := func(i int, placed []bool, open *int, back *indexed.Lists) bool {
		v := order[i]
		for _, u := range back.Of(v) {
			if !placed[u] {
				placed[u] = true
				*open--
			}
		}
		*open++
		return *open == 1
	}
	placed, open := make([]bool, g.Nodes), 0
	for i := range n {
		alone[i] = sweep(i, placed, &open, &g.Preds)
	}
	clear(placed)
	open = 0
	for i := n - 1; i >= 0; i-- {
		alone[i] = sweep(i, placed, &open, &g.Succs) && alone[i]
	}
	for i := range n {
		if alone[i] || i == n-1 {
			ends = append(ends, i+1)
		}
	}
	return ends
}
