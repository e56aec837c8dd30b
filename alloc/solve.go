package alloc

import (
	"context"
	"fmt"
	"strings"
)

// Options say how [Solve] looks for a placement. The zero value is all
// strategies.
type Options struct {
	Strategy string          // run this one alone; empty: all
	Context  context.Context // ends the search between two strategies; nil: never
}

// Result is the best placement found, and what is known about it.
type Result struct {
	Placement
	LowerBound int64  // bytes; no arena is smaller: see Problem.MaxLoad
	Optimal    bool   // the arena is the lower bound
	Strategy   string // the strategy that found it
}

// mostGaps is how many gaps a strategy may look at within Solve, about a second
// of work. Only tangled lifetimes of tens of thousands of buffers need more;
// [BestFit] has no such limit. 100,000 of them: 4 s, where each greedy strategy
// alone takes a minute (BenchmarkSolveTangled).
const mostGaps = 20_000_000

// Solve validates the problem, runs the strategies and keeps the smallest
// arena, of equal ones the first in [Strategies]. It stops as soon as the arena
// is the lower bound, and leaves out strategies that would take very long. It fails if the problem is not valid, if no strategy has
// the name asked for, or with the context's error.
func Solve(p Problem, opt Options) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	tried, err := named(opt.Strategy)
	if err != nil {
		return Result{}, err
	}
	best := Result{LowerBound: p.MaxLoad()}
	if opt.Strategy == "" {
		p.work = mostGaps
	}
	for _, s := range tried {
		if err := canceled(opt.Context); err != nil {
			return Result{}, err
		}
		a := s.Func(p)
		if a.Offsets == nil && len(p.Buffers) > 0 {
			continue
		}
		if best.Strategy == "" || a.Arena < best.Arena {
			best.Placement, best.Strategy = a, s.Name
		}
		if best.Optimal = best.Arena == best.LowerBound; best.Optimal {
			break
		}
	}
	return best, nil
}

// named returns the strategy of a name, or all of them for the empty name.
func named(name string) ([]Strategy, error) {
	if name == "" {
		return Strategies, nil
	}
	var names []string
	for _, s := range Strategies {
		if s.Name == name {
			return []Strategy{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("strategy %q: unknown: expected one of %s", name, strings.Join(names, ", "))
}

func canceled(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return context.Cause(ctx)
}
