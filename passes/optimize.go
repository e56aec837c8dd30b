package passes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/plan"
)

// Result is a planned model.
type Result struct {
	Model *graph.Model   // the model that was given, or its training graph: its nodes in the planned order and annotated
	Step  *autodiff.Step // what is to be known of the training graph; nil without Options.Train
	// Plan lacks what is known only once the model is a file: Plan.Model. It is nil
	// if Options.Passes lacks the pass annotate.
	Plan     *plan.Plan
	Warnings []string
	Times    map[string]time.Duration // of each pass
}

// Optimize plans the memory of a model: it puts the nodes of m into an order of
// small peak, gives every tensor a place, and writes these into the nodes'
// metadata. m is changed; it must not be used when Optimize fails. Errors about
// the model are of type [*graph.Error], those about opt of type [*OptionError].
// When ctx ends, Optimize fails with its cause.
func Optimize(ctx context.Context, m *graph.Model, opt Options) (_ *Result, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s, err := newState(m, opt)
	if err != nil {
		return nil, err
	}
	times, err := s.run(ctx, s.opt.passes())
	if err = mapped.Unchanged(m.Source, err); err != nil {
		return nil, err
	}
	r := &Result{Model: s.model, Step: s.step, Plan: s.plan, Times: times}
	if s.inference != nil {
		r.Warnings = slices.Clip(s.inference.Warnings)
	}
	if r.Warnings = append(r.Warnings, s.notes...); s.late {
		r.Warnings = append(r.Warnings, fmt.Sprintf("time limit of %v: the best plan so far", opt.TimeLimit))
	}
	return r, nil
}

// run runs passes, and times each. After one that changed the graph, those
// before it whose results follow from the graph run again.
func (s *State) run(ctx context.Context, list []Pass) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for k, p := range list {
		if err := s.pass(ctx, p, times); err != nil {
			return nil, s.named(err)
		}
		if !s.stale {
			continue
		}
		if s.ordered() {
			return nil, fmt.Errorf("pass %q changed the graph after its nodes were ordered: expected it before pass \"order\"", p.Name)
		}
		s.forget()
		for _, again := range list[:k] {
			if !again.Rerun {
				continue
			}
			if err := s.pass(ctx, again, times); err != nil {
				return nil, s.named(err)
			}
			if s.stale {
				return nil, fmt.Errorf("pass %q, which runs again when the graph has changed, changed it: expected it to compute alone", again.Name)
			}
		}
	}
	return times, nil
}

// pass runs one pass, adds to its time, and checks the state that it left.
func (s *State) pass(ctx context.Context, p Pass, times map[string]time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	began := time.Now()
	if err := s.recovered(ctx, p); err != nil {
		return err
	}
	took := time.Since(began)
	times[p.Name] += took
	if s.opt.Trace != nil {
		s.opt.Trace(p, took)
	}
	if s.opt.Check || s.opt.Passes != nil {
		if err := check(s); err != nil {
			return fmt.Errorf("after pass %s: %w", p.Name, err)
		}
	}
	return nil
}

// recovered runs one pass, or what stands in for it. A panic is a bug; it is told
// with the pass and the model instead of tearing a caller's program down.
func (s *State) recovered(ctx context.Context, p Pass) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = mapped.ErrorOf(r); err == nil {
				err = bug.Recovered("pass "+p.Name, r)
			}
		}
	}()
	run := p.Run
	if slices.Contains(s.opt.Disable, p.Name) {
		run = p.Instead
	}
	if run == nil {
		return nil
	}
	return run(ctx, s)
}

// named puts the model's file into an error that lacks it.
func (s *State) named(err error) error {
	var e *graph.Error
	if errors.As(err, &e) && e.File == "" && s.model != nil && s.model.Source != nil {
		e.File = s.model.Source.Name
	}
	return err
}
