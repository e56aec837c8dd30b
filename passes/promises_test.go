package passes_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// permission is a mean more, or a constraint less: give permits it, and reports whether the
// options did not.
type permission struct {
	name string
	give func(*passes.Options) bool
}

// lifted gives a permission by taking back an option that is a constraint.
func lifted(constraint func(*passes.Options) *bool) func(*passes.Options) bool {
	return func(o *passes.Options) bool {
		is := *constraint(o)
		*constraint(o) = false
		return is
	}
}

var permissions = []permission{
	{"a host", func(o *passes.Options) bool {
		has := o.Host != nil || o.NoRecompute || o.Limit == nil && o.ExtraPercent == 0
		if !has {
			o.Host = &passes.Host{Link: 1e8}
		}
		return !has
	}},
	{"recomputation beside a host", func(o *passes.Options) bool {
		swaps := o.Host != nil && o.Host.NoRecompute
		if swaps {
			o.Host = &passes.Host{Link: o.Host.Link}
		}
		return swaps
	}},
	{"recomputation beside slices", lifted(func(o *passes.Options) *bool { return &o.NoRecompute })},
	{"slices", func(o *passes.Options) bool {
		off := o.Slices == passes.SlicesOff && (o.Limit != nil || o.ExtraPercent > 0 || len(o.Pools) > 0)
		if off {
			o.Slices = passes.SlicesExact
		}
		return off
	}},
	{"sums in slices", func(o *passes.Options) bool {
		exact := o.Slices == passes.SlicesExact
		if exact {
			o.Slices = passes.SlicesAny
		}
		return exact
	}},
	{"aliases", func(o *passes.Options) bool {
		off := o.Aliases == passes.AliasesOff
		o.Aliases = passes.AliasesAuto
		return off && len(o.Pools) == 0
	}},
	{"aliases in changed graphs", func(o *passes.Options) bool {
		auto := o.Aliases == passes.AliasesAuto && len(o.Pools) == 0 && !o.NoViews && (o.Limit != nil || o.ExtraPercent > 0)
		if auto {
			o.Aliases = passes.AliasesOn
		}
		return auto
	}},
	{"views", lifted(func(o *passes.Options) *bool { return &o.NoViews })},
	{"results in place", lifted(func(o *passes.Options) *bool { return &o.NoInplace })},
	{"any order of updates", lifted(func(o *passes.Options) *bool { return &o.UpdatesLast })},
	{"any order of random nodes", lifted(func(o *passes.Options) *bool { return &o.KeepRandomOrder })},
	{"any order", func(o *passes.Options) bool {
		fixed := o.Schedule != ""
		o.Schedule = ""
		return fixed
	}},
	{"sharing as onnxmem does", func(o *passes.Options) bool {
		other := o.Runtime != ""
		o.Runtime = ""
		return other
	}},
	{"more effort", func(o *passes.Options) bool {
		fast := o.Effort == schedule.EffortFast
		o.Effort = schedule.EffortDefault
		return fast
	}},
	{"a larger arena", func(o *passes.Options) bool {
		arena := o.Limit != nil && o.Limit.Arena
		if arena {
			o.Limit = &passes.Limit{Bytes: o.Limit.Bytes}
		}
		return arena
	}},
	{"a larger limit", func(o *passes.Options) bool {
		if o.Limit == nil {
			return false
		}
		o.Limit = &passes.Limit{Bytes: o.Limit.Bytes + o.Limit.Bytes/16, Arena: o.Limit.Arena}
		return true
	}},
	{"more time", func(o *passes.Options) bool {
		if o.ExtraPercent == 0 {
			return false
		}
		o.ExtraPercent *= 1.25
		return true
	}},
	{"a larger pool", func(o *passes.Options) bool {
		if len(o.Pools) == 0 {
			return false
		}
		pools := append([]passes.Pool{}, o.Pools...)
		pools[0].Capacity += pools[0].Capacity / 8
		o.Pools = pools
		return true
	}},
}

// worse says how a plan is worse than one with fewer permissions; "" if it is not. Slices that
// cost half a per cent end the search for something cheaper.
func worse(o *passes.Options, less, more *passes.Result, err error) string {
	half := 0.0
	if o.Slices != passes.SlicesOff {
		half = 0.5
	}
	if err != nil {
		return fmt.Sprintf("no plan: %v", err)
	}
	a, b := less.Plan.Summary, more.Plan.Summary
	switch {
	case len(o.Pools) > 0 && b.Tiered.SlowTrafficBytes > a.Tiered.SlowTrafficBytes:
		return fmt.Sprintf("slow traffic of %d bytes, and of %d with less", b.Tiered.SlowTrafficBytes, a.Tiered.SlowTrafficBytes)
	case len(o.Pools) > 0:
	case o.Limit == nil && b.PeakBytes > a.PeakBytes:
		return fmt.Sprintf("a peak of %d bytes, and of %d with less", b.PeakBytes, a.PeakBytes)
	case o.Limit != nil && b.Extra() > max(a.Extra(), half)+1e-9:
		return fmt.Sprintf("%v %% more time, and %v %% with less", b.Extra(), a.Extra())
	}
	return ""
}

// promises compares plans of random networks.
type promises struct {
	*testing.T
	compared map[string]int // by permission: pairs of plans
	worse    map[string]int // pairs of which the second is worse
	slices   bool           // whether slices are looked for, too: that takes longer
}

func (c *promises) plan(b []byte, o passes.Options) (*passes.Result, error) {
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		return nil, err
	}
	r, err := passes.Optimize(c.Context(), m, o)
	var none *passes.LimitError
	var full *passes.PoolError
	if err != nil && !errors.As(err, &none) && !errors.As(err, &full) {
		c.Fatal(err)
	}
	if r != nil && len(r.GivenUp) > 0 {
		c.Errorf("given up: %v", r.GivenUp)
	}
	return r, err
}

func (c *promises) check(name string, b []byte, o passes.Options) {
	if excluded(&o) || o.Slices != passes.SlicesOff && !c.slices {
		return
	}
	less, err := c.plan(b, o)
	if err != nil {
		return
	}
	for _, p := range permissions {
		with := o
		if !p.give(&with) || excluded(&with) || with.Slices != passes.SlicesOff && !c.slices {
			continue
		}
		more, err := c.plan(b, with)
		if how := worse(&with, less, more, err); how != "" {
			c.worse[p.name]++
			c.Logf("%s, limit %v, %v %% extra, pools %v, slices %d, host %v, aliases %d, no views %v, no inplace %v, no recompute %v, effort %v: with %s: %s", name, o.Limit, o.ExtraPercent, o.Pools, o.Slices, o.Host, o.Aliases, o.NoViews, o.NoInplace, o.NoRecompute, o.Effort, p.name, how)
		}
		c.compared[p.name]++
	}
}

// excluded reports whether options ask for two features of which one excludes the other.
func excluded(o *passes.Options) bool {
	e := passes.CheckFeatures(func(f passes.Feature) bool { return f.Asked(o) }, func(passes.Feature) bool { return true })
	return e != nil && !e.Needs
}

// network compares plans of one network, which starts with one constraint or another.
func (c *promises) network(seed uint64) {
	net := randmodel.Draw(seed)
	o := passes.Options{Device: slowDevice, Dims: net.Dims}
	b := file(c.T, net.Model)
	name := fmt.Sprint("network ", seed)
	if seed%2 == 1 {
		o.Train = &autodiff.Options{Loss: "mse"}
		if m, err := onnx.Parse("in.onnx", b); err != nil {
			c.Fatal(err)
		} else if _, err := passes.Optimize(c.Context(), m, o); err != nil {
			o.Train = nil // it has no training step
		}
	}
	constraints[seed/2%uint64(len(constraints))](&o)
	whole, err := c.plan(b, o)
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	c.check(name, b, o)
	peak, percent := whole.Plan.Summary.PeakBytes, 97-12*int64(seed/10%2)
	limit := &passes.Limit{Bytes: peak * percent / 100}
	host := &passes.Host{Link: 1e9, NoRecompute: true}
	pools := []passes.Pool{{Name: "fast", Capacity: peak * (percent - 40) / 100}, {Name: "slow", Capacity: math.MaxInt32, BytesPerSecond: 1e8}}
	extra := float64(100 - percent)
	for _, asks := range []func(*passes.Options){
		func(o *passes.Options) { o.Limit = limit },
		func(o *passes.Options) { o.Limit = &passes.Limit{Bytes: limit.Bytes, Arena: true} },
		func(o *passes.Options) { o.Limit, o.Host = limit, host },
		func(o *passes.Options) { o.Limit, o.Slices, o.NoRecompute = limit, passes.SlicesExact, true },
		func(o *passes.Options) { o.ExtraPercent = extra },
		func(o *passes.Options) { o.ExtraPercent, o.Host = extra, host },
		func(o *passes.Options) { o.ExtraPercent, o.Slices, o.NoRecompute = extra, passes.SlicesExact, true },
		func(o *passes.Options) { o.Pools = pools },
		func(o *passes.Options) { o.Pools, o.Slices = pools, passes.SlicesExact },
	} {
		o := o
		asks(&o)
		c.check(name, b, o)
	}
}

// constraints are what networks have beside a limit, extra time or pools.
var constraints = []func(*passes.Options){
	func(*passes.Options) {},
	func(o *passes.Options) { o.NoViews = true },
	func(o *passes.Options) { o.NoInplace = true },
	func(o *passes.Options) { o.Aliases = passes.AliasesOff },
	func(o *passes.Options) { o.Effort = schedule.EffortFast },
	func(o *passes.Options) { o.UpdatesLast = o.Train != nil },
	func(o *passes.Options) { o.KeepRandomOrder = true },
	func(o *passes.Options) { o.Schedule = "program" },
	func(o *passes.Options) {
		if o.Train == nil {
			o.Runtime = ops.ONNXRuntime
		}
	},
}

// TestMorePermissionsAreNoWorse: one more mean, or one less constraint, never loses a plan, nor
// makes one dearer or larger.
func TestMorePermissionsAreNoWorse(t *testing.T) {
	c := &promises{t, map[string]int{}, map[string]int{}, false}
	// These remain. With a larger pool, other moves are tried, and the order with the smallest peak may
	// move more. With more effort, no limit is planned by itself ([budget.Options]), so that a larger
	// one never costs more.
	seeds, known := []uint64{0, 3, 5, 9, 11, 13, 15, 24, 142, 202}, map[string]int{"a larger pool": 1}
	if sweep.On() {
		seeds = append(seeds, 14, 152, 283, 442, 728, 937)
		known = map[string]int{"a larger pool": 2, "more effort": 2, "any order": 1}
	}
	for _, seed := range seeds {
		c.slices = seed%8 == 5
		c.network(seed)
	}
	for _, p := range permissions {
		if n := c.worse[p.name]; n != known[p.name] {
			t.Errorf("with %s: %d of %d plans are worse: expected %d", p.name, n, c.compared[p.name], known[p.name])
		}
		if c.compared[p.name] == 0 {
			t.Errorf("%s: no pairs of plans were compared: expected some", p.name)
		}
	}
}
