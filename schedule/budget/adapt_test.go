package budget

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// As a problem whose nodes are the runs of a plan, in the plan's order, a plan has the
// same peak. If another order of the runs has a smaller peak, as many recomputes as
// possible move to the line of that order, and what results is a valid plan.
func TestPlansMoveToBetterOrders(t *testing.T) {
	families := []func(r *rand.Rand) *schedule.Problem{
		chained,
		func(r *rand.Rand) *schedule.Problem { return unrestricted(r, true) },
	}
	expanded, better := 0, 0
	for k := range 600 {
		p := families[k%len(families)](rand.New(rand.NewPCG(uint64(k), 30)))
		s, peak := solver(t, p, Options{})
		c := s.chainers(&work{ctx: t.Context(), most: math.MaxInt64})[0]
		for percent := int64(90); percent >= 50; percent -= 10 {
			c.limit = peak * percent / 100
			var plan recomputeSet
			c.greedy(&plan, greedyOptions{thresholds: plain, rounds: 20})
			if len(plan) == 0 {
				continue
			}
			c.run(plan, false)
			x := s.expand(c.unroll(plan))
			listed := make([]int32, len(x.Nodes))
			for i := range listed {
				listed[i] = int32(i)
			}
			e, err := x.Evaluate(listed)
			if err != nil || e.Peak != c.peak {
				t.Fatalf("graph %d, %d %%: peak %d as a problem (%v), %d as a plan", k, percent, e.Peak, err, c.peak)
			}
			expanded++
			order, steps := s.reorder(c.work, c.line, entry{set: plan, peak: c.peak})
			if order == nil {
				continue
			}
			better++
			l := newLine(p, order, s.costs, s.rules, 1)
			moved := c.translate(plan, steps, l)
			if len(moved) > len(plan) {
				t.Errorf("graph %d, %d %%: %d recomputes of %d", k, percent, len(moved), len(plan))
			}
			w := newSweep(l, c.work)
			w.run(moved, false)
			checkPlan(t, p, &Plan{Limit: math.MaxInt64, Feasible: Found, Steps: l.unroll(moved), PeakBytes: w.peak, ExtraCost: w.extra})
		}
	}
	if expanded < 500 || better < 20 {
		t.Errorf("%d plans, %d better orders: too few for a test", expanded, better)
	}
}

// With KeepOrders the solver plans from the given orders only.
func TestKeepOrders(t *testing.T) {
	lines := func(p *schedule.Problem, opt Options) (given, planned int) {
		s, peak := solver(t, p, opt)
		given = len(s.lines)
		s.Solve(context.Background(), peak*3/4)
		return given, len(s.lines)
	}
	more := 0
	for k := range 100 {
		p := unrestricted(rand.New(rand.NewPCG(uint64(k), 31)), false)
		if given, planned := lines(p, Options{KeepOrders: true}); planned > given {
			t.Errorf("graph %d: %d orders of %d given", k, planned, given)
		}
		if given, planned := lines(p, Options{}); planned > given {
			more++
		}
	}
	if more == 0 {
		t.Error("no graph has a plan in another order: nothing is tested")
	}
}

// A run whose results nobody reads before the node runs again is omitted. A tensor of 0
// bytes that carries precedence counts as read.
func TestUnreadRunsAreOmitted(t *testing.T) {
	p := &schedule.Problem{
		Nodes: make([]schedule.Node, 4),
		Tensors: []schedule.Tensor{
			{Bytes: 5, Producer: 0, Consumers: []int32{3}},
			{Bytes: 9, Producer: 1, Consumers: []int32{2}},
			{Bytes: 1, Producer: 2, Consumers: []int32{3}},
			{Bytes: 1, Producer: 3, Output: true},
		},
	}
	steps := []int{0, 1, 2, 0, 3}
	s, _ := solver(t, p, Options{})
	if got := s.read(steps); !slices.Equal(got, []int{1, 2, 0, 3}) {
		t.Errorf("steps %v", got)
	}
	p.Tensors = append(p.Tensors, schedule.Tensor{Producer: 0, Consumers: []int32{2}})
	s, _ = solver(t, p, Options{})
	if got := s.read(steps); !slices.Equal(got, steps) {
		t.Errorf("with node 0 before node 2: steps %v", got)
	}
}

// earlyFactors is a training step of some layers, and an order of it that makes each layer's factor of
// the gradient, in tenths of a layer's cost and more, long before its only reader.
func earlyFactors(layers int32, bytes, cost int64) (*schedule.Problem, []int32) {
	p := &schedule.Problem{Nodes: make([]schedule.Node, 3*layers)}
	add := func(producer int32, readers ...int32) {
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: bytes, Producer: producer, Consumers: readers})
	}
	var order []int32
	for i := range layers { // layer i, a factor for its gradient, its gradient
		backward := 3*layers - 1 - i
		order = append(order, 2*i, 2*i+1)
		if i < layers-1 {
			add(2*i, 2*i+1, 2*i+2, backward)
		} else {
			add(2*i, 2*i+1, backward)
		}
		add(2*i+1, backward)
		p.Nodes[2*i].Cost, p.Nodes[2*i+1].Cost, p.Nodes[backward].Cost = cost, cost/10+cost/20*int64(i%3), cost
	}
	for i := range layers {
		v := 2*layers + i
		order = append(order, v)
		add(v, v+1)
	}
	last := &p.Tensors[len(p.Tensors)-1]
	last.Consumers, last.Output = nil, true
	return p, order
}

// At fast effort, too: what the given order makes long before its only reader is made late,
// once, which costs nothing.
func TestUnreadRunsAreOmittedAtFastEffort(t *testing.T) {
	p, order := earlyFactors(6, 8, 100)
	for _, limit := range []int64{96, 80, 72} {
		plans, err := Frontier(t.Context(), p, [][]int32{order}, []int64{limit}, Options{Effort: schedule.EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, p, plans[0])
		if x := plans[0]; x.Feasible != Found || x.ExtraCost > 0 {
			t.Errorf("limit %d: %v, steps %v, extra time %.1f %%", limit, x.Feasible, x.Steps, x.ExtraPercent)
		}
	}
}

// With KeepOrders, plans that also swap keep the order at fast effort, since their transfers are
// timed in it.
func TestSwapsKeepTheirOrder(t *testing.T) {
	p, order := earlyFactors(12, 8_000_000, 10_000_000)
	s, err := NewSwapper(p, [][]int32{order}, SwapOptions{Effort: schedule.EffortFast, Link: 600_000_000, KeepOrders: true})
	if err != nil {
		t.Fatal(err)
	}
	swaps := 0
	for _, limit := range []int64{160_000_000, 128_000_000, 96_000_000, 64_000_000} {
		x := s.Solve(t.Context(), limit)
		swaps += len(x.Swaps)
		ran, first := make([]bool, len(p.Nodes)), []int32{}
		for _, v := range x.Steps {
			if v < len(p.Nodes) && !ran[v] {
				ran[v], first = true, append(first, int32(v))
			}
		}
		if x.Feasible == Found && !slices.Equal(first, order) {
			t.Errorf("limit %d: the nodes first run in the order %v", limit, first)
		}
	}
	if swaps == 0 {
		t.Error("no plan has a swap")
	}
}
