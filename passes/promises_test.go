package passes_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
)

// permission is a mean more, or a constraint less: give permits it, and reports whether the
// options did not.
type permission struct {
	name string
	give func(*passes.Options) bool
}

var permissions = []permission{
	{"a host", func(o *passes.Options) bool {
		has := o.Host != nil || o.NoRecompute
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
	{"recomputation beside slices", func(o *passes.Options) bool {
		alone := o.NoRecompute
		o.NoRecompute = false
		return alone
	}},
	{"slices", func(o *passes.Options) bool {
		off := o.Slices == passes.SlicesOff
		o.Slices = max(o.Slices, passes.SlicesExact)
		return off
	}},
	{"aliases", func(o *passes.Options) bool {
		off := o.Aliases == passes.AliasesOff
		o.Aliases = passes.AliasesAuto
		return off
	}},
	{"aliases in changed graphs", func(o *passes.Options) bool {
		first := o.Aliases == passes.AliasesAuto
		if first {
			o.Aliases = passes.AliasesOn
		}
		return first
	}},
	{"a larger arena", func(o *passes.Options) bool {
		arena := o.Limit != nil && o.Limit.Arena
		if arena {
			o.Limit = &passes.Limit{Bytes: o.Limit.Bytes}
		}
		return arena && o.Slices == passes.SlicesOff // slices choose among peaks
	}},
	{"a larger limit", func(o *passes.Options) bool {
		if o.Limit == nil || o.Limit.Arena {
			return false
		}
		o.Limit = &passes.Limit{Bytes: o.Limit.Bytes + o.Limit.Bytes/16}
		return true
	}},
	{"more time", func(o *passes.Options) bool {
		if o.ExtraPercent == 0 || o.Slices != passes.SlicesOff {
			return false
		}
		o.ExtraPercent *= 1.25
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
	switch {
	case err != nil:
		return fmt.Sprintf("no plan: %v", err)
	case o.Limit == nil && more.Plan.Summary.PeakBytes > less.Plan.Summary.PeakBytes:
		return fmt.Sprintf("a peak of %d bytes, and of %d with less", more.Plan.Summary.PeakBytes, less.Plan.Summary.PeakBytes)
	case o.Limit != nil && more.Plan.Summary.Extra() > max(less.Plan.Summary.Extra(), half)+1e-9:
		return fmt.Sprintf("%v %% more time, and %v %% with less", more.Plan.Summary.Extra(), less.Plan.Summary.Extra())
	}
	return ""
}

// TestMorePermissionsAreNoWorse: one more mean, or one less constraint, never loses a plan, nor
// makes one dearer or larger.
func TestMorePermissionsAreNoWorse(t *testing.T) {
	plan := func(b []byte, o passes.Options) (*passes.Result, error) {
		m, err := onnx.Parse("in.onnx", b)
		if err != nil {
			return nil, err
		}
		o.NoVerify = true
		r, err := passes.Optimize(t.Context(), m, o)
		var none *passes.LimitError
		if err != nil && !errors.As(err, &none) {
			t.Fatal(err)
		}
		return r, err
	}
	compared := map[string]int{}
	check := func(name string, b []byte, o passes.Options) {
		less, err := plan(b, o)
		if err != nil {
			return
		}
		for _, p := range permissions {
			with := o
			if !p.give(&with) {
				continue
			}
			more, err := plan(b, with)
			if how := worse(&with, less, more, err); how != "" {
				t.Errorf("%s, limit %v, %v %% extra, slices %d, host %v: with %s: %s", name, o.Limit, o.ExtraPercent, o.Slices, o.Host, p.name, how)
			}
			compared[p.name]++
		}
	}
	cases := func(name string, b []byte, o passes.Options, percents ...int64) {
		whole, err := plan(b, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range percents {
			limit := &passes.Limit{Bytes: whole.Plan.Summary.PeakBytes * percent / 100}
			host := &passes.Host{Link: 1e9, NoRecompute: true}
			for _, with := range []func(*passes.Options){
				func(o *passes.Options) { o.Limit = limit },
				func(o *passes.Options) { o.Limit = &passes.Limit{Bytes: limit.Bytes, Arena: true} },
				func(o *passes.Options) { o.Limit, o.Host = limit, host },
				func(o *passes.Options) { o.Limit, o.Slices, o.NoRecompute = limit, passes.SlicesExact, true },
				func(o *passes.Options) { o.ExtraPercent = float64(100 - percent) },
				func(o *passes.Options) { o.ExtraPercent, o.Host = float64(100-percent), host },
			} {
				o := o
				with(&o)
				check(name, b, o)
			}
		}
	}
	slow := passes.Options{Device: slowDevice}
	for seed := range uint64(28) {
		net := randmodel.Draw(seed)
		o := slow
		if o.Dims = net.Dims; seed%4 < 2 {
			o.Aliases = passes.AliasesOff
		}
		b := file(t, net.Model)
		if seed%2 == 1 {
			o.Train = &autodiff.Options{Loss: "mse"}
			if m, err := onnx.Parse("in.onnx", b); err != nil {
				t.Fatal(err)
			} else if _, err := passes.Optimize(t.Context(), m, o); err != nil {
				o.Train = nil // it has no training step
			}
		}
		cases(fmt.Sprint("network ", seed), b, o, 97, 85)
	}
	for _, p := range permissions {
		if compared[p.name] < 2 {
			t.Errorf("%s: %d pairs of plans were compared: expected more", p.name, compared[p.name])
		}
	}
}
