package ilp

import (
	"context"
	"fmt"
)

// Packing is a placement problem: rectangles whose steps are fixed get offsets, so that no
// two overlap and the largest end is small.
type Packing struct {
	Rectangles []Rectangle
	Most       int64 // no end is above it
	Least      int64 // a largest end below it is as good as it
}

// Rectangle is a buffer, in units: at the steps First to Last it takes Size units from its
// offset, which is between Lower and Upper and a multiple of Align.
type Rectangle struct {
	First, Last  int
	Size         int64
	Lower, Upper int64
	Align        int64
}

// Value returns the largest end, at least Least, or an error that names two rectangles that overlap, or one
// that is out of its bounds. It compares all pairs.
func (p *Packing) Value(offsets []int64) (end int64, err error) {
	if len(offsets) != len(p.Rectangles) {
		return 0, fmt.Errorf("expected %d offsets, found %d", len(p.Rectangles), len(offsets))
	}
	end = p.Least
	for i, r := range p.Rectangles {
		off := offsets[i]
		if off < r.Lower || off > r.Upper || off%r.Align != 0 {
			return 0, fmt.Errorf("rectangle %d: expected an offset of %d to %d, a multiple of %d, found %d", i, r.Lower, r.Upper, r.Align, off)
		}
		if end = max(end, off+r.Size); off+r.Size > p.Most {
			return 0, fmt.Errorf("rectangle %d: expected an end of at most %d, found %d", i, p.Most, off+r.Size)
		}
		for j, q := range p.Rectangles[:i] {
			if r.First <= q.Last && q.First <= r.Last && off < offsets[j]+q.Size && offsets[j] < off+r.Size {
				return 0, fmt.Errorf("rectangles %d and %d overlap", j, i)
			}
		}
	}
	return end, nil
}

// PackingSolver is a solver that has a constraint for rectangles that do not overlap.
type PackingSolver interface {
	Solver

	// SolvePacking looks for the smallest end. Values of its answer are the offsets. A bound
	// of the options is in Packing.Least.
	SolvePacking(ctx context.Context, p *Packing, opt Options) (Answer, error)
}

// SolvePacking is [Solve] for rectangles.
func SolvePacking(ctx context.Context, s PackingSolver, p *Packing, opt Options) (Result, error) {
	// The end of a solution may be below what the solver says of it.
	opt.Complete = func(offsets []int64) ([]int64, error) { return offsets, nil }
	q := *p
	if opt.Bound != nil {
		q.Least = max(q.Least, *opt.Bound)
	}
	return solve(ctx, s, opt, p.Value, func(ctx context.Context) (Answer, error) { return s.SolvePacking(ctx, &q, opt) })
}
