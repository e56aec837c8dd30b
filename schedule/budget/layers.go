package budget

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget/internal/copies"
)

// fewer is the problem of a solver with fewer copies of the stretch that repeats, as of a network with fewer layers.
// Its solver has the same lines, without the nodes that are left out.
type fewer struct {
	*copies.Fewer
	small *Solver
	as    [2][]int32 // copy of the whole problem -> that of the smaller one that it is like, in two ways
}

const (
	keptCopies = 6  // of the smaller problem
	smallPart  = 6  // the part of a search's work that the search of the smaller problem has
	fastPart   = 8  // the part of that for one limit at fast effort
	lowLimits  = 40 // per cent of the best peak, see fewer.limits
)

// newFewer returns the smaller problem, or nil if there is none. It is not for searches that know more of a problem
// than its nodes say.
func (s *Solver) newFewer() *fewer {
	if s.copies == nil || s.opt.NoBound || s.copies.Count < 2*keptCopies {
		return nil
	}
	f := s.copies.Without(s.p, keptCopies/2, s.copies.Count-keptCopies)
	if f == nil {
		return nil
	}
	opt := Options{Effort: s.opt.Effort, NoBound: true, KeepOrders: true, Part: s.sharedBy * smallPart, without: s.opt.without}
	if s.opt.Effort == schedule.EffortFast {
		opt.Effort, opt.Part = schedule.EffortDefault, opt.Part*fastPart
	}
	for i, v := range f.Nodes {
		f.Problem.Nodes[i].Cost = s.costs[v]
		if s.opt.Final != nil {
			opt.Final = append(opt.Final, s.rules.isFinal(v))
		}
	}
	var orders [][]int32
	for _, l := range s.lines {
		orders = append(orders, f.Order(l.order))
	}
	small, err := New(f.Problem, orders, opt)
	if err != nil {
		return nil
	}
	return &fewer{Fewer: f, small: small, as: [2][]int32{f.Stretched(), f.Repeated()}}
}

// limits returns limits of the smaller problem for those of the whole one, descending. Each copy may hold the same part
// of a limit, less what does not grow with their number: either what that is in the plain step, or for low limits
// what every plan holds at some step.
func (f *fewer) limits(s *Solver, grid []int64) (list []int64) {
	n := int64(s.copies.Count)
	each := (s.best - f.small.best) / (n - keptCopies)
	for _, limit := range grid {
		fixed := []int64{s.best - n*each, s.bound.least()}
		if limit > s.best/100*lowLimits {
			fixed = fixed[:1]
		}
		for _, x := range fixed {
			if x += (limit - x) / n * keptCopies; x > 0 && x < f.small.best {
				list = append(list, x)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	slices.Reverse(list)
	return list
}

// lift returns the plan that does in each copy what a plan of the smaller problem does in the copy that it is like.
func (f *fewer) lift(plan recomputeSet, from, to *line, as []int32) (set recomputeSet) {
	step, buffer := make([]int32, len(to.order)), map[int32]int32{}
	for i, v := range to.order {
		step[v] = int32(i)
	}
	for b, t := range to.tensor {
		buffer[t] = int32(b)
	}
	for _, m := range plan {
		f.Lift(from.order[m.slot()], from.tensor[m.buffer()], as, func(v, t int32) {
			b, ok := buffer[t]
			if slot := step[v]; ok && to.maker[b] >= 0 && to.maker[b] < slot && slot <= to.until[b] {
				set = append(set, newRecompute(slot, b))
			}
		})
	}
	slices.Sort(set)
	return slices.Compact(set)
}
