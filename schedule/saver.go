package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// A saver is a node that can save something at its own step: by in-place pairs,
// or by credits (see contract.go), which are inputs that it counts though it
// may be the one that frees them. A saving is given when all other readers of
// its tensor have run.
type saver struct {
	pairs   []pairing // by result
	credits []int32   // tensors
	// choices are the maximal sets of savings that can be given together: one
	// for each maximal matching of the pairs, the credits in each of them.
	choices [][]saving
	// Where there are more than maxChoices matchings, choices holds the credits
	// alone, and what the pairs save is asked of the matcher.
	many bool
	most int64 // the largest matching of many pairs, else 0
}

type saving struct {
	over int32 // -1: always given
	size int64
}

// pairing is an in-place pair: a result of the saver over a tensor that it
// reads. Over is below 0, and different for different tensors, where that is
// made within the node, so that the pairing is always given.
type pairing struct {
	result, over int32
	size         int64
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
	if !s.many {
		return most
	}
	return most + g.largest(s.pairs, func(t int32) bool { return count[t] == given })
}

// choicesOf returns the choices of v, at least one, and what more it may save
// at most, whatever the state.
func (g *net) choicesOf(v int32) (choices [][]saving, more int64) {
	if g.saver == nil || g.saver[v] == 0 {
		return nothingToSave, 0
	}
	s := &g.savers[g.saver[v]-1]
	return s.choices, s.most
}

var nothingToSave = [][]saving{nil}

// claims reports whether v may save the bytes of a tensor.
func (g *net) claims(v, t int32) bool {
	if g.saver == nil || g.saver[v] == 0 {
		return false
	}
	s := &g.savers[g.saver[v]-1]
	return slices.Contains(s.credits, t) || slices.ContainsFunc(s.pairs, func(p pairing) bool { return p.over == t })
}

// mostSaved returns what v can save at most.
func (g *net) mostSaved(v int32) (most int64) {
	choices, more := g.choicesOf(v)
	for _, choice := range choices {
		most = max(most, total(choice))
	}
	return most + more
}

// alone returns what v needs at least with what it reads, whatever else is live.
func (g *net) alone(v int32) int64 {
	size := g.trans[v] - g.mostSaved(v)
	for _, t := range g.reads.of(v) {
		size += g.size[t]
	}
	return size
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
		var pairs []pairing
		for _, pair := range f.pairsOf(v) {
			pairs = append(pairs, pairing{pair.Result, place[pair.Over], f.size[pair.Over]})
		}
		if len(pairs) > 0 {
			g.setSaver(v, g.newSaver(pairs, nil))
		}
	}
}

func (g *net) setSaver(v int32, s saver) {
	if g.saver == nil {
		g.saver = make([]int32, g.nodes)
	}
	g.savers = append(g.savers, s)
	g.saver[v] = int32(len(g.savers))
}

// newSaver finds the choices of a node.
func (g *net) newSaver(pairs []pairing, credits []int32) saver {
	s := saver{pairs: pairs, credits: credits}
	matchings, ok := maximalMatchings(pairs)
	if !ok {
		if g.match == nil {
			g.match = match.New(len(g.size))
		}
		s.many, s.most = true, g.largest(pairs, func(int32) bool { return true })
		matchings = [][]pairing{nil}
	}
	s.choices = make([][]saving, len(matchings))
	for i, m := range matchings {
		choice := make([]saving, 0, len(m)+len(credits))
		for _, pair := range m {
			choice = append(choice, saving{max(pair.over, -1), pair.size})
		}
		for _, t := range credits {
			choice = append(choice, saving{t, g.size[t]})
		}
		s.choices[i] = choice
	}
	return s
}

// largest returns the bytes of a largest matching of many pairs over tensors
// that count. None of many pairs is always given.
func (g *net) largest(pairs []pairing, counts func(t int32) bool) (size int64) {
	var free []Pair
	for _, pair := range pairs {
		if counts(pair.over) {
			free = append(free, Pair{Result: pair.result, Over: pair.over})
		}
	}
	for _, pair := range g.match.Largest(nil, free) {
		size += g.size[pair.Over]
	}
	return size
}

// maximalMatchings returns all sets of pairs with no result and no tensor twice
// to which no pair can be added, or false if they are more than maxChoices.
func maximalMatchings(pairs []pairing) (found [][]pairing, ok bool) {
	if len(pairs) <= 1 {
		return [][]pairing{pairs}, true
	}
	fits := func(m []pairing, p pairing) bool {
		return !slices.ContainsFunc(m, func(q pairing) bool { return q.result == p.result || q.over == p.over })
	}
	visits := 0
	var grow func(i int, m []pairing) bool
	grow = func(i int, m []pairing) bool {
		if visits++; visits > 4096 || len(found) > maxChoices {
			return false
		}
		if i == len(pairs) {
			if !slices.ContainsFunc(pairs, func(p pairing) bool { return fits(m, p) }) {
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
