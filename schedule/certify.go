package schedule

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// certify looks for a certificate of a bound that is known from a search, from
// the contracted net or from a part, among the cuts and sets of the net itself:
// what a reader can check beats what must be believed. hint is the proof on the
// other net, its nodes as nodes of this one. It is worth little time: a few
// cuts, as many as the bound might have taken to find.
func (p *gap) certify(hint Certificate) {
	if p.proof.Kind != KindSearch || p.bound == 0 || p.halted() {
		return
	}
	bound := p.bound
	p.bound-- // a proof of it is news now
	switch hint.Kind {
	case KindCut:
		for _, v := range hint.Nodes[:min(len(hint.Nodes), maxHints)] {
			if p.asked[v] = false; p.ask(v) || p.bound >= bound {
				break
			}
		}
	case KindFirst:
		if x := p.firstOf(p.g, hint.Nodes, p.bound, maxSetWork); !p.Broken {
			p.raise(x, KindFirst, hint.Nodes...)
		}
	case KindLast:
		if x := p.lastOf(p.g, hint.Nodes, p.bound, maxSetWork); !p.Broken {
			p.raise(x, KindLast, hint.Nodes...)
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
		p.bound, p.proof = bound, Certificate{Kind: KindSearch}
	}
}

const maxHints = 16

// translate returns a proof about a contracted net as a hint for the net: of a
// node, all nodes of its run; of a set, the tallest node of each run.
func (c *contracted) translate(g *indexed.Problem, proof Certificate) Certificate {
	hint := Certificate{Kind: proof.Kind}
	for _, v := range proof.Nodes {
		if proof.Kind == KindCut {
			hint.Nodes = append(hint.Nodes, c.run[v]...)
			continue
		}
		most := c.run[v][0]
		for _, u := range c.run[v] {
			if g.LeastLoad(u) > g.LeastLoad(most) {
				most = u
			}
		}
		hint.Nodes = append(hint.Nodes, most)
	}
	return hint
}
