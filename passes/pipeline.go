package passes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Pass is one step of the pipeline.
type Pass struct {
	Name string
	Doc  string // what it does, in a line
	Run  func(*State) error
	// Optional passes can be switched off (Options.Disable): the plan is then
	// worse, and still valid.
	Optional bool
}

// Pipeline lists the passes in the order in which they run.
var Pipeline = []Pass{
	{"train", "make one training step out of an inference model, if asked", train, false},
	{"inline", "replace calls of local functions by their bodies, if asked", inline, false},
	{"infer", "bind dimensions, give every tensor its type and size", infer, false},
	{"share", "merge views into the storage that they view", share, false},
	{"bodies", "plan bodies and local functions: they are workspace", bodies, false},
	{"order", "find the order of the smallest peak", order, true},
	{"limit", "run nodes again, or send tensors to a host, where the best order does not fit, if asked", limit, false},
	{"place", "share buffers in place and give them offsets", place, false},
	{"annotate", "put the plan together, write offsets into the nodes", annotate, false},
}

// constraints say which pass must stand before which, and why.
var constraints = []struct{ before, after, why string }{
	{"train", "inline", "gradients may be calls of functions"},
	{"inline", "infer", "what it adds has types, too"},
	{"infer", "share", "sizes and views are found by inference"},
	{"share", "bodies", "a body's captures are storages of the graph around it"},
	{"bodies", "order", "workspace is part of a node's load"},
	{"order", "limit", "the order comes first: what it saves costs no time"},
	{"limit", "place", "what is made again has a place of its own"},
	{"order", "place", "lifetimes follow from the order"},
	{"place", "annotate", "offsets are what is written"},
}

func init() {
	at := func(name string) int {
		return slices.IndexFunc(Pipeline, func(p Pass) bool { return p.Name == name })
	}
	for _, c := range constraints {
		if b, a := at(c.before), at(c.after); b < 0 || a < 0 || b > a {
			panic(fmt.Sprintf("passes: %s must stand before %s: %s", c.before, c.after, c.why))
		}
	}
}

// Options says how a model is planned. The zero value is a sound default.
type Options struct {
	Dims       map[string]int64 // symbolic dimensions and their lengths
	StrictDims bool             // refuse a dimension that stays unbound
	SpareDims  bool             // Dims may name dimensions that the model does not have
	Align      int64            // of offsets and sizes, a power of two; 0 is 64
	NoViews    bool             // give every view a buffer of its own
	NoInplace  bool             // write nothing over an input
	Schedule   string           // name of an order strategy, "" for the best of all
	Placement  string           // name of a placement strategy, "" for the best of all
	Effort     schedule.Effort  // how much work before a gap is left open
	Goal       schedule.Goal    // which orders of the smallest peak are preferred

	// KeepRandomOrder leaves nodes that draw random numbers, have an effect or
	// are of an unknown operator in their order among each other.
	KeepRandomOrder bool

	// TimeLimit ends the searches with the best so far: same model, same options
	// no longer means same plan. 0: never.
	TimeLimit time.Duration

	// Progress is called when the search for an order of the main graph knows
	// more: see schedule.Options.
	Progress func(bound, peak int64)

	InlineFunctions bool // replace calls of local functions by their bodies first

	Train *autodiff.Options // make a training graph first; its Dims, StrictDims and SpareDims are those above

	// UpdatesLast runs all updates of a training graph behind the rest, as a
	// runtime with an optimizer of its own would.
	UpdatesLast bool

	Limit *Limit // what the peak shall fit into: nodes run again; nil: none
	Host  *Host  // with Limit or Frontier, tensors may leave for a host memory; nil: none may
	// Frontier asks what other limits cost: Plan.Frontier.
	Frontier bool

	Costs  map[string]int64 // of nodes by their names, in nanoseconds; others are modelled
	Device Device           // that costs are modelled for; zero: [DefaultDevice]

	Context context.Context           // ends the work early; nil: never
	Disable []string                  // optional passes that are left out
	Check   bool                      // check the invariants between any two passes
	Trace   func(Pass, time.Duration) // called after each pass
	Tool    string                    // name and version for the plan; "" is "onnxmem"
}

// DefaultAlign is the alignment of offsets and sizes in bytes.
const DefaultAlign = 64

// maxAlign bounds Options.Align.
const maxAlign = 1 << 20

// Result is a planned model.
type Result struct {
	Model *graph.Model   // the model that was given, or its training graph: its nodes in the planned order and annotated
	Step  *autodiff.Step // what is to be known of the training graph; nil without Options.Train
	// Plan lacks what is known only once the model is a file: Plan.Model.
	Plan     *plan.Plan
	Warnings []string
	Times    map[string]time.Duration // of each pass
}

// State is what the passes work on.
type State struct {
	opt       Options
	model     *graph.Model
	given     *graph.Model   // as it was read
	step      *autodiff.Step // nil: no training graph was asked for
	inference *ops.Inference
	main      *region
	calls     map[*graph.Call]*region // local functions, by instance
	plan      *plan.Plan
	budget    *budgeting // nil: no limit was asked for
	frontier  []plan.FrontierPoint
	keepOrder bool // the main graph's nodes stand in the order that they run in

	limit context.Context // of Options.TimeLimit; nil: none
	late  bool            // a search was ended by that
	notes []string        // warnings
}

// searching is the context of searches; it may be nil.
func (s *State) searching() context.Context {
	if s.limit != nil {
		return s.limit
	}
	return s.opt.Context
}

// Optimize plans the memory of a model: it puts the nodes of m into an order of
// small peak, gives every tensor a place, and writes these into the nodes'
// metadata. m is changed; it must not be used when Optimize fails. Errors about
// the model are of type *graph.Error, those about opt of type *OptionError.
func Optimize(m *graph.Model, opt Options) (_ *Result, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	if opt.Align == 0 {
		opt.Align = DefaultAlign
	}
	if err := opt.check(); err != nil {
		return nil, &OptionError{err}
	}
	s := &State{opt: opt, given: m, model: m, calls: map[*graph.Call]*region{}}
	if err := graph.Check(m); err != nil {
		return nil, s.named(err)
	}
	if opt.TimeLimit > 0 {
		base := opt.Context
		if base == nil {
			base = context.Background()
		}
		var cancel func()
		s.limit, cancel = context.WithTimeout(base, opt.TimeLimit)
		defer cancel()
	}
	times, err := s.run(Pipeline)
	if err = mapped.Unchanged(m.Source, err); err != nil {
		return nil, err
	}
	if s.late {
		s.notes = append(s.notes, fmt.Sprintf("time limit of %v: the best plan so far", opt.TimeLimit))
	}
	return &Result{Model: s.model, Step: s.step, Plan: s.plan, Warnings: append(slices.Clip(s.inference.Warnings), s.notes...), Times: times}, nil
}

// run runs passes, and times each.
func (s *State) run(list []Pass) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, p := range list {
		if s.opt.Context != nil && s.opt.Context.Err() != nil {
			return nil, context.Cause(s.opt.Context)
		}
		if slices.Contains(s.opt.Disable, p.Name) {
			s.opt.leaveOut(p.Name)
		}
		began := time.Now()
		if err := run(p, s); err != nil {
			return nil, s.named(err)
		}
		times[p.Name] = time.Since(began)
		if s.opt.Trace != nil {
			s.opt.Trace(p, times[p.Name])
		}
		if s.opt.Check {
			if err := check(s); err != nil {
				return nil, fmt.Errorf("after pass %s: %w", p.Name, err)
			}
		}
	}
	return times, nil
}

// OptionError says that an option has a value that no model would make right.
type OptionError struct{ Err error }

// Error says which option, what was expected and what was found.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap gives the fault.
func (e *OptionError) Unwrap() error { return e.Err }

// check looks at the options by themselves.
func (o *Options) check() error {
	if o.Align < 1 || o.Align > maxAlign || o.Align&(o.Align-1) != 0 {
		return fmt.Errorf("alignment %d: expected a power of two from 1 to %d", o.Align, maxAlign)
	}
	if o.TimeLimit < 0 {
		return fmt.Errorf("time limit %v: expected more than nothing", o.TimeLimit)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Dims)) {
		if n := o.Dims[name]; n < 0 {
			return fmt.Errorf("dimension %q is %d: expected a length >= 0", name, n)
		}
	}
	if err := o.checkCosts(); err != nil {
		return err
	}
	if o.Host != nil && o.Host.Link <= 0 {
		return fmt.Errorf("link to the host of %d bytes a second: expected more than nothing", o.Host.Link)
	}
	if l := o.Limit; l != nil && (l.Bytes < 0 || !(l.Percent >= 0) || math.IsInf(l.Percent, 0)) {
		return fmt.Errorf("limit of %d bytes or %v per cent: expected 0 or more", l.Bytes, l.Percent)
	}
	var orders, placements []string
	for _, s := range schedule.Strategies {
		orders = append(orders, s.Name)
	}
	for _, s := range alloc.Strategies {
		placements = append(placements, s.Name)
	}
	for _, c := range []struct {
		what, name string
		names      []string
	}{{"order", o.Schedule, orders}, {"placement", o.Placement, placements}} {
		if c.name != "" && !slices.Contains(c.names, c.name) {
			return fmt.Errorf("%s strategy %q is unknown: expected one of %s", c.what, c.name, strings.Join(c.names, ", "))
		}
	}
	return known(o.Disable)
}

// leaveOut makes an optional pass do the least that the others need.
func (o *Options) leaveOut(pass string) {
	if pass == "order" {
		o.Schedule = "program"
	}
}

// known fails on a name that is no optional pass.
func known(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(Pipeline, func(p Pass) bool { return p.Name == name && p.Optional }) {
			return fmt.Errorf("pass %q cannot be left out: expected one of %s", name, strings.Join(optionalPasses(), ", "))
		}
	}
	return nil
}

func optionalPasses() []string {
	var names []string
	for _, p := range Pipeline {
		if p.Optional {
			names = append(names, p.Name)
		}
	}
	return names
}

// run runs one pass. A panic is a bug of ours; it is told with the pass and the
// model instead of tearing a caller's program down.
func run(p Pass, s *State) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = mapped.ErrorOf(r); err == nil {
				err = bug.Recovered("pass "+p.Name, r)
			}
		}
	}()
	return p.Run(s)
}

// named puts the model's file into an error that lacks it.
func (s *State) named(err error) error {
	var e *graph.Error
	if errors.As(err, &e) && e.File == "" && s.model != nil && s.model.Source != nil {
		e.File = s.model.Source.Name
	}
	return err
}
