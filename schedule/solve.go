package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Options say how [Solve] looks for an order. The zero value is all strategies,
// with in-place pairs.
type Options struct {
	Strategy string          // run this one alone; empty: all
	NoPairs  bool            // as if no tensor could be written over another
	Context  context.Context // ends the search between two strategies; nil: never
}

// Result is the best order found, and what is known about it.
type Result struct {
	Order      []int32
	Evaluation Evaluation
	Strategy   string // the strategy that found it
	Optimal    bool   // its peak is the lower bound

	Bound     int64 // bytes; the peak of no order is smaller: see LowerBound
	BoundNode int32 // the node that proves it, or -1

	ProgramOrder      []int32 // the order of the listing: see Program
	ProgramEvaluation Evaluation
	ProgramPeak       int64 // the peak of that
}

// Solve validates the problem, runs the strategies and keeps the order of the
// smallest peak. Of equal ones the first in [Strategies] is kept, so program
// order stays where nothing is gained by leaving it. It stops as soon as the
// peak is the lower bound. It fails if the problem is not valid, if no strategy
// has the name asked for, or with the context's error. O(E log V).
func Solve(p *Problem, opt Options) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	tried, err := named(opt.Strategy)
	if err != nil {
		return nil, err
	}
	if opt.NoPairs {
		p = p.withoutPairs()
	}
	f := flatten(p)
	r := &Result{ProgramOrder: Program(p)}
	r.Bound, r.BoundNode = LowerBound(p)
	r.ProgramEvaluation = f.evaluate(r.ProgramOrder, AllPairs)
	r.ProgramPeak = r.ProgramEvaluation.Peak
	for _, s := range tried {
		if err := canceled(opt.Context); err != nil {
			return nil, err
		}
		order := s.Func(p)
		e := f.evaluate(order, AllPairs)
		if r.Strategy == "" || e.Peak < r.Evaluation.Peak {
			r.Order, r.Evaluation, r.Strategy = order, e, s.Name
		}
		if r.Optimal = r.Evaluation.Peak == r.Bound; r.Optimal {
			break
		}
	}
	return r, nil
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

// withoutPairs returns the problem with no tensor written over another.
func (p *Problem) withoutPairs() *Problem {
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	for t := range q.Tensors {
		q.Tensors[t].Reuses = nil
	}
	return &q
}

func canceled(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return context.Cause(ctx)
}
