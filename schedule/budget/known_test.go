package budget

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// wander returns the nodes of a problem as they run in a random order of it, in which some run again.
func wander(r *rand.Rand, p *schedule.Problem) (steps []int) {
	missing := make([]int, len(p.Nodes)) // node -> its inputs that nothing has made
	for i := range p.Tensors {
		if p.Tensors[i].Producer >= 0 {
			for _, v := range p.Tensors[i].Consumers {
				missing[v]++
			}
		}
	}
	ran := make([]bool, len(p.Nodes))
	for left := len(ran); left > 0; {
		v := r.IntN(len(ran))
		if missing[v] > 0 || ran[v] && (p.Nodes[v].Once || r.IntN(3) > 0) {
			continue
		}
		steps = append(steps, v)
		if ran[v] {
			continue
		}
		ran[v] = true
		left--
		for i := range p.Tensors {
			if int(p.Tensors[i].Producer) == v {
				for _, w := range p.Tensors[i].Consumers {
					missing[w]--
				}
			}
		}
	}
	return steps
}

// TestKnownPlans: a known plan serves every limit from its peak on, at no more than its cost, at each
// effort; costs still rise from limit to limit, and no bound is above the least cost.
func TestKnownPlans(t *testing.T) {
	e, better := newExact(), 0
	for k := range 50 {
		r := rand.New(rand.NewPCG(uint64(k), 30))
		p := unrestricted(r, k%2 == 0)
		if k%3 == 0 {
			p = chained(r)
		}
		if len(p.Nodes)+len(p.Tensors) > maxBits {
			continue
		}
		known := wander(r, p)
		e.load(p)
		for _, effort := range []schedule.Effort{schedule.EffortFast, schedule.EffortDefault} {
			s, peak := solver(t, p, Options{Effort: effort, Known: [][]int{known}})
			x := s.known[0]
			if x.peak < peak {
				better++
			}
			last := int64(-1)
			limits := []int64{peak - 1, max(x.peak, 1), peak * 3 / 4, peak / 2}
			for _, limit := range limits {
				found := s.Solve(context.Background(), limit)
				checkPlan(t, p, found)
				least := e.optimum(limit)
				switch {
				case limit >= x.peak && (found.Feasible != Found || found.ExtraCost > x.cost):
					t.Errorf("graph %d, limit %d: %v, extra cost %d: the known plan has %d at %d", k, limit, found.Feasible, found.ExtraCost, x.cost, x.peak)
				case found.LowerBound > least && least >= 0 || found.Feasible == Impossible && least >= 0 || found.Feasible == Found && found.ExtraCost < least:
					t.Errorf("graph %d, limit %d: %v, extra cost %d, bound %d: the least is %d", k, limit, found.Feasible, found.ExtraCost, found.LowerBound, least)
				}
				if found.Feasible == Found && limit < x.peak && effort != schedule.EffortFast {
					if found.ExtraCost < last {
						t.Errorf("graph %d, limit %d: extra cost %d: %d for a larger limit", k, limit, found.ExtraCost, last)
					}
					last = found.ExtraCost
				}
			}
		}
	}
	if better < 3 {
		t.Errorf("%d known plans have a smaller peak than any order: expected more", better)
	}
}

// TestKnownPlanAgain: a plan that a search has found is worth the same when it is known to another one.
func TestKnownPlanAgain(t *testing.T) {
	again := 0
	for k := range 60 {
		p := chained(rand.New(rand.NewPCG(uint64(k), 31)))
		first, peak := solver(t, p, Options{})
		found := first.Solve(context.Background(), peak*4/5)
		if found.Feasible != Found || found.ExtraCost == 0 {
			continue
		}
		again++
		s, _ := solver(t, p, Options{Known: [][]int{found.Steps}})
		if x := s.known[0]; x.peak > found.PeakBytes || x.cost != found.ExtraCost {
			t.Errorf("graph %d: peak %d, extra cost %d: expected %d, %d", k, x.peak, x.cost, found.PeakBytes, found.ExtraCost)
		}
	}
	if again < 10 {
		t.Errorf("%d plans: expected more", again)
	}
}

// TestKnownPlansAreChecked: a plan that is none is an error.
func TestKnownPlansAreChecked(t *testing.T) {
	p := chained(rand.New(rand.NewPCG(1, 31)))
	order := make([]int32, len(p.Nodes))
	for v := range order {
		order[v] = int32(v)
	}
	for _, steps := range [][]int{{0}, {-1}, {99}, {1, 0}} {
		_, err := New(p, [][]int32{order}, Options{Known: [][]int{steps}})
		if err == nil || !strings.HasPrefix(err.Error(), "known plan: ") {
			t.Errorf("known plan %v: got %v: expected an error", steps, err)
		}
	}
}
