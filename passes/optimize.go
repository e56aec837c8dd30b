package passes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Result is a planned model.
type Result struct {
	Model *graph.Model   // the given model or its training graph; its nodes are in the planned order and annotated
	Step  *autodiff.Step // describes the training graph; nil without Options.Train
	// Plan lacks Plan.Model, which is known only once the model has been written
	// to a file. Plan is nil if Options.Passes has no pass annotate.
	Plan     *plan.Plan
	FoldHint *FoldHint // what FoldAny would save; nil if that is little
	// AttentionHint says what Options.Attention would save; nil if that is little.
	AttentionHint *AttentionHint

	OrderSolver     *schedule.SolverReport // what Options.Solver did for the order; nil: nothing
	PlacementSolver *alloc.SolverReport    // and for the placement

	// GivenUp lists the features without which the model was planned, since the plan with
	// them was not valid, as in Options.Passes a wrong pass can make one: a fault of onnxmem.
	GivenUp []GivenUp

	Warnings []string
	Spare    ops.Spare                // names in Options.Dims and Options.Values that bind nothing, with Options.SpareDims
	Times    map[string]time.Duration // per pass, and of the verification as "verify"
}

// Optimize plans the memory of a model: it puts the nodes of m into an order with
// a small peak, gives every tensor an offset, and writes the offsets into the
// nodes' metadata. It changes m, which must not be used if Optimize fails. Errors
// in the model are of type [*graph.Error], errors in opt of type [*OptionError].
// When ctx ends, Optimize fails with the cause of ctx.
//
// The plan has passed package plan/verify, unless Options.NoVerify is set. If one has not,
// which is a fault of onnxmem, the model is planned without the feature behind it, and
// Result.GivenUp says so; if no plan is valid, the error is of type [*RefusedError].
func Optimize(ctx context.Context, m *graph.Model, opt Options) (_ *Result, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s, err := newState(m, opt)
	if err != nil {
		return nil, err
	}
	if !opt.NoVerify {
		s.origin.untouched = copyOf(m)
	}
	times := map[string]time.Duration{}
	if s, err = s.runBest(ctx, times); err != nil {
		return nil, err
	}
	if err := s.withinExtra(); err != nil {
		return nil, err
	}
	found, err := s.verify(ctx, times)
	if err != nil {
		return nil, err
	}
	var gone []GivenUp
	if found != nil && !found.Valid {
		if s, gone, err = giveUp(ctx, s, found, times); err != nil {
			return nil, err
		}
	}
	r := &Result{Model: s.now.Model, Step: s.step, Plan: s.plan, FoldHint: (*FoldHint)(s.folded.Hint), GivenUp: gone, Times: times, AttentionHint: s.attentionHint(ctx)}
	if s.now.Main != nil && s.now.Main.Solved != nil {
		r.OrderSolver, r.PlacementSolver = s.now.Main.Solved.Solver, s.now.Main.Packed
	}
	if s.now.Inference != nil {
		r.Warnings, r.Spare = s.warnings(), s.now.Inference.Spare
	}
	if s.step != nil {
		r.Spare = s.step.Spare
	}
	if note := s.keptNote(); note != "" {
		r.Warnings = append(r.Warnings, note)
	}
	if r.Warnings = append(r.Warnings, s.how.Log.Notes...); s.how.Log.TimedOut {
		r.Warnings = append(r.Warnings, fmt.Sprintf("time limit of %v: the best plan so far", opt.TimeLimit))
	}
	return r, nil
}

// runAll runs the passes of the options, and adds to times. It fails if the model's files
// have changed.
func (s *State) runAll(ctx context.Context, times map[string]time.Duration) error {
	source := s.now.Model.Source
	took, err := s.run(ctx, s.opt.passes())
	for name, d := range took {
		times[name] += d
	}
	return mapped.Unchanged(source, err)
}

// run runs and times the passes. If a pass has changed the graph, run repeats the
// earlier passes whose results follow from the graph.
func (s *State) run(ctx context.Context, list []Pass) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	if err := s.printBefore(list); err != nil {
		return nil, err
	}
	for k, p := range list {
		s.keepSource(p)
		if err := s.pass(ctx, p, times); err != nil {
			return nil, s.named(err)
		}
		if !s.graphChanged {
			continue
		}
		s.noteChange(p)
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
			if s.graphChanged {
				return nil, fmt.Errorf("pass %q, which runs again after every change of the graph, changed the graph itself: expected a pass that only computes", again.Name)
			}
		}
	}
	return times, nil
}

// pass runs one pass, adds to its time, and checks the resulting state.
func (s *State) pass(ctx context.Context, p Pass, times map[string]time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	began := time.Now()
	run := func() error { return s.recovered(ctx, p) }
	if s.opt.Check {
		inner := run
		run = func() error { return s.checked(p.Name, inner) }
	}
	if err := run(); err != nil {
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
	return s.printAfter(p)
}

// recovered runs a pass, or its replacement if the pass is disabled. It turns a
// panic, which is a bug, into an error that names the pass and the model.
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
	return public(run(ctx, s))
}

// named adds the model's file to an error that lacks it.
func (s *State) named(err error) error {
	var e *graph.Error
	if errors.As(err, &e) && e.File == "" && s.now.Model != nil && s.now.Model.Source != nil {
		e.File = s.now.Model.Source.Name
	}
	return err
}

// keptNote reports what the precedence that the options ask for costs in the graph that is
// planned; "" if it costs nothing.
func (s *State) keptNote() string {
	if s.now.Main == nil || s.now.Main.Solved == nil || s.now.Ranged != nil || !s.opt.UpdatesLast && !s.opt.KeepRandomOrder {
		return ""
	}
	r := s.now.Main.Solved
	if r.KeptBound <= r.Bound {
		return ""
	}
	why := "random operators keep their order"
	if s.opt.UpdatesLast {
		why = "updates run last"
	}
	what := fmt.Sprintf("its peak is at least %s", units.Bytes(r.KeptBound))
	if r.Evaluation.Peak == r.KeptBound {
		what = "no order that meets this has a smaller peak"
	}
	return fmt.Sprintf("%s: %s; the bound of %s is that of all orders", why, what, units.Bytes(r.Bound))
}

// newState checks the options and the model and makes the initial state.
func newState(m *graph.Model, opt Options) (*State, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt = opt.plain()
	asked := opt
	opt = opt.onePlace()
	s := &State{
		asked: asked, opt: opt, given: m, how: opt.searching(), costs: opt.costModel(),
		now: planner.Trial{Model: m, Bind: planner.Binding{Given: ops.Options{Dims: opt.Dims, Values: opt.Values, StrictDims: opt.StrictDims, SpareDims: opt.SpareDims, Strict: opt.Strict}, Runtime: opt.Runtime}},
	}
	if err := s.bindRanges(); err != nil {
		return nil, err
	}
	if err := graph.Check(m); err != nil {
		return nil, s.named(err)
	}
	return s, nil
}
