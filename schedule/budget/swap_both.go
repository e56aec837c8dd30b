package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// combined is a solver for recomputation on a problem in which some tensors are also
// swapped out and in, with transfers hidden behind the computation.
type combined struct {
	swapProblem
	solver *Solver
}

// shares are how much of what the link carries up to the peak is used.
var shares = []float64{0.25, 0.5, 0.75, 1}

// combinedProblems returns problems in which the tensors that are most expensive per
// byte to recompute are swapped out, so that the rest can be recomputed
// (convolutions and matrix products before normalizations and activations), as
// long as nothing waits and all are away before the peak. Repetitions only
// lengthen the step, so that transfers planned for the plain step stay hidden.
// The limits are of the grid of the plain problem.
func (h *lineSwapper) combinedProblems(w *work, plain *Solver) (all []combined) {
	most := h.begin[len(h.order)]
	most += most / 2000
	order := slices.Clone(h.choices)
	slices.SortStableFunc(order, func(a, b candidateSwap) int {
		return cmp.Compare(float64(b.recomputeCost)/float64(b.size), float64(a.recomputeCost)/float64(a.size))
	})
	work := int64(hiddenWork)
	if plain.opt.Effort == schedule.EffortFast {
		work /= 5
	}
	for _, share := range shares {
		room := share * float64(h.link) / 1e9 * float64(h.begin[h.at])
		set := h.hiddenSwaps(w, order, room, most, work)
		if len(set) == 0 || len(all) > 0 && slices.Equal(set, all[len(all)-1].set) {
			continue
		}
		x := h.withTransfers(w, set, math.MaxInt64)
		solver, err := New(x.problem, [][]int32{x.order}, plain.opt)
		if err != nil {
			panic("swap: " + err.Error())
		}
		solver.best, solver.sharedBy = plain.best, int64(len(shares))
		l := solver.lines[0]
		l.swapsOut = make([]bool, len(l.order))
		for i, v := range l.order {
			// A tensor recomputed only to be swapped out would be swapped out too late.
			l.swapsOut[i] = x.problem.Nodes[v].Op == OpSwapOut && int(v) >= len(h.problem.Nodes)
		}
		all = append(all, combined{x, solver})
	}
	return all
}

// unseenWork is for the simulations of one share; a fifth at fast effort.
const hiddenWork = 10_000_000

// hiddenSwaps takes candidates in an order as long as the step ends by a time, all
// have left before the peak, and their bytes are at most so many. It tries
// several at once where that works.
func (h *lineSwapper) hiddenSwaps(w *work, order []candidateSwap, room float64, latest, most int64) (set []swap) {
	until := w.done + most
	for several := 1; len(order) > 0 && w.done < until && !w.halted(); {
		try, rest := slices.Clone(set), room
		n := 0
		for ; n < len(order) && len(try) < len(set)+several; n++ {
			if x := order[n].swap; float64(x.size) <= rest {
				try, rest = append(try, x), rest-float64(x.size)
			}
		}
		if len(try) == len(set) {
			break
		}
		t, _ := h.simulate(w, try, math.MaxInt64)
		switch {
		case t.end <= latest && slices.Max(t.away) < h.at:
			set, room, order = try, rest, order[n:]
			several *= 2
		case several > 1:
			several = 1
		default:
			order = order[n:]
		}
	}
	return set
}
