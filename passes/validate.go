package passes

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/schedule"
)

// Validate checks the options by themselves, without a model. Its error is of
// type [*OptionError]; [Optimize] fails with the same error.
func (o *Options) Validate() error {
	for _, check := range []func() error{o.checkFeatures, o.checkFigures, o.checkPrecision, o.checkRuntime, o.checkAliases, o.checkRanges, o.checkCosts, o.checkLimit, o.checkPools, o.checkWorkspaces, o.checkStrategies, o.checkPasses, o.checkAdapters} {
		if err := check(); err != nil {
			return &OptionError{err}
		}
	}
	return nil
}

// plain returns options that ask for the same in one way. Plain options are valid, and stay what
// they are.
func (o Options) plain() Options {
	if o.Align == 0 {
		o.Align = DefaultAlign
	}
	if o.NoRecompute && o.Host != nil {
		host := *o.Host
		host.NoRecompute = true
		o.Host, o.NoRecompute = &host, false
	}
	o.Dims, o.Ranges = o.lengths()
	return o
}

// onePlace returns plain options whose host is among their pools, if they have any. Nobody may ask
// for these: without a host and slices, none may say that no node runs again.
func (o Options) onePlace() Options {
	if o.Host != nil && len(o.Pools) > 0 {
		o.Pools, o.NoRecompute, o.Host = o.allPools(), o.Host.NoRecompute || o.NoRecompute, nil
	}
	return o
}

// passes returns the passes to run.
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
		return fmt.Errorf("time limit %v: expected 0 or more", o.TimeLimit)
	}
	if o.FoldLimit < 0 {
		return fmt.Errorf("limit of %d bytes of folded constants: expected 0 or more", o.FoldLimit)
	}
	if o.KVCapacity < 0 {
		return fmt.Errorf("capacity of %d tokens: expected 0 or more", o.KVCapacity)
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
		return fmt.Errorf("link to the host of %d bytes per second: expected more than 0", o.Host.Link)
	}
	if l := o.Limit; l != nil && (l.Bytes < 0 || !(l.Percent >= 0) || math.IsInf(l.Percent, 0)) {
		return fmt.Errorf("limit of %d bytes or %v per cent: expected 0 or more", l.Bytes, l.Percent)
	}
	if !(o.ExtraPercent >= 0) || math.IsInf(o.ExtraPercent, 0) {
		return fmt.Errorf("extra time of %v per cent: expected 0 or more", o.ExtraPercent)
	}
	return nil
}

func (o *Options) checkWorkspaces() error {
	if o.Workspaces == nil {
		return nil
	}
	return o.Workspaces.Check()
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

// checkPasses checks the list of passes: its constraints, that it has the passes
// that other options need, and that the disabled passes are optional.
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
		{o.KVCapacity > 0, "KVCapacity", "kv"},
		{o.Slices != SlicesOff, "Slices", "slice"},
		{o.Limit != nil, "Limit", "limit"},
		{o.ExtraPercent > 0, "ExtraPercent", "limit"},
		{o.Workspaces != nil, "Workspaces", "bodies"},
		{o.ranged(), "Ranges", "range"},
		{o.Frontier, "Frontier", "limit"},
	} {
		if c.asked && find(list, c.pass) < 0 {
			return fmt.Errorf("option %s needs pass %q, which is missing from the list", c.option, c.pass)
		}
	}
	var names, optional []string
	for _, p := range list {
		if names = append(names, p.Name); p.Optional {
			optional = append(optional, p.Name)
		}
	}
	for _, name := range o.PrintAfter {
		if !slices.Contains(names, name) {
			return fmt.Errorf("graph after pass %q: expected one of %s", name, strings.Join(names, ", "))
		}
	}
	for _, name := range o.Disable {
		switch {
		case slices.Contains(optional, name):
		case len(optional) == 0:
			return errors.New("no pass of the list can be disabled: expected an optional pass")
		default:
			return fmt.Errorf("pass %q cannot be disabled: expected one of %s", name, strings.Join(optional, ", "))
		}
	}
	return nil
}
