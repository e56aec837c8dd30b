package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/passes/internal/repeat"
)

// recast runs casts again, if that makes the peak of the best order smaller. Beside a limit, the search
// for it has decided what runs again; pools, ranges and a runtime have the graph as it is.
func recast(ctx context.Context, s *State) error {
	if s.opt.Limit != nil || s.opt.ExtraPercent > 0 || s.less.Limit != nil || s.less.kept != nil {
		return nil
	}
	found, err := limits.Recast(ctx, s.task())
	if err != nil || found == nil {
		return err
	}
	s.take(found.Trial)
	s.less.kept = found.Search
	return nil
}

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
