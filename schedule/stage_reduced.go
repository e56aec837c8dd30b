package schedule

import (
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// contract reduces a problem by the rules that are not left out.
func (s *solver) contract(g *indexed.Problem) *reduce.Contracted {
	return reduce.Contract(g, reduce.Without{
		Merging:   s.without["merging"],
		Siblings:  s.without["siblings"],
		IdleNodes: s.without["idle nodes"],
		Delaying:  s.without["delaying"],
		Credits:   s.without["credits"],
		Modules:   s.without["modules"],
	}, s.meter)
}

// solveContracted runs the stages of a level on the contracted problem.
func (p *subproblem) solveContracted(l level) {
	if p.contracted == nil {
		p.contracted = p.s.contract(p.g)
	}
	p.solveReduced(p.contracted, l)
}

// forceContracted runs the rows of constrained on the contracted problem, unless the gap is
// broad. Precedence forced far above the bound connects few nodes: at fast effort it took up
// to half of the time of such problems, and lowered no peak in the end. What may still help,
// the rows coarse and level, gets by with little work.
func (p *subproblem) forceContracted() {
	if broad(p) {
		m := p.s.meter
		m.Budget.Work = min(m.Budget.Work, m.Work()+p.s.budgets.broad)
		return
	}
	p.solveContracted(constrained)
}

// solveCoarse runs all stages on the problem without its smallest tensors: those of as many
// sizes, in ascending order, as together take at most the given bytes.
func (p *subproblem) solveCoarse(bytes int64) {
	if h := reduce.Coarse(p.g, bytes); h != nil {
		p.solveReduced(p.s.contract(h), thorough)
	}
}

// solveFine runs all stages, with a tenth more states, on the problem without the tensors of
// the smallest size only. If these kept the problem from contracting, the bound is then
// below the peak by no more than their live bytes at the peak.
func (p *subproblem) solveFine() {
	h := reduce.Coarse(p.g, reduce.OfSmallest(p.g))
	if h == nil {
		return
	}
	c := p.s.contract(h)
	if p.contracted != nil && c.Problem.Nodes >= p.contracted.Problem.Nodes {
		return // it is as hard as the problem itself
	}
	b := &p.s.meter.Budget
	b.States += b.States / 10
	b.Runs += b.Runs / 10
	p.solveReduced(c, thorough)
}

// solveReduced solves a reduced problem and takes the resulting order and bound.
func (p *subproblem) solveReduced(c *reduce.Contracted, l level) {
	if p.s.stopped() {
		return
	}
	found := p.s.solveParts(c.Problem, max(c.Floor, p.bound), c.Reduce(p.best.order), l)
	p.see(c.Expand(found.order))
	if found.proof.Value > p.bound {
		p.raise(searched(found.proof.Value))
		p.hint = translate(c, p.g, found.proof)
	}
}

// outcome is an order of a problem and a certificate of a bound, its nodes those of
// the problem.
type outcome struct {
	order []int32
	peak  int64
	proof bounds.Certificate
}

// solveParts cuts a problem at its separators, the nodes that are ordered with all
// others, and runs the stages of a level on the parts one after another:
//
//	part 1 ... separator | part 2 ... separator | part 3
//
// The same nodes run before a separator in every order. So the optimum is the largest of the
// parts' optima, and a bound of one part is a bound of all. A part is done when its peak is
// within the greatest bound of all parts. Known is an order of the problem, floor a bound.
func (s *solver) solveParts(g *indexed.Problem, floor int64, known []int32, l level) outcome {
	order := g.Listing()
	ends := reduce.Separators(g, order)
	if g.Idle > 0 || len(ends) == 1 {
		p := s.open(g, floor)
		if !p.see(known) {
			p.run(l)
		}
		p.proof.Value = p.bound
		return outcome{p.best.order, p.best.peak, p.proof}
	}
	out := outcome{proof: searched(floor)}
	nodes, parts := make([][]int32, len(ends)), make([]*subproblem, len(ends))
	s.parts.PlaceAll(g, reduce.After)
	live := g.LiveFirst()
	unread := g.Unread(nil)
	from := 0
	raise := func(k int) {
		if p := parts[k]; p.bound > out.proof.Value {
			out.proof = bounds.Certificate{Kind: p.proof.Kind, Nodes: compose(nodes[k], p.proof.Nodes), Value: p.bound}
		}
	}
	for k, end := range ends {
		nodes[k] = order[from:end]
		p := s.open(s.parts.Extract(g, nodes[k], live), out.proof.Value)
		local := make([]int32, 0, end-from) // the same nodes, by the same separators
		for _, v := range known[from:end] {
			local = append(local, s.parts.Where[v])
		}
		from = end
		p.whole = nil
		parts[k] = p
		if !p.see(local) && !p.see(indexed.Ascending(len(nodes[k]))) {
			p.askPeak()
			raise(k)
		}
		for _, v := range nodes[k] {
			s.parts.Where[v] = reduce.Before
			live = g.LiveAfter(v, live, unread)
		}
	}
	whole := func() int64 {
		peak := floor
		for _, p := range parts {
			peak = max(peak, p.best.peak)
		}
		return peak
	}
	joined := make([]int32, 0, g.Nodes)
	for k, p := range parts {
		p.whole = whole
		p.bound = max(p.bound, out.proof.Value)
		if !p.done() {
			p.run(l)
			raise(k)
		}
		joined = append(joined, compose(nodes[k], p.best.order)...)
		out.peak = max(out.peak, p.best.peak)
	}
	out.order = joined
	return out
}
