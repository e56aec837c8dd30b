package passes

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/schedule"
)

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
	// more: see [schedule.Options].
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

	// Passes are the passes to run; nil: those of [Default]. Between any two passes
	// of a list of one's own the invariants are checked, as by Check.
	Passes  []Pass
	Disable []string                  // names of optional passes that are switched off
	Check   bool                      // check the invariants between any two passes
	Trace   func(Pass, time.Duration) // called after each pass
	Tool    string                    // name and version for the plan; "" is "onnxmem"
}

// DefaultAlign is the alignment of offsets and sizes in bytes.
const DefaultAlign = 64

// maxAlign bounds Options.Align.
const maxAlign = 1 << 20

// OptionError says that an option has a value that no model would make right.
type OptionError struct{ Err error }

// Error says which option, what was expected and what was found.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap gives the fault.
func (e *OptionError) Unwrap() error { return e.Err }

// Validate checks the options by themselves, without a model. Its error is of
// type [*OptionError]; [Optimize] gives the same one.
func (o *Options) Validate() error {
	for _, check := range []func() error{o.checkFigures, o.checkCosts, o.checkLimit, o.checkStrategies, o.checkPasses} {
		if err := check(); err != nil {
			return &OptionError{err}
		}
	}
	return nil
}

// passes are the passes to run.
func (o *Options) passes() []Pass {
	if o.Passes == nil {
		return Default()
	}
	return o.Passes
}

func (o *Options) checkFigures() error {
	if o.Align != 0 && (o.Align < 1 || o.Align > maxAlign || o.Align&(o.Align-1) != 0) {
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
	return nil
}

func (o *Options) checkLimit() error {
	if o.Host != nil && o.Host.Link <= 0 {
		return fmt.Errorf("link to the host of %d bytes a second: expected more than nothing", o.Host.Link)
	}
	if l := o.Limit; l != nil && (l.Bytes < 0 || !(l.Percent >= 0) || math.IsInf(l.Percent, 0)) {
		return fmt.Errorf("limit of %d bytes or %v per cent: expected 0 or more", l.Bytes, l.Percent)
	}
	return nil
}

func (o *Options) checkStrategies() error {
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
	return nil
}

// checkPasses checks the list of passes, that it has those which other options
// need, and that those which are switched off can be.
func (o *Options) checkPasses() error {
	list := o.passes()
	if err := checkPasses(list); err != nil {
		return err
	}
	for _, c := range []struct {
		asked        bool
		option, pass string
	}{
		{o.Train != nil, "Train", "train"},
		{o.InlineFunctions, "InlineFunctions", "inline"},
		{o.Limit != nil, "Limit", "limit"},
		{o.Frontier, "Frontier", "limit"},
	} {
		if c.asked && find(list, c.pass) < 0 {
			return fmt.Errorf("option %s needs pass %q, which the list lacks", c.option, c.pass)
		}
	}
	var optional []string
	for _, p := range list {
		if p.Optional {
			optional = append(optional, p.Name)
		}
	}
	for _, name := range o.Disable {
		switch {
		case slices.Contains(optional, name):
		case len(optional) == 0:
			return errors.New("no pass of the list can be left out: expected one that is Optional")
		default:
			return fmt.Errorf("pass %q cannot be left out: expected one of %s", name, strings.Join(optional, ", "))
		}
	}
	return nil
}
