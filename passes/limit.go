package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/passes/internal/repeat"
)

// limit recomputes or swaps tensors if the best order exceeds the limit. Without slices, whose
// pass weighs all means, it chooses the limit that keeps to the extra time, and computes the
// frontier, if that is asked for.
func limit(ctx context.Context, s *State) error {
	asked := s.opt.Slices == SlicesOff && (s.opt.Limit != nil || s.opt.ExtraPercent > 0 || s.opt.Frontier)
	if s.less.Limit == nil && !asked {
		return nil
	}
	s.noteUnknownCosts()
	found, err := limits.Keep(ctx, s.task(), s.less.known, s.less.Choice, asked)
	if err != nil {
		return err
	}
	s.take(found.Trial)
	s.less.Choice, s.less.kept = found.Choice, found.Search
	if asked {
		s.less.frontier = found.Frontier
	}
	if found.Unshared {
		s.less.unshared = s.now.Main
	}
	if repeat.Swaps(s.now.Main) {
		return s.now.Model.AddSwaps()
	}
	return nil
}
