package budget

import (
	"context"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// The smallest peak lies between its bound and the optimum's, mostly on the optimum, and its
// plan keeps it. Whatever limit is asked for, none below it has a plan.
func TestLeast(t *testing.T) {
	const graphs = 60
	e := newExact()
	for _, effort := range []schedule.Effort{schedule.EffortFast, schedule.EffortDefault} {
		r := rand.New(rand.NewPCG(1, 22))
		reached, proven := 0, 0
		for k := 0; k < graphs; k++ {
			p := chained(r)
			if k%2 == 1 {
				p = outputsAndInputs(r)
			}
			if len(p.Nodes)+len(p.Tensors) > maxBits {
				k--
				continue
			}
			e.load(p)
			s, best := solver(t, p, Options{Effort: effort})
			least := int64(sort.Search(int(best), func(limit int) bool { return e.optimum(int64(limit)) >= 0 }))
			x := s.Least(context.Background())
			checkPlan(t, p, x)
			if x.Feasible != Found || x.PeakBytes != x.Limit || x.PeakBytes < least || x.PeakBytes > best || x.LeastBytes > least || x.Highest.Bytes != x.LeastBytes {
				t.Fatalf("graph %d: the smallest peak is %d, without repetitions %d; found %v, %d within %d, at least %d, %+v:\n%+v", k, least, best, x.Feasible, x.PeakBytes, x.Limit, x.LeastBytes, x.Highest, p)
			}
			if again, _ := solver(t, p, Options{Effort: effort}); again.Solve(context.Background(), x.PeakBytes).Feasible != Found {
				t.Errorf("graph %d: the smallest peak found is %d, but no plan keeps it", k, x.PeakBytes)
			}
			fresh, _ := solver(t, p, Options{Effort: effort})
			if y, z := s.Solve(context.Background(), best*3/4), fresh.Solve(context.Background(), best*3/4); y.LowerBound < z.LowerBound {
				t.Errorf("graph %d: after Least, the extra time within %d is at least %d, without it %d", k, best*3/4, y.LowerBound, z.LowerBound)
			}
			for limit := x.LeastBytes; limit < x.PeakBytes; limit++ {
				if y := s.Solve(context.Background(), limit); y.Feasible == Found {
					t.Errorf("graph %d: the smallest peak found is %d, and there is a plan within %d", k, x.PeakBytes, limit)
				}
			}
			if x.PeakBytes == least {
				reached++
			}
			if x.LeastBytes == least {
				proven++
			}
		}
		if reached < graphs*4/5 || proven < graphs*3/4 {
			t.Errorf("%v: of %d graphs, %d plans have the smallest peak, %d bounds prove it", effort, graphs, reached, proven)
		}
		t.Logf("%v: of %d graphs, %d plans have the smallest peak, %d bounds prove it", effort, graphs, reached, proven)
	}
}

// A node whose outputs all live to the end needs no repetition: the plan is the best order, and
// the bound is the step that holds all outputs.
func TestLeastOfOutputs(t *testing.T) {
	p := &schedule.Problem{Nodes: make([]schedule.Node, 3), Tensors: []schedule.Tensor{{Bytes: 1, Producer: -1, Consumers: []int32{0, 1, 2}}}}
	for v := range p.Nodes {
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 10, Producer: int32(v), Output: true})
	}
	s, _ := solver(t, p, Options{Effort: schedule.EffortFast})
	x := s.Least(context.Background())
	if x.PeakBytes != 31 || x.LeastBytes != 31 || x.Highest.Node != AtEnd || len(x.Highest.Tensors) != 3 || x.ExtraCost != 0 {
		t.Errorf("%+v", x)
	}
}
