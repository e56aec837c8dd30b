package alloc

import (
	"cmp"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
)

// windowSizes are how many buffers a window frees, few first.
var windowSizes = [...]int{12, 24, 48, 96, 144, 192, 288}

// packWindows lets the solver lower the highest buffer of the best placement again and again.
// It may move that one and those nearest to it in time, more each time that it finds nothing
// lower. All others stay where they are. A placement gets better by it; a bound does not. It
// takes at most half of the solver's time, and one window an eighth of that.
func (v *solver) packWindows(s ilp.PackingSolver, opt ilp.Options) error {
	r := v.best.Solver
	until := time.Time{}
	if opt.TimeLimit > 0 {
		until = time.Now().Add(opt.TimeLimit / 2)
		opt.TimeLimit = max(opt.TimeLimit/16, time.Second)
	}
	for v.best.Arena > v.best.LowerBound {
		lower := false
		for _, free := range windowSizes {
			if v.all.Err() != nil || !until.IsZero() && time.Now().After(until) {
				return nil
			}
			w := v.window(free)
			began := time.Now()
			a, err := w.packRectangles(s, w.least, opt)
			r.Windows++
			r.Seconds += time.Since(began).Seconds()
			if err != nil {
				return err
			}
			if lower = a.result.Values != nil && v.takeWindow(w, a.placement); lower || len(w.ids) == len(v.p.Buffers) {
				break
			}
		}
		if !lower {
			return nil
		}
	}
	return nil
}

// window is the problem of some buffers of another one.
type window struct {
	solver
	ids   []int // buffer -> its index in the other one
	least int64 // bytes: a lower end gains nothing
}

// window frees some buffers around the highest one; the others of their steps are fixed.
// Below the highest end outside of it nothing is gained.
func (v *solver) window(free int) *window {
	p, at := &v.p, v.best.Offsets
	ids := p.placeable()
	end := func(i int) int64 { return at[i] + p.size(i) }
	top := slices.MaxFunc(ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(end(a), end(b)), cmp.Compare(b, a))
	})
	distance := func(i int) int {
		return max(0, p.Buffers[i].First-p.Buffers[top].Last, p.Buffers[top].First-p.Buffers[i].Last)
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
	moved := ids[:min(free, len(ids))]
	first, last := p.Buffers[top].First, p.Buffers[top].Last
	for _, i := range moved {
		first, last = min(first, p.Buffers[i].First), max(last, p.Buffers[i].Last)
	}
	w := &window{solver: solver{all: v.all, opt: v.opt}, ids: slices.Clone(moved)}
	for _, i := range moved {
		w.p.Buffers = append(w.p.Buffers, p.Buffers[i])
	}
	w.p.Alignment, w.least = p.Alignment, v.best.LowerBound
	for _, i := range ids[len(moved):] {
		b := p.Buffers[i]
		if b.Last < first || b.First > last {
			if e := end(i); e < v.best.Arena { // one as high is lowered later
				w.least = max(w.least, e)
			}
			continue
		}
		off := at[i]
		b.Fixed = &off
		w.p.Buffers, w.ids = append(w.p.Buffers, b), append(w.ids, i)
	}
	for _, i := range w.ids {
		w.best.Offsets = append(w.best.Offsets, at[i])
	}
	w.best.Arena, w.best.Strategy, w.best.Solver = v.best.Arena, v.best.Strategy, &SolverReport{}
	w.opt.Progress = nil
	return w
}

// takeWindow takes the placement of a window if that lowers the highest of its buffers.
func (v *solver) takeWindow(w *window, a Placement) bool {
	if a.Arena >= v.best.Arena {
		return false
	}
	all := Placement{Offsets: slices.Clone(v.best.Offsets)}
	for k, i := range w.ids {
		all.Offsets[i] = a.Offsets[k]
	}
	for i := range all.Offsets {
		all.Arena = max(all.Arena, all.Offsets[i]+v.p.size(i))
	}
	if all.Arena > v.best.Arena || v.p.CheckSweep(all) != nil {
		return false
	}
	v.best.Placement, v.best.Strategy = all, v.best.Solver.Name
	return true
}
