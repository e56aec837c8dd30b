package budget

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// The smallest peak within some extra time falls with the time, has a plan that fits, and has
// none that is below any limit whose plan fits. With a link it is no larger.
func TestWithin(t *testing.T) {
	for k := range 12 {
		r := rand.New(rand.NewPCG(uint64(k), 21))
		p := layers(r, 4+r.IntN(8))
		effort := schedule.EffortDefault
		if k%4 == 3 {
			effort = schedule.EffortFast
		}
		s, best := solver(t, p, Options{Effort: effort})
		var orders [][]int32
		for _, l := range s.lines {
			orders = append(orders, l.order)
		}
		h, err := NewSwapper(p, orders, SwapOptions{Effort: effort, Link: 1e9})
		if err != nil {
			t.Fatal(err)
		}
		last := best
		for _, most := range []float64{0, 2, 5, 12, 30, 100} {
			fits := func(percent float64) bool { return percent <= most }
			peak := s.Within(context.Background(), fits)
			x := s.Solve(context.Background(), peak)
			if checkPlan(t, p, x); x.Feasible != Found || !fits(x.ExtraPercent) {
				t.Errorf("graph %d, %v %%: a peak of %d, and its plan is %v at %v %%", k, most, peak, x.Feasible, x.ExtraPercent)
			}
			if effort == schedule.EffortFast {
				continue
			}
			if peak > last {
				t.Errorf("graph %d, %v %%: a peak of %d, less time has %d", k, most, peak, last)
			}
			last = peak
			for limit := peak - 1; limit > 0; limit -= max(1, best/40) {
				if x := s.Solve(context.Background(), limit); x.Feasible == Found && fits(x.ExtraPercent) {
					t.Errorf("graph %d, %v %%: a peak of %d, and a plan within %d", k, most, peak, limit)
				}
			}
			if linked := h.Within(context.Background(), fits); linked > peak {
				t.Errorf("graph %d, %v %%: a peak of %d, with a link %d", k, most, peak, linked)
			}
		}
	}
}
