package limits

import (
	"context"
	"slices"
)

// slicesAlone returns the cheapest graph of the means that make graphs whose peak meets a
// limit without anything else; nil if none was found. A mean whose graphs lie inside of those
// above is not asked if these cost next to nothing.
//
// Each ladder is bisected, whose covers get dearer with the rung. The middle does not
// depend on the limit, so a larger limit never costs more: take the first rung at which
// the search for the larger limit turns to the cheaper half, and the other does not. Either
// the larger limit is met there, or it is met at no more cost already; the other search goes
// on with dearer covers.
func (w *weigher) slicesAlone(ctx context.Context, limit int64) (best *slicedModel, err error) {
	for _, m := range w.means {
		if m.moves == nil || best != nil && best.extra <= nextToNothing {
			continue
		}
		ladders, err := m.moves(w, ctx)
		if err != nil {
			return nil, err
		}
		if best, err = w.cheapest(ctx, ladders, limit, best); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// cheapest returns the cheapest model of some ladders whose peak meets a limit; best, if none
// is cheaper.
func (w *weigher) cheapest(ctx context.Context, ladders []*ladder, limit int64, best *slicedModel) (*slicedModel, error) {
	ladders = slices.Clone(ladders)
	for i := 0; i < len(ladders); i++ {
		l := ladders[i]
		if l.x.outer != nil && best != nil && l.x.outer.extra >= best.extra {
			continue
		}
		second, err := l.again(ctx)
		if err != nil {
			return nil, err
		}
		if second != nil {
			ladders = append(ladders, second)
		}
		for low, high := 0, l.rungs; low < high; {
			mid := (low + high) / 2
			c := l.at(ctx, mid)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if c.choices == nil || best != nil && c.extra >= best.extra {
				high = mid
				continue
			}
			m, err := l.x.model(ctx, c)
			if err != nil {
				return nil, err
			}
			w.sees(m)
			if m.peak > limit {
				low = mid + 1
				continue
			}
			high = mid
			if best == nil || m.extra < best.extra {
				best = m
			}
		}
	}
	return best, nil
}
