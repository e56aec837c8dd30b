package budget

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// leastSwap is the least size in bytes of a buffer that may be swapped.
const leastSwap = 1 << 20

// score is one of AutoSwap's scores of a candidate; candidates are ranked by a weighted
// sum of them.
type score int

const (
	byAbsence   score = iota // DOA: how long it can be absent, without its two transfers
	byArea                   // AOA: that times its size (divided by its size if negative)
	byLoad                   // WDOA: the load integrated over its absence
	byFreshLoad              // SWDOA: the same, with the load that the chosen ones leave
	scores
)

// weights has one weight for each score.
type weights [scores]float64

// candidateSwap is a swap of a buffer that is live across the peak and not used there.
type candidateSwap struct {
	swap
	score         [byFreshLoad]float64 // standardized
	recomputeCost int64                // nanoseconds to recompute it; math.MaxInt64: impossible
}

// newLineSwapper sweeps the plain step and lists the candidates of at least leastSwap
// bytes. If the problem does not say what its nodes overwrite, buffers that may be
// overwritten are never swapped.
func newLineSwapper(p *schedule.Problem, l *line, r *rules, opt SwapOptions) *lineSwapper {
	n := len(l.order)
	h := &lineSwapper{line: l, problem: p, link: opt.Link, across: make([]int64, n+1), begin: make([]int64, n+1)}
	s := newSweep(l, &work{})
	s.limit = math.MaxInt64
	s.run(nil, true)
	h.load, h.peak, h.at = slices.Clone(s.load), s.peak, s.at
	integral := make([]float64, n+1)
	for i, cost := range l.cost {
		h.begin[i+1] = h.begin[i] + cost
		integral[i+1] = integral[i] + float64(h.load[i])*float64(cost)
	}
	room := math.MaxInt64 - totalBytes(p) // for a second copy of each, without an overflow
	for b, size := range l.size {
		h.spread(s, int32(b))
		if size < leastSwap || size > room || l.output[b] || !r.known && len(r.writers[l.tensor[b]]) > 0 ||
			opt.Stays != nil && opt.Stays[l.tensor[b]] {
			continue
		}
		before, after := s.around(int32(b), newMoment(h.at, h.at))
		if before < 0 && l.maker[b] < 0 {
			before = 0 // an input goes out once the first node has run
		}
		x := swap{int32(b), before.moment().slot(), after.moment().slot(), size, h.duration(size)}
		if before < 0 || after < 0 || x.to == h.at || x.from >= h.at {
			continue
		}
		room -= size
		c := candidateSwap{swap: x, recomputeCost: math.MaxInt64}
		if l.until[b] >= x.to {
			c.recomputeCost = 0
			l.unit(x.buffer, x.to, func(i int32) { c.recomputeCost += l.cost[i] })
		}
		away := float64(h.begin[x.to] - h.begin[x.from+1] - 2*x.time)
		c.score[byAbsence], c.score[byArea] = away, away*float64(size)
		if away < 0 {
			c.score[byArea] = away / float64(size)
		}
		c.score[byLoad] = integral[x.to] - integral[x.from+1]
		h.choices = append(h.choices, c)
	}
	column := make([]float64, len(h.choices))
	for k := range byFreshLoad {
		for i := range h.choices {
			column[i] = h.choices[i].score[k]
		}
		standardize(column)
		for i := range h.choices {
			h.choices[i].score[k] = column[i]
		}
	}
	return h
}

// totalBytes returns the sum of the sizes of all tensors and workspaces.
func totalBytes(p *schedule.Problem) (sum int64) {
	for i := range p.Nodes {
		sum += p.Nodes[i].Workspace
	}
	for i := range p.Tensors {
		sum += p.Tensors[i].Bytes
	}
	return sum
}

// spread adds the size of a buffer to the gaps that it is live across.
func (h *lineSwapper) spread(s *sweep, b int32) {
	events := s.events[b]
	first, last := h.maker[b], int32(0)
	if len(events) > 0 {
		last = events[len(events)-1].moment().slot()
	}
	if h.output[b] {
		last = int32(len(h.order)) - 1
	}
	for i := max(first, 0) + 1; i <= last; i++ {
		h.across[i] += h.size[b]
	}
}

// standardize scales a column to mean 0 and standard deviation 1.
func standardize(column []float64) {
	var mean, square float64
	for _, x := range column {
		mean += x
	}
	mean /= float64(len(column))
	for _, x := range column {
		square += (x - mean) * (x - mean)
	}
	deviation := math.Sqrt(square/float64(len(column))) + 1e-30
	for i := range column {
		column[i] = (column[i] - mean) / deviation
	}
}

// choose takes candidates by their weighted scores, best first, until the load without
// them is within the limit; ties fall to the smaller buffer. ok is false if all of them
// do not suffice, or if the work is spent. O(chosen x steps); with a weight for
// byFreshLoad, O(chosen x (steps + candidates)).
func (h *lineSwapper) choose(w *work, by weights, limit int64) (set []swap, ok bool) {
	load := slices.Clone(h.load)
	type scored struct {
		swap
		sum float64
	}
	left := make([]scored, len(h.choices))
	for i, c := range h.choices {
		left[i].swap = c.swap
		for k, x := range c.score {
			left[i].sum += by[k] * x
		}
	}
	slices.SortStableFunc(left, func(a, b scored) int { return cmp.Compare(b.sum, a.sum) })
	integral, fresh := make([]float64, len(load)+1), make([]float64, len(left))
	for slices.Max(load) > limit {
		if len(left) == 0 || w.halted() || w.done > mostSwapWork {
			return set, false
		}
		best := 0
		if by[byFreshLoad] != 0 {
			w.count((len(load) + len(left)) / 16)
			for i, x := range load {
				integral[i+1] = integral[i] + float64(x)*float64(h.cost[i])
			}
			fresh = fresh[:len(left)]
			for i := range left {
				fresh[i] = integral[left[i].to] - integral[left[i].from+1]
			}
			standardize(fresh)
			most := math.Inf(-1)
			for i := range left {
				if sum := left[i].sum + by[byFreshLoad]*fresh[i]; sum > most {
					best, most = i, sum
				}
			}
		}
		w.count(len(load) / 64)
		x := left[best].swap
		left = slices.Delete(left, best, best+1)
		set = append(set, x)
		for i := x.from + 1; i < x.to; i++ {
			load[i] -= x.size
		}
	}
	return set, true
}

const (
	// draws and exchanges are the numbers of weights and of exchanges that are tried for
	// one limit at default effort.
	draws     = 60
	exchanges = 180

	// swapWork bounds the work on the draws and exchanges of one limit. It takes effect
	// above a few thousand nodes; smaller graphs get all of them.
	swapWork     = 3_000_000
	mostSwapWork = 1_000_000_000 // bounds the work of one call for all limits
)

// swapping is a set of swaps and the time of the step with them.
type swapping struct {
	set []swap
	end int64
}

// autoSwap looks for a set of swaps with which the step is shortest under a limit, as
// AutoSwap does. It ranks the candidates by each score alone, then by weighted sums of the
// scores, and finally exchanges some swaps. It returns the end of the step for each score
// alone, the best set after the second stage, and the best set of all; an end of
// math.MaxInt64 means that no set was found.
//
// The paper searches for the weights by Bayesian optimization. Here the second half of
// the draws is drawn around the best weights so far, which serves the same purpose.
func (h *lineSwapper) autoSwap(w *work, limit int64, draws, exchanges int, draw *rand.Rand) (alone [scores]int64, searched, exchanged swapping) {
	most := w.done + swapWork
	best := swapping{end: math.MaxInt64}
	try := func(set []swap) int64 {
		t, ok := h.simulate(w, set, limit)
		if !ok {
			return math.MaxInt64
		}
		if t.end < best.end {
			best = swapping{set, t.end}
		}
		return t.end
	}
	var center weights
	for k := range scores {
		alone[k] = math.MaxInt64
		if w.leavesOut(fmt.Sprint("score ", k+1)) {
			continue
		}
		by := weights{}
		by[k] = 1
		if set, ok := h.choose(w, by, limit); ok {
			was := best.end
			if alone[k] = try(set); alone[k] < was {
				center = by
			}
		}
	}
	plain := h.begin[len(h.order)]
	done := func() bool { return best.end <= plain || w.halted() || w.done > most }
	for i := range draws {
		if done() || w.leavesOut("weights") {
			break
		}
		var by weights
		for k := range by {
			if i < draws/2 {
				by[k] = 2*draw.Float64() - 1
			} else {
				by[k] = max(-1, min(1, center[k]+0.3*draw.NormFloat64()))
			}
		}
		if set, ok := h.choose(w, by, limit); ok {
			if was := best.end; try(set) < was {
				center = by
			}
		}
	}
	searched = best
	for range exchanges {
		if done() || best.end == math.MaxInt64 || w.leavesOut("exchanges") {
			break
		}
		set := slices.Clone(best.set)
		for range 1 + draw.IntN(3) {
			if len(set) > 0 {
				k := draw.IntN(len(set))
				set = slices.Delete(set, k, k+1)
			}
		}
		for range draw.IntN(4) {
			x := h.choices[draw.IntN(len(h.choices))].swap
			if !slices.ContainsFunc(set, func(y swap) bool { return y.buffer == x.buffer }) {
				set = append(set, x)
			}
		}
		try(set)
	}
	return alone, searched, best
}

// swapOnly returns the plan that autoSwap finds for a limit, or none.
func (h *lineSwapper) swapOnly(w *work, limit int64, seed uint64, effort int) []swapProblem {
	if len(h.choices) == 0 {
		return nil
	}
	_, _, best := h.autoSwap(w, limit, effort*draws, effort*exchanges, rand.New(rand.NewPCG(seed, 2)))
	if best.end == math.MaxInt64 {
		return nil
	}
	x := h.withTransfers(w, best.set, limit)
	if x.peak > limit {
		return nil
	}
	return []swapProblem{x}
}
