package budget

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// Two branches from x are joined. At each node a cut sees two tensors of 10 bytes, but whichever
// branch comes second needs its own two beside the result of the first, or x.
//
//	0 -> x -> 1 -> 3 -> 5
//	     x -> 2 -> 4 -> 5
func TestWay(t *testing.T) {
	p := &schedule.Problem{Nodes: make([]schedule.Node, 6)}
	for v := range p.Nodes {
		p.Nodes[v].Cost = 1
	}
	tensor := func(bytes int64, producer int32, consumers ...int32) {
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: bytes, Producer: producer, Consumers: consumers})
	}
	tensor(1, -1, 0)
	tensor(10, 0, 1, 2) // x
	tensor(10, 1, 3)
	tensor(10, 2, 4)
	tensor(10, 3, 5)
	tensor(10, 4, 5)
	p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 1, Producer: 5, Output: true})
	s, _ := solver(t, p, Options{Effort: schedule.EffortFast})
	cuts, _ := solver(t, p, Options{Effort: schedule.EffortFast, without: []string{"ways"}})
	x, y := s.Least(context.Background()), cuts.Least(context.Background())
	if x.PeakBytes != 30 || x.LeastBytes != 30 || !x.Highest.Way || y.LeastBytes != 21 {
		t.Errorf("the smallest peak found is %d, the bound %+v, of cuts %+v", x.PeakBytes, x.Highest, y.Highest)
	}
}

// What ways proves has no plan; on many small graphs it proves what cuts leave open.
func TestWaysAgainstTheOptimum(t *testing.T) {
	e, r := newExact(), rand.New(rand.NewPCG(3, 33))
	impossible, byCuts, proven := 0, 0, 0
	for k := range 200 {
		p := []func(*rand.Rand) *schedule.Problem{chained, outputsAndInputs}[k%2](r)
		if len(p.Nodes)+len(p.Tensors) > maxBits {
			continue
		}
		e.load(p)
		s, best := solver(t, p, Options{Effort: schedule.EffortFast})
		limit := best * int64(60+r.IntN(35)) / 100
		cuts, _ := solver(t, p, Options{Effort: schedule.EffortFast, without: []string{"ways"}})
		x, y := s.Solve(context.Background(), limit), cuts.Solve(context.Background(), limit)
		if e.optimum(limit) >= 0 {
			if x.Feasible == Impossible {
				t.Fatalf("graph %d: %d is called impossible: %+v\n%+v", k, limit, x.Obstacle, p)
			}
			continue
		}
		impossible++
		if y.Feasible == Impossible {
			byCuts++
		}
		if x.Feasible == Impossible {
			proven++
		} else if y.Feasible == Impossible {
			t.Errorf("graph %d: cuts alone prove that %d is impossible", k, limit)
		}
	}
	t.Logf("of %d impossible limits, cuts prove %d, with ways %d", impossible, byCuts, proven)
	if proven <= byCuts || proven < impossible*97/100 {
		t.Errorf("of %d impossible limits, cuts prove %d, with ways %d", impossible, byCuts, proven)
	}
}
