package schedule

import (
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// How many cuts may fail in a row, and how much flow work they may take: some
// hundredths of a second.
const (
	maxFailedCuts = 48
	maxFailedWork = 5_000_000
)

// cuts asks the nodes of the greatest ceilings, until the bound has not risen for some
// time.
func (p *subproblem) cuts() {
	work := p.s.meter.Flow + maxFailedWork
	for failed := 0; failed < maxFailedCuts && !p.done() && p.s.meter.Flow < work; failed++ {
		v := p.highest()
		if v < 0 {
			return
		}
		bound := p.bound
		p.ask(v)
		if p.bound > bound {
			failed, work = 0, p.s.meter.Flow+maxFailedWork
		}
	}
}

// highest returns the node of the greatest ceiling above the bound that was not asked
// yet, or -1.
func (p *subproblem) highest() int32 {
	at := int32(-1)
	for v, c := range p.ceiling {
		if !p.asked[v] && c > p.bound && (at < 0 || c > p.ceiling[at]) {
			at = int32(v)
		}
	}
	return at
}

// sets takes the certificates of sets of nodes.
func (p *subproblem) sets() {
	if p.s.without["sets"] {
		return
	}
	defer p.s.clock.end(p.s.clock.begin())
	for x := range p.s.cut.Sets(p.g, p.recent, p.bound) {
		if p.raise(x); p.done() {
			return
		}
	}
}

// conflicts takes the certificates of nodes against those that they cannot follow.
func (p *subproblem) conflicts() {
	defer p.s.clock.end(p.s.clock.begin())
	for x := range p.s.cut.Conflicts(p.g, p.recent[0], p.bound) {
		if p.raise(x); p.done() {
			return
		}
	}
}

// maxHints is how many cuts certify tries.
const maxHints = 16

// certify looks for a certificate of a bound that a search, a reduced problem or a
// part has proven, among the cuts, sets and conflicts of the problem itself: a reader can check
// those. It takes a few cuts, as many as the bound might have taken to find.
func (p *subproblem) certify() {
	bound := p.bound
	p.bound-- // so that a proof of it counts as a rise
	switch p.hint.Kind {
	case bounds.Cut:
		for _, v := range p.hint.Nodes[:min(len(p.hint.Nodes), maxHints)] {
			if p.asked[v] = false; p.ask(v) || p.bound >= bound {
				break
			}
		}
	case bounds.First, bounds.Last:
		prove := p.s.cut.First
		if p.hint.Kind == bounds.Last {
			prove = p.s.cut.Last
		}
		if x := prove(p.g, p.hint.Nodes, p.bound, bounds.SetWork); !p.s.cut.Broken() {
			p.raise(x)
		}
	}
	for range maxHints {
		v := p.highest()
		if p.bound >= bound || v < 0 {
			break
		}
		p.ask(v)
	}
	if p.bound < bound {
		p.sets()
	}
	if p.bound < bound {
		p.conflicts()
	}
	if p.bound < bound {
		p.bound, p.proof = bound, searched(bound)
	}
}

// translate returns a proof about a contracted problem as a hint for the problem g: of
// a node, all nodes of its run; of a set, the tallest node of each run.
func translate(c *reduce.Contracted, g *indexed.Problem, proof bounds.Certificate) bounds.Certificate {
	hint := bounds.Certificate{Kind: proof.Kind}
	for _, v := range proof.Nodes {
		if proof.Kind == bounds.Cut {
			hint.Nodes = append(hint.Nodes, c.Run[v]...)
			continue
		}
		most := c.Run[v][0]
		for _, u := range c.Run[v] {
			if g.LeastLoad(u) > g.LeastLoad(most) {
				most = u
			}
		}
		hint.Nodes = append(hint.Nodes, most)
	}
	return hint
}
