package schedule

import "slices"

// A saver is a node that can save something at its own step: by in-place pairs,
// or by credits (see contract.go), which are inputs that it counts though it
// may be the one that frees them. A saving is given when all other readers of
// its tensor have run.
type saver struct {
	// choices are the maximal sets of savings that can be given together: one
	// for each maximal matching of the pairs, the credits in each of them.
	choices [][]saving
	// pairs is used where there are more than maxChoices matchings. Then choices
	// holds the credits alone, and what the pairs save is asked of the matcher.
	pairs []Pair
	most  int64 // the largest matching of pairs; 0 without pairs
}

type saving struct {
	over int32 // -1: always given
	size int64
}

const maxChoices = 16

// need returns what v adds to the live bytes while it runs. A saving is given
// if its tensor's count is given: forward that is 1 reader to run, v itself;
// from the end, 0 readers placed.
func (g *net) need(v int32, count []int32, given int32) int64 {
	if g.saver == nil || g.saver[v] == 0 {
		return g.trans[v]
	}
	return g.trans[v] - g.saved(&g.savers[g.saver[v]-1], count, given)
}

func (g *net) saved(s *saver, count []int32, given int32) int64 {
	var most int64
	for _, choice := range s.choices {
		var sum int64
		for _, x := range choice {
			if x.over < 0 || count[x.over] == given {
				sum += x.size
			}
		}
		most = max(most, sum)
	}
	if len(s.pairs) == 0 {
		return most
	}
	var free []Pair
	for _, pair := range s.pairs {
		if count[pair.Over] == given {
			free = append(free, pair)
		}
	}
	for _, pair := range g.match.largest(nil, free) {
		most += g.size[pair.Over]
	}
	return most
}

// choicesOf returns the choices of v, at least one, and what more it may save
// at most, whatever the state.
func (g *net) choicesOf(v int32) (choices [][]saving, more int64) {
	if g.saver == nil || g.saver[v] == 0 {
		return nothingToSave, 0
	}
	s := &g.savers[g.saver[v]-1]
	if len(s.pairs) > 0 {
		more = s.most
	}
	return s.choices, more
}

var nothingToSave = [][]saving{nil}

// mostSaved returns what v can save at most.
func (g *net) mostSaved(v int32) (most int64) {
	choices, more := g.choicesOf(v)
	for _, choice := range choices {
		most = max(most, total(choice))
	}
	return most + more
}

func total(choice []saving) (size int64) {
	for _, x := range choice {
		size += x.size
	}
	return size
}

// addPairs gives a net the in-place pairs of a flat problem; place says where a
// tensor is in the net. The tensor written over is always there: it is read and
// has a size.
func (g *net) addPairs(f *flat, place []int32) {
	for i := range f.nodes {
		v := int32(i)
		pairs := slices.Clone(f.pairsOf(v))
		if len(pairs) == 0 {
			continue
		}
		for k := range pairs {
			pairs[k].Over = place[pairs[k].Over]
		}
		g.setSaver(v, g.newSaver(pairs))
	}
}

func (g *net) setSaver(v int32, s saver) {
	if g.saver == nil {
		g.saver = make([]int32, g.nodes)
	}
	g.savers = append(g.savers, s)
	g.saver[v] = int32(len(g.savers))
}

// newSaver takes the pairs of one node, by Result.
func (g *net) newSaver(pairs []Pair) saver {
	matchings, ok := maximalMatchings(pairs)
	if !ok {
		s := saver{choices: nothingToSave, pairs: pairs}
		if g.match == nil {
			g.match = newMatcher(len(g.size))
		}
		for _, pair := range g.match.largest(nil, pairs) {
			s.most += g.size[pair.Over]
		}
		return s
	}
	s := saver{choices: make([][]saving, len(matchings))}
	for i, m := range matchings {
		s.choices[i] = make([]saving, len(m))
		for k, pair := range m {
			s.choices[i][k] = saving{pair.Over, g.size[pair.Over]}
		}
	}
	return s
}

// maximalMatchings returns all sets of pairs with no result and no tensor twice
// to which no pair can be added, or false if they are more than maxChoices.
func maximalMatchings(pairs []Pair) (found [][]Pair, ok bool) {
	if len(pairs) == 1 {
		return [][]Pair{pairs}, true
	}
	fits := func(m []Pair, p Pair) bool {
		return !slices.ContainsFunc(m, func(q Pair) bool { return q.Result == p.Result || q.Over == p.Over })
	}
	visits := 0
	var grow func(i int, m []Pair) bool
	grow = func(i int, m []Pair) bool {
		if visits++; visits > 4096 || len(found) > maxChoices {
			return false
		}
		if i == len(pairs) {
			if !slices.ContainsFunc(pairs, func(p Pair) bool { return fits(m, p) }) {
				found = append(found, slices.Clone(m))
			}
			return true
		}
		if fits(m, pairs[i]) && !grow(i+1, append(m, pairs[i])) {
			return false
		}
		return grow(i+1, m)
	}
	ok = grow(0, nil) && len(found) <= maxChoices
	return found, ok
}
