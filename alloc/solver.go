package alloc

import (
	"errors"
	"fmt"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
)

// SolverReport is what [Options.Solver] did.
type SolverReport struct {
	Name, Version string
	Status        ilp.Status // Optimal: no arena is smaller, it says; Feasible: it does not say so; Unknown: it was not asked
	Bound         int64      // bytes: it says that no arena is smaller, or that is proven; 0: neither
	Seconds       float64
	Windows       int    // problems of some buffers that it worked on: those can improve a placement, and prove nothing
	Whole         bool   // it did not know of our bound
	Why           string // why it does not say more; may be empty
}

// maxPairs is the most pairs of buffers that are live together in a linear program: each is
// a column and two rows. CP-SAT has a constraint for rectangles and takes more.
const (
	maxPairs      = 20_000
	maxRectangles = 5_000
)

// ask lets the solver of the options work on the problem from the best placement. If that is
// proven optimal, the solver is not told the bound, so that it proves its own.
func (v *solver) ask() error {
	name, version := v.opt.Solver.Identity()
	r := &SolverReport{Name: name, Version: version, Status: ilp.Unknown, Whole: v.best.Arena == v.best.LowerBound}
	v.best.Solver = r
	packer, rectangles := v.opt.Solver.(ilp.PackingSolver)
	rectangles = rectangles && !v.p.hasGaps() // a rectangle has none
	buffers, pairs := len(v.p.placeable()), v.p.pairsTogether(false)
	switch {
	case v.best.Strategy == "":
		r.Why = "there is no placement to begin with"
	case buffers == 0:
		r.Why = "there is nothing to place"
	case rectangles && buffers > maxRectangles:
		r.Why = fmt.Sprintf("%d buffers are too many, expected at most %d", buffers, maxRectangles)
	case !rectangles && pairs > maxPairs:
		r.Why = fmt.Sprintf("%d pairs of buffers are too many, expected at most %d", pairs, maxPairs)
	case v.all.Err() != nil:
		r.Why = "no time was left"
	}
	if r.Why != "" {
		return nil
	}
	opt := ilp.Options{Threads: v.opt.Threads, TimeLimit: v.opt.SolverTime}
	var a answer
	began := time.Now()
	var err error
	if rectangles && !r.Whole {
		err = v.packWindows(packer, opt)
	}
	if opt.TimeLimit > 0 {
		opt.TimeLimit = max(opt.TimeLimit-time.Since(began), time.Millisecond)
	}
	switch {
	case err != nil || !r.Whole && v.best.Arena == v.best.LowerBound:
	case rectangles:
		a, err = v.packRectangles(packer, 0, opt)
	default:
		a, err = v.packProgram(opt)
	}
	if errors.Is(err, ilp.ErrLost) { // what we have stays as good as it is
		r.Status, r.Why = ilp.Feasible, errors.Unwrap(err).Error()
		return nil
	}
	if err != nil {
		return err
	}
	r.Seconds += a.result.Seconds
	return v.takeAnswer(r, a)
}

// answer is what a solver returned, in units.
type answer struct {
	result    ilp.Result
	unit      int64
	placement Placement // if the result has values
}

// options completes the options for a solver that works in units.
func (v *solver) options(opt ilp.Options, unit int64) ilp.Options {
	if !v.best.Solver.Whole {
		bound := (v.best.LowerBound + unit - 1) / unit
		opt.Bound = &bound
	}
	if tell := v.opt.Progress; tell != nil {
		opt.Progress = func(x ilp.Progress) {
			bound, arena := v.best.LowerBound, v.best.Arena
			if x.Bound != nil {
				bound = max(bound, *x.Bound*unit)
			}
			if x.Value != nil {
				arena = min(arena, *x.Value*unit)
			}
			tell(bound, arena)
		}
	}
	return opt
}

// packRectangles uses a solver's constraint for rectangles. An arena below least is as good
// as least.
func (v *solver) packRectangles(s ilp.PackingSolver, least int64, opt ilp.Options) (a answer, err error) {
	k, unit := v.p.packing(v.best.Placement)
	k.Least = least / unit
	opt = v.options(opt, unit)
	ids := v.p.placeable()
	for _, i := range ids {
		opt.Start = append(opt.Start, v.best.Offsets[i]/unit)
	}
	a.unit = unit
	a.result, err = ilp.SolvePacking(v.all, s, k, opt)
	if err != nil || a.result.Values == nil {
		return a, err
	}
	a.placement.Offsets = make([]int64, len(v.p.Buffers))
	for k, i := range ids {
		a.placement.Offsets[i] = a.result.Values[k] * unit
		a.placement.Arena = max(a.placement.Arena, a.placement.Offsets[i]+v.p.size(i))
	}
	return a, nil
}

// packProgram uses OLLA's program for offsets.
func (v *solver) packProgram(opt ilp.Options) (a answer, err error) {
	g, err := v.p.ILP(ILPOptions{UpperBound: v.best.Arena, NoLoads: v.best.Solver.Whole})
	if err != nil {
		return a, err
	}
	opt = v.options(opt, g.Unit)
	if opt.Start, err = g.Encode(v.best.Placement); err != nil {
		return a, err
	}
	opt.Complete = func(x []int64) ([]int64, error) {
		p, err := g.Decode(x)
		if err != nil {
			return nil, err
		}
		return g.Encode(p)
	}
	a.unit = g.Unit
	a.result, err = ilp.Solve(v.all, v.opt.Solver, &g.Program, opt)
	if err != nil || a.result.Values == nil {
		return a, err
	}
	a.placement, err = g.Decode(a.result.Values)
	return a, err
}

// takeAnswer takes the placement and the bound of a solver.
func (v *solver) takeAnswer(r *SolverReport, a answer) error {
	who := r.Name + " " + r.Version
	proven := v.best.LowerBound
	if a.result.Bound != nil {
		r.Bound = *a.result.Bound * a.unit
	}
	if a.result.Values != nil && a.placement.Arena < v.best.Arena {
		if err := v.p.CheckSweep(a.placement); err != nil {
			return &ilp.WrongError{Solver: who, What: err.Error()}
		}
		if a.placement.Arena < proven {
			return fmt.Errorf("internal error: %s finds an arena of %d bytes, below the proven bound of %d", who, a.placement.Arena, proven)
		}
		v.best.Placement, v.best.Strategy = a.placement, r.Name
	}
	if !r.Whole {
		r.Bound = max(r.Bound, proven)
	}
	if r.Bound > v.best.Arena {
		return &ilp.WrongError{Solver: who, What: fmt.Sprintf("it says that no arena is below %d bytes, and one has %d", r.Bound, v.best.Arena)}
	}
	if r.Bound > proven {
		v.best.LowerBound, v.best.ClaimedBy = r.Bound, who
	}
	if r.Status = ilp.Feasible; r.Bound == v.best.Arena {
		r.Status = ilp.Optimal
	} else {
		r.Why = "it did not finish"
	}
	return nil
}

// placeable lists the buffers of more than 0 bytes.
func (p Problem) placeable() (ids []int) {
	for i := range p.Buffers {
		if p.size(i) > 0 {
			ids = append(ids, i)
		}
	}
	return ids
}

// packing states the problem for a solver, in units of the greatest common divisor of all
// sizes, alignments and fixed offsets. Sections replace steps: see prepare.
func (p Problem) packing(a Placement) (k *ilp.Packing, unit int64) {
	s := prepare(p)
	for _, i := range s.ids {
		unit = gcd(unit, gcd(s.size[i], s.align[i]))
		if off := p.Buffers[i].Fixed; off != nil {
			unit = gcd(unit, *off)
		}
	}
	if unit == 0 {
		unit = 1
	}
	k = &ilp.Packing{Most: (a.Arena + unit - 1) / unit}
	for _, i := range s.ids {
		r := ilp.Rectangle{
			First: int(s.lo[i]), Last: int(s.hi[i]) - 1, Size: s.size[i] / unit,
			Align: s.align[i] / unit, Upper: k.Most - s.size[i]/unit,
		}
		if off := p.Buffers[i].Fixed; off != nil {
			r.Lower, r.Upper = *off/unit, *off/unit
		}
		k.Rectangles = append(k.Rectangles, r)
	}
	return k, unit
}
