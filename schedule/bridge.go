package schedule

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// bridges returns a topological order of the net and the ends of its parts: the
// steps of nodes that are comparable with all others, and the end. What runs
// before such a node and what runs after it is the same in all orders, so that
// the parts can be solved apart. Two linear sweeps: a node is comparable with
// all that stand before it if, when it is placed, it is the only one without a
// placed successor, and from the end likewise.
func bridges(g *indexed.Problem, order []int32) (ends []int) {
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

// outcome is what a search found about a net.
type outcome struct {
	best  incumbent
	bound int64
	proof Certificate // nodes of the net
}

// apart solves the parts between bridges, each down to the greatest bound of
// all. A bound and an order are known before.
func (s *search) apart(g *indexed.Problem, floor int64, known []int32, solve func(*gap)) outcome {
	order := g.Listing()
	ends := bridges(g, order)
	if g.Idle > 0 || len(ends) == 1 {
		p := s.open(g, floor)
		if !p.see(known) {
			solve(p)
		}
		return outcome{p.best, p.bound, p.proof}
	}
	out := outcome{bound: floor, proof: Certificate{Kind: KindSearch}}
	parts, gaps := make([][]int32, len(ends)), make([]*gap, len(ends))
	s.all(g, after)
	live := g.LiveFirst()
	unread := g.Unread(nil)
	from := 0
	raise := func(k int) {
		if p := gaps[k]; p.bound > out.bound {
			out.bound, out.proof = p.bound, Certificate{Kind: p.proof.Kind}
			for _, v := range p.proof.Nodes {
				out.proof.Nodes = append(out.proof.Nodes, parts[k][v])
			}
		}
	}
	for k, end := range ends {
		parts[k] = order[from:end]
		p := s.open(s.part(g, parts[k], live), out.bound)
		local := make([]int32, 0, end-from) // the same nodes, by the same bridges
		for _, v := range known[from:end] {
			local = append(local, s.where[v])
		}
		from = end
		p.whole = nil
		gaps[k] = p
		if !p.see(local) && !p.see(indexed.Ascending(len(parts[k]))) {
			p.ask(p.best.order[p.best.step])
			raise(k)
		}
		for _, v := range parts[k] {
			s.where[v] = before
			live = g.LiveAfter(v, live, unread)
		}
	}
	whole := func() int64 {
		peak := floor
		for _, p := range gaps {
			peak = max(peak, p.best.peak)
		}
		return peak
	}
	joined := make([]int32, 0, g.Nodes)
	for k, p := range gaps {
		p.whole = whole
		p.bound = max(p.bound, out.bound)
		if !p.done() {
			solve(p)
			raise(k)
		}
		for _, v := range p.best.order {
			joined = append(joined, parts[k][v])
		}
		out.best.peak = max(out.best.peak, p.best.peak)
	}
	out.best.order = joined
	return out
}
