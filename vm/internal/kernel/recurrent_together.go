package kernel

import "unsafe"

// leastShare is the fewest weights that a worker multiplies in a step. A product of so few
// rows takes as long as its weights take to be read: these some microseconds, several times
// what it takes to hand work over.
const leastShare = 1 << 15

// divide lets all workers compute the products of each step if there are fewer groups than
// workers, and cuts these products for them.
func (s *layer) divide() {
	workers, groups := s.c.Workers, len(s.groups)
	if groups == 0 || groups >= workers || mul(groups, s.wide, s.hidden) < leastShare*workers {
		return
	}
	s.together = true
	first := &s.groups[0]
	first.all.Divide(workers, groups)
	first.candidates.Divide(workers, groups)
	for i := range s.groups[1:] {
		s.groups[1+i].all.CutLike(&first.all)
		s.groups[1+i].candidates.CutLike(&first.candidates)
	}
	s.tilesOfAll, s.tilesOfCandidates = first.all.Tiles(), first.candidates.Tiles()
}

// stepsTogether computes the steps of a chunk. The workers share the products, and the
// caller does the rest, which is little.
func (s *layer) stepsTogether() {
	products := len(s.groups) * s.tilesOfAll
	if s.before {
		products += len(s.groups) * s.tilesOfCandidates
	}
	for s.at = range s.count {
		s.pool.For(products, s.all)
		if s.gates == 3 {
			for i := range s.groups {
				g := &s.groups[i]
				s.reset(g, s.gatesNow(g))
			}
			if !s.before {
				s.pool.For(len(s.groups)*s.tilesOfCandidates, s.candidates)
			}
		}
		for i := range s.groups {
			s.advanceAll(&s.groups[i], s.at)
		}
	}
}

// allPart computes a tile of a group's products with its states.
func (s *layer) allPart(part, worker int) {
	n := len(s.groups) * s.tilesOfAll
	if part >= n {
		s.candidatesPart(part-n, worker)
		return
	}
	g := &s.groups[part/s.tilesOfAll]
	g.all.Tile(part%s.tilesOfAll, s.gatesNow(g), nil, s.pool.Each(worker, s.scratch))
}

// candidatesPart computes a tile of a group's product for the candidates of a GRU.
func (s *layer) candidatesPart(part, worker int) {
	g := &s.groups[part/s.tilesOfCandidates]
	to, bias := unsafe.Add(s.gatesNow(g), 4*2*s.hidden), unsafe.Pointer(nil)
	if s.before {
		to, bias = g.reset.At, s.resetBias(g.d)
	}
	g.candidates.Tile(part%s.tilesOfCandidates, to, bias, s.pool.Each(worker, s.scratch))
}

// gatesNow is the address of a group's gates at the step under way.
func (s *layer) gatesNow(g *group) unsafe.Pointer {
	return s.gatesOf(g.d, s.time(g.d, s.at), g.b)
}
