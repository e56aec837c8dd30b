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
	if s.choice.Limit == nil && !asked {
		return nil
	}
	s.noteUnknownCosts()
	found, err := limits.Keep(ctx, s.task(), s.known, s.choice, asked)
	if err != nil {
		return err
	}
	s.take(found.Trial)
	s.choice, s.kept = found.Choice, found.Search
	if asked {
		s.frontier = found.Frontier
	}
	if found.Unshared {
		s.unshared = s.main
	}
	if repeat.Swaps(s.main) {
		return s.model.AddSwaps()
	}
	return nil
}
