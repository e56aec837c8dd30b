package indexed

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// Savings are what a node can save at its own step: by in-place pairs, or by credits. A
// credit is an input that the node's Transient counts although the node may be the one
// that frees it: a contraction leaves such inputs. A saving is given if all other readers
// of its tensor have run.
type Savings struct {
	Pairs   []InPlacePair // by result
	Credits []int32       // tensors
	// Choices are the maximal sets of savings that can be given together: one
	// for each maximal matching of the pairs, the credits in each of them.
	Choices [][]Saving
	// Many: there are more than maxChoices matchings. Then Choices has the credits
	// alone, and the matcher says what the pairs save.
	Many bool
	Most int64 // the largest matching of many pairs, else 0
}

// Saving is a tensor whose bytes a node may save.
type Saving struct {
	Over int32 // -1: always given
	Size int64
}

// InPlacePair is a result of a node over a tensor that it reads. Over is below 0, and
// different for different tensors, if the tensor is made within the node: the pair is then
// always given.
type InPlacePair struct {
	Result, Over int32
	Size         int64
}

const maxChoices = 16

// Need returns what v adds to the live bytes while it runs. A saving is given if the count
// of its tensor equals given: forward that is 1 reader left to run, v itself; from the
// end, 0 readers placed.
func (g *Problem) Need(v int32, count []int32, given int32) int64 {
	if g.SavingsAt == nil || g.SavingsAt[v] == 0 {
		return g.Transient[v]
	}
	return g.Transient[v] - g.saved(&g.Savings[g.SavingsAt[v]-1], count, given)
}

func (g *Problem) saved(s *Savings, count []int32, given int32) int64 {
	var most int64
	for _, choice := range s.Choices {
		var sum int64
		for _, x := range choice {
			if x.Over < 0 || count[x.Over] == given {
				sum += x.Size
			}
		}
		most = max(most, sum)
	}
	if !s.Many {
		return most
	}
	return most + g.Largest(s.Pairs, func(t int32) bool { return count[t] == given })
}

// Choices returns the choices of v, at least one, and what more it may save
// at most, whatever the state.
func (g *Problem) Choices(v int32) (choices [][]Saving, more int64) {
	if g.SavingsAt == nil || g.SavingsAt[v] == 0 {
		return nothingToSave, 0
	}
	s := &g.Savings[g.SavingsAt[v]-1]
	return s.Choices, s.Most
}

var nothingToSave = [][]Saving{nil}

// Claims reports whether v may save the bytes of a tensor.
func (g *Problem) Claims(v, t int32) bool {
	if g.SavingsAt == nil || g.SavingsAt[v] == 0 {
		return false
	}
	s := &g.Savings[g.SavingsAt[v]-1]
	return slices.Contains(s.Credits, t) || slices.ContainsFunc(s.Pairs, func(p InPlacePair) bool { return p.Over == t })
}

// MostSaved returns the most that v can save.
func (g *Problem) MostSaved(v int32) (most int64) {
	choices, more := g.Choices(v)
	for _, choice := range choices {
		most = max(most, Total(choice))
	}
	return most + more
}

// LeastLoad returns the load of v if nothing is live but what v reads.
func (g *Problem) LeastLoad(v int32) int64 {
	size := g.Transient[v] - g.MostSaved(v)
	for _, t := range g.Reads.Of(v) {
		size += g.Size[t]
	}
	return size
}

// Total returns the bytes of a choice of savings.
func Total(choice []Saving) (size int64) {
	for _, x := range choice {
		size += x.Size
	}
	return size
}

// WithoutSavings returns the problem as if no node saved anything; it shares the rest.
func (g *Problem) WithoutSavings() *Problem {
	h := *g
	h.Savings, h.SavingsAt = nil, nil
	return &h
}

// SetSavings says what v can save.
func (g *Problem) SetSavings(v int32, s Savings) {
	if g.SavingsAt == nil {
		g.SavingsAt = make([]int32, g.Nodes)
	}
	g.Savings = append(g.Savings, s)
	g.SavingsAt[v] = int32(len(g.Savings))
}

// NewSavings finds the choices of a node.
func (g *Problem) NewSavings(pairs []InPlacePair, credits []int32) Savings {
	s := Savings{Pairs: pairs, Credits: credits}
	matchings, ok := maximalMatchings(pairs)
	if !ok {
		if g.Matcher == nil {
			g.Matcher = match.New(len(g.Size))
		}
		s.Many, s.Most = true, g.Largest(pairs, func(int32) bool { return true })
		matchings = [][]InPlacePair{nil}
	}
	s.Choices = make([][]Saving, len(matchings))
	for i, m := range matchings {
		choice := make([]Saving, 0, len(m)+len(credits))
		for _, pair := range m {
			choice = append(choice, Saving{max(pair.Over, -1), pair.Size})
		}
		for _, t := range credits {
			choice = append(choice, Saving{t, g.Size[t]})
		}
		s.Choices[i] = choice
	}
	return s
}

// Largest returns the bytes of a largest matching of many pairs over tensors
// that count. None of many pairs is always given.
func (g *Problem) Largest(pairs []InPlacePair, counts func(t int32) bool) (size int64) {
	var free []match.Pair
	for _, pair := range pairs {
		if counts(pair.Over) {
			free = append(free, match.Pair{Result: pair.Result, Over: pair.Over})
		}
	}
	for _, pair := range g.Matcher.Largest(nil, free) {
		size += g.Size[pair.Over]
	}
	return size
}

// maximalMatchings returns all sets of pairs with no result and no tensor twice
// to which no pair can be added, or false if they are more than maxChoices.
func maximalMatchings(pairs []InPlacePair) (found [][]InPlacePair, ok bool) {
	if len(pairs) <= 1 {
		return [][]InPlacePair{pairs}, true
	}
	fits := func(m []InPlacePair, p InPlacePair) bool {
		return !slices.ContainsFunc(m, func(q InPlacePair) bool { return q.Result == p.Result || q.Over == p.Over })
	}
	results, overs := map[int32]int{}, map[int32]int{}
	for _, p := range pairs {
		results[p.Result]++
		overs[p.Over]++
	}
	visits := 0
	var grow func(i int, m []InPlacePair) bool
	grow = func(i int, m []InPlacePair) bool {
		if visits++; visits > 4096 || len(found) > maxChoices {
			return false
		}
		if i == len(pairs) {
			if !slices.ContainsFunc(pairs, func(p InPlacePair) bool { return fits(m, p) }) {
				found = append(found, slices.Clone(m))
			}
			return true
		}
		if fits(m, pairs[i]) && !grow(i+1, append(m, pairs[i])) {
			return false
		}
		if p := pairs[i]; results[p.Result] == 1 && overs[p.Over] == 1 {
			return true // it is in all of them: with aliases, a node has a pair for each part
		}
		return grow(i+1, m)
	}
	ok = grow(0, nil) && len(found) <= maxChoices
	return found, ok
}
