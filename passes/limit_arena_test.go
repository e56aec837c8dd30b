package passes_test

import (
	"errors"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
)

// TestLimitsOnTheArena: if the arena of the cheapest plan below a limit exceeds it, the next ways
// are tried: there is a plan wherever one for a lower peak has an arena that fits.
func TestLimitsOnTheArena(t *testing.T) {
	plan := func(b []byte, o passes.Options) *passes.Result {
		m, err := onnx.Parse("in.onnx", b)
		if err != nil {
			t.Fatal(err)
		}
		o.NoVerify = true
		r, err := passes.Optimize(t.Context(), m, o)
		var none *passes.LimitError
		if err != nil && !errors.As(err, &none) {
			return nil // it has no training step
		}
		return r
	}
	later := 0
	for seed := uint64(0); seed < 60; seed += 4 {
		net := randmodel.Draw(seed)
		b := file(t, net.Model)
		for name, o := range map[string]passes.Options{
			"recomputation":   {},
			"swaps":           {Host: &passes.Host{Link: 1e9}},
			"without aliases": {Aliases: passes.AliasesOff},
			"slices":          {Slices: passes.SlicesExact},
		} {
			// Its arenas are often larger than the peaks.
			o.Placement = "greedy-in-order"
			o.Device, o.Dims, o.Train = slowDevice, net.Dims, &autodiff.Options{Loss: "mse"}
			whole := plan(b, passes.Options{Dims: net.Dims, Train: o.Train})
			if whole == nil {
				continue
			}
			var limits []int64
			plans := map[int64]*passes.Result{}
			for percent := int64(100); percent >= 70; percent -= 6 {
				o.Limit = &passes.Limit{Bytes: whole.Plan.Summary.PeakBytes * percent / 100}
				if r := plan(b, o); r != nil {
					limits = append(limits, o.Limit.Bytes)
					plans[o.Limit.Bytes] = r
				}
			}
			for i, limit := range limits {
				if plans[limit].Plan.Summary.ArenaBytes <= limit {
					continue // the first way
				}
				for _, lower := range limits[i:] {
					if plans[lower].Plan.Summary.ArenaBytes > limit {
						continue
					}
					later++
					o.Limit = &passes.Limit{Bytes: limit, Arena: true}
					if r := plan(b, o); r == nil || r.Plan.Summary.ArenaBytes > limit {
						t.Errorf("network %d, %s: no plan for an arena of %d bytes, and there is one of %d", seed, name, limit, plans[lower].Plan.Summary.ArenaBytes)
					}
					break
				}
			}
		}
	}
	if later < 5 {
		t.Errorf("%d limits were kept by a later way: expected more", later)
	}
}

// TestPlainArenaFirst: below a limit on the arena, a plan has aliases only if the one without them
// does not fit.
func TestPlainArenaFirst(t *testing.T) {
	aliased := func(limit *passes.Limit) (bool, int64) {
		r, err := passes.Optimize(t.Context(), joined(t), passes.Options{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		return r.Plan.Sharing.Aliases, r.Plan.Summary.ArenaBytes
	}
	plain, arena := aliased(&passes.Limit{Percent: 100, Arena: true})
	if plain {
		t.Error("a plan with aliases, where one without fits at no cost")
	}
	if shared, less := aliased(&passes.Limit{Bytes: arena - 1, Arena: true}); !shared || less >= arena {
		t.Errorf("an arena of %d bytes below a limit of %d, with aliases: %v: expected them to fit", less, arena-1, shared)
	}
}
