package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// swapProblem is a problem with a set of swaps as nodes; see [SwapPlan].Problem.
type swapProblem struct {
	set     []swap
	tensors []int32 // swap -> its tensor
	problem *schedule.Problem
	order   []int32
	peak    int64 // of order, bytes
	waiting int64 // nanoseconds that steps wait for transfers
}

// withTransfers returns the problem with a set of swaps as nodes, and the order in which
// everything runs under a limit. Between two steps, swaps out come before swaps in.
func (h *lineSwapper) withTransfers(w *work, set []swap, limit int64) swapProblem {
	t, _ := h.simulate(w, set, limit)
	p := h.problem
	x := swapProblem{set: set, waiting: t.end - h.begin[len(h.order)]}
	nodes, tensors := int32(len(p.Nodes)), int32(len(p.Tensors))
	q := *p
	q.Nodes, q.Tensors = slices.Clone(p.Nodes), slices.Clone(p.Tensors)
	step := make([]int32, nodes)
	for i, v := range h.order {
		step[v] = int32(i)
		q.Nodes[v].Cost = h.cost[i]
	}
	outs, ins := queues(set)
	for i := range int32(len(h.order)) {
		for ; len(outs) > 0 && t.away[outs[0]] < i; outs = outs[1:] {
			x.order = append(x.order, nodes+2*outs[0])
		}
		for ; len(ins) > 0 && t.returns[ins[0]] == i; ins = ins[1:] {
			x.order = append(x.order, nodes+2*ins[0]+1)
		}
		x.order = append(x.order, h.order[i])
	}
	swapped := map[int32]swap{}   // tensor -> its swap
	returned := map[int32]int32{} // tensor -> the tensor that replaces it once it is back
	for k, s := range set {
		t := h.tensor[s.buffer]
		x.tensors = append(x.tensors, t)
		swapped[t], returned[t] = s, tensors+2*int32(k)+1
		q.Nodes = append(q.Nodes,
			schedule.Node{Name: p.Tensors[t].Name + ".out", Op: OpSwapOut, Once: true},
			schedule.Node{Name: p.Tensors[t].Name + ".in", Op: OpSwapIn, Once: true})
		var early, late []int32
		for _, v := range p.Tensors[t].Consumers {
			if step[v] < s.to {
				early = append(early, v)
			} else {
				late = append(late, v)
			}
		}
		out, in := nodes+2*int32(k), nodes+2*int32(k)+1
		q.Tensors[t].Consumers = append(early, out)
		q.Tensors = append(q.Tensors,
			schedule.Tensor{Name: p.Tensors[t].Name + ".host", Producer: out, Consumers: []int32{in}},
			schedule.Tensor{Name: p.Tensors[t].Name + ".back", Bytes: s.size, Producer: in, Consumers: late, Kind: p.Tensors[t].Kind})
	}
	// Nodes that run after the swap in use the tensor that it made.
	rename := func(list []int32, at int32) []int32 {
		list = slices.Clone(list)
		for i, t := range list {
			if s, ok := swapped[t]; ok && at >= s.to {
				list[i] = returned[t]
			}
		}
		return list
	}
	for v := range nodes {
		q.Nodes[v].Args = rename(q.Nodes[v].Args, step[v])
		q.Nodes[v].Writes = rename(q.Nodes[v].Writes, step[v])
	}
	for t := range tensors {
		if v := q.Tensors[t].Producer; v >= 0 {
			q.Tensors[t].Reuses = rename(q.Tensors[t].Reuses, step[v])
		}
	}
	x.problem = &q
	e, err := q.Evaluate(x.order)
	if err != nil {
		panic("swap: " + err.Error())
	}
	x.peak = e.Peak
	return x
}

// swaps returns the swaps with their positions in steps.
func (x *swapProblem) swaps(steps []int) []Swap {
	nodes := len(x.problem.Nodes) - 2*len(x.set)
	swaps := make([]Swap, len(x.set))
	for k, s := range x.set {
		swaps[k] = Swap{Tensor: x.tensors[k], Bytes: s.size}
	}
	for i, v := range steps {
		if k := v - nodes; k >= 0 && k%2 == 0 {
			swaps[k/2].Out = i
		} else if k >= 0 {
			swaps[k/2].In = i
		}
	}
	return swaps
}

// combined is a solver for recomputation on a problem in which some tensors are also
// swapped out and in, with transfers hidden behind the computation.
type combined struct {
	swapProblem
	solver *Solver
}

// shares are the parts of the bytes that the link can carry before the peak; one combined
// problem is built for each.
var shares = []float64{0.25, 0.5, 0.75, 1}

// combinedProblems returns problems in which the tensors that are most expensive per byte
// to recompute are swapped out: results of convolutions and matrix products rather than
// of normalizations and activations. A solver then recomputes the others. Tensors are
// added as long as no step waits and all are gone before the peak. Repeated runs only
// lengthen the step, so transfers that are hidden in the plain step stay hidden. The
// limits are those of the plain problem's grid.
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

// hiddenWork bounds the simulations for one share; at fast effort a fifth of it does.
const hiddenWork = 10_000_000

// hiddenSwaps returns a set of swaps that cost almost no time. It tries the candidates in
// the given order and adds those with which the step ends by latest, all swapped buffers
// are gone before the peak, and their bytes sum to at most room. After a success it tries
// twice as many candidates at once, after a failure single ones. most bounds the work.
func (h *lineSwapper) hiddenSwaps(w *work, order []candidateSwap, room float64, latest, most int64) (set []swap) {
	until := w.done + most
	for batch := 1; len(order) > 0 && w.done < until && !w.halted(); {
		try, rest := slices.Clone(set), room
		n := 0
		for ; n < len(order) && len(try) < len(set)+batch; n++ {
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
			batch *= 2
		case batch > 1:
			batch = 1
		default:
			order = order[n:]
		}
	}
	return set
}
