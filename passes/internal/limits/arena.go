package limits

import (
	"context"
	"errors"
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/repeat"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// keeping returns the cheapest way found to keep a limit; nil if none was found. Of a limit on the
// arena, the ways to lower and lower peaks are carried out, as the passes behind would, until the
// arena of one fits. If none does, it is the first, which these passes may still change.
func (w *weigher) keeping(ctx context.Context, limit *Limit) (*way, error) {
	first, err := w.at(ctx, limit.Bytes)
	if err != nil || first == nil || !limit.Arena || len(w.s.Rules.Pools) > 0 {
		return first, err
	}
	found := first
	for tries := 1; tries <= limitTries; tries++ {
		arena, err := w.arenaOf(ctx, found)
		if err != nil {
			return nil, err
		}
		if arena <= limit.Bytes {
			return found, nil
		}
		above := found.limit
		target := min(above-1, int64(float64(limit.Bytes)*float64(above)/float64(arena)))
		if tries == limitTries-1 {
			target = min(target, max(w.lowest, 1))
		}
		if found, err = w.at(ctx, target); err == nil && found == nil && w.lowest > 0 && w.lowest < above {
			found, err = w.at(ctx, w.lowest)
		}
		if err != nil {
			return nil, err
		}
		if found == nil {
			break
		}
	}
	return first, nil
}

// arenaOf returns the arena of the plan of a way; the largest number if its peak is above the
// target.
func (w *weigher) arenaOf(ctx context.Context, x *way) (int64, error) {
	b := x.from
	switch {
	case b != nil:
		return w.arenaAgain(ctx, x)
	case x.sliced == nil:
		b = w.plain
	default:
		b = &Base{s: &w.s, sliced: x.sliced}
	}
	if err := b.order(ctx); err != nil {
		return 0, err
	}
	arena := int64(math.MaxInt64)
	var err error
	if b.Main.Loads.Peak <= x.limit {
		arena, err = b.Main.WouldTake(ctx, w.s.search().Silent())
	}
	if b == w.plain && w.shared != nil && w.shared.Loads.Peak <= x.limit {
		arena = min(arena, w.shared.Arena)
	}
	return arena, err
}

// arenaAgain is that of a way in which nodes run again or tensors are swapped.
func (w *weigher) arenaAgain(ctx context.Context, x *way) (int64, error) {
	b, how := x.from, w.s.search().Silent()
	search, err := b.searched()
	if err != nil {
		return 0, err
	}
	within, end := how.Context(ctx)
	p := search.cheapest(within, x.limit)
	end()
	if p.Feasible != budget.Found {
		return 0, errors.New("internal error: a way without a plan")
	}
	rep, swaps := repeat.New(b.Main, search.Costs), search.tensors(p)
	how.Fixed, how.FixedBodies = len(swaps) > 0 || how.Strategy != "", true
	t, err := rep.Turned(ctx, &b.Trial, p.Steps, swaps, how, nil)
	if err != nil {
		return 0, err
	}
	if t.Main.Loads.Peak > x.limit {
		return math.MaxInt64, nil
	}
	return t.Main.WouldTake(ctx, how)
}
