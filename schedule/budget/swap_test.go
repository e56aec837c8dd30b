package budget

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	sweeps "github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/schedule"
)

// checkSwaps replays a plan on its problem with the transfers as nodes, and checks its
// swaps.
func checkSwaps(tb testing.TB, p *schedule.Problem, x *SwapPlan) {
	tb.Helper()
	if x.Feasible != Found {
		return
	}
	var order []int32
	ran := make([]bool, len(x.Problem.Nodes))
	for _, v := range x.Steps {
		if !ran[v] {
			ran[v] = true
			order = append(order, int32(v))
		}
	}
	peak, extra, err := replay(x.Problem, order, x.Steps)
	switch {
	case err != nil:
		tb.Fatalf("limit %d: %v", x.Limit, err)
	case peak != x.PeakBytes || extra+x.Waiting != x.ExtraCost:
		tb.Errorf("limit %d: peak %d, extra cost %d; the replay has %d and %d + %d", x.Limit, x.PeakBytes, x.ExtraCost, peak, extra, x.Waiting)
	case peak > x.Limit:
		tb.Errorf("limit %d: peak %d", x.Limit, peak)
	}
	for k, s := range x.Swaps {
		if n := len(p.Nodes) + 2*k; x.Steps[s.Out] != n || x.Steps[s.In] != n+1 || s.Out >= s.In {
			tb.Errorf("limit %d: swap %d says steps %d and %d", x.Limit, k, s.Out, s.In)
		}
		// Nodes that are recomputed for a swap out run right before it. A tensor
		// recomputed there would be freed too late.
		for i := s.Out - 1; i >= 0 && slices.Contains(x.Steps[:i], x.Steps[i]); i-- {
			if x.Steps[i] == int(p.Tensors[s.Tensor].Producer) {
				tb.Errorf("limit %d: tensor %d is recomputed at step %d to be swapped out at step %d", x.Limit, s.Tensor, i, s.Out)
			}
		}
	}
}

// chainProblem returns a forward pass of n nodes and a backward pass that reads the result
// of each. All tensors have the same size, and all nodes the same cost.
func chainProblem(n int, size, cost func(i int) int64) *schedule.Problem {
	p := &schedule.Problem{}
	for i := range 2 * n {
		p.Nodes = append(p.Nodes, schedule.Node{Cost: cost(i)})
		x := schedule.Tensor{Bytes: size(i), Producer: int32(i)}
		if i < 2*n-1 {
			x.Consumers = []int32{int32(i) + 1}
		}
		if i < n-1 {
			x.Consumers = append(x.Consumers, int32(2*n-1-i))
		}
		p.Tensors = append(p.Tensors, x)
	}
	return p
}

func upTo(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}

func lineSwapperOf(tb testing.TB, p *schedule.Problem, link int64) *lineSwapper {
	tb.Helper()
	s, err := NewSwapper(p, [][]int32{upTo(len(p.Nodes))}, SwapOptions{Link: link})
	if err != nil {
		tb.Fatal(err)
	}
	return s.lines[0]
}

// Four nodes forward and four backward take 100 ns each and make 1 MiB each. A link of
// 10,000 MiB/s needs 100 ns for a tensor. The load is 1 2 3 4 5 5 4 3 MiB: at step 4 the
// tensors of nodes 0, 1 and 2 are held besides the input and the output of the step.
// Tensor 0 is read at steps 1 and 7, tensor 1 at steps 2 and 6.
func TestSwapByHand(t *testing.T) {
	const mib = 1 << 20
	p := chainProblem(4, func(int) int64 { return mib }, func(int) int64 { return 100 })
	h := lineSwapperOf(t, p, 10_000*mib*1000)
	if h.peak != 5*mib || h.at != 4 {
		t.Fatalf("peak %d at %d", h.peak, h.at)
	}
	first := swap{buffer: 0, from: 1, to: 7, size: mib, time: 100}
	second := swap{buffer: 1, from: 2, to: 6, size: mib, time: 100}
	slow := func(x swap) swap { x.time = 250; return x }
	for _, c := range []struct {
		name          string
		set           []swap
		limit         int64
		end           int64
		away, returns []int32
	}{
		// Out from 200 to 300, in step 2; in from 600 to 700, in step 6.
		{"one that nobody waits for", []swap{first}, 4 * mib, 800, []int32{2}, []int32{6}},
		// The second goes out from 300 to 400 and comes in from 500 to 600; the first
		// comes in at step 6 (600 to 700).
		{"two in a row", []swap{first, second}, 4 * mib, 800, []int32{2, 3}, []int32{6, 5}},
		{"nothing", nil, 5 * mib, 800, nil, nil},
		// Out from 200 to 450. Step 4 would hold 5 MiB with it, so it waits from 400 to
		// 450. Step 7 reads it, so the swap in is due at 700 - 250 + 50 = 500, in step 4
		// (450 to 550); but with it steps 4 and 5 would hold 5 MiB again. Step 6 (650 to
		// 750) has room. The swap in ends at 900, and step 7 waits for it.
		{"a step waits for room, then for its input", []swap{slow(first)}, 4 * mib, 1000, []int32{3}, []int32{6}},
	} {
		got, ok := h.simulate(&work{}, c.set, c.limit)
		if !ok || got.end != c.end || !slices.Equal(got.away, c.away) || !slices.Equal(got.returns, c.returns) {
			t.Errorf("%s: %+v, %v: expected end %d, away %v, returns %v", c.name, got, ok, c.end, c.away, c.returns)
		}
		if end, most := ticks(h, c.set, c.limit); end != c.end || most > c.limit {
			t.Errorf("%s: nanosecond by nanosecond it ends at %d with at most %d bytes", c.name, end, most)
		}
	}
	if _, ok := h.simulate(&work{}, []swap{first}, 4*mib-1); ok {
		t.Error("simulate accepts a load above the limit while all swapped buffers are absent")
	}
}

func TestSwapSimulationAgainstTicks(t *testing.T) {
	waited := 0
	for seed := range uint64(1500) {
		draw := rand.New(rand.NewPCG(seed, 1))
		n := 3 + draw.IntN(6)
		p := chainProblem(n,
			func(int) int64 { return int64(1+draw.IntN(4)) << 20 },
			func(int) int64 { return int64(draw.IntN(12)) })
		for range draw.IntN(4) { // more readers
			i := draw.IntN(2*n - 2)
			p.Tensors[i].Consumers = append(p.Tensors[i].Consumers, int32(i+1+draw.IntN(2*n-1-i)))
		}
		h := lineSwapperOf(t, p, (1<<20)*1e9/int64(1+draw.IntN(8)))
		var set []swap
		for _, c := range h.choices {
			if draw.IntN(3) > 0 {
				set = append(set, c.swap)
			}
		}
		_, _, least := h.absent(set)
		limit := least + int64(draw.IntN(4))<<20
		got, ok := h.simulate(&work{}, set, limit)
		if !ok {
			t.Fatalf("seed %d: limit %d is refused with a least load of %d", seed, limit, least)
		}
		end, most := ticks(h, set, limit)
		if got.end != end {
			t.Fatalf("seed %d: ends at %d, nanosecond by nanosecond at %d (plain %d)", seed, got.end, end, h.begin[2*n])
		}
		if most > limit {
			t.Fatalf("seed %d: %d bytes at some time, limit %d", seed, most, limit)
		}
		if x := h.withTransfers(&work{}, set, limit); x.peak > limit {
			t.Fatalf("seed %d: the problem with the transfers as nodes has a peak of %d, limit %d", seed, x.peak, limit)
		}
		if end > h.begin[2*n] {
			waited++
		}
	}
	if waited < 200 {
		t.Errorf("only %d steps wait for a transfer", waited)
	}
}

// Plans on random graphs with in-place writers, pairs and outputs keep their limit,
// replay, cost no more than swapping alone or recomputation alone, are monotone in the
// limit, and are the same when planned again.
func TestSwapPlans(t *testing.T) {
	swapped, both := 0, 0
	for seed := range uint64(60) {
		draw := rand.New(rand.NewPCG(seed, 5))
		p := chainProblem(4+draw.IntN(8),
			func(int) int64 { return int64(1+draw.IntN(5)) << 20 },
			func(int) int64 { return 1000 * int64(1+draw.IntN(20)) })
		if draw.IntN(2) == 0 { // the second node writes over the first's result, or its own may
			p.Nodes[1].Writes = []int32{0}
		}
		for i := 2; i < len(p.Tensors); i++ {
			if p.Tensors[i].Bytes == p.Tensors[i-1].Bytes {
				p.Tensors[i].Reuses = schedule.Reuses{int32(i - 1)}
			}
		}
		orders := [][]int32{upTo(len(p.Nodes))}
		e, err := p.Evaluate(orders[0])
		if err != nil {
			t.Fatal(err)
		}
		var limits []int64
		for percent := int64(100); percent >= 30; percent -= 10 {
			limits = append(limits, e.Peak*percent/100)
		}
		plans := func(opt SwapOptions) []*SwapPlan {
			opt.Link = int64(1+seed%7) * 200e9
			s, err := NewSwapper(p, orders, opt)
			if err != nil {
				t.Fatal(err)
			}
			found := s.Frontier(context.Background(), limits)
			for i, x := range found {
				checkSwaps(t, p, x)
				if i > 0 && x.Feasible == Found && (found[i-1].Feasible != Found || found[i-1].ExtraCost > x.ExtraCost) {
					t.Errorf("seed %d: limit %d costs less than %d", seed, x.Limit, found[i-1].Limit)
				}
			}
			if t.Failed() {
				t.FailNow()
			}
			return found
		}
		all, alone := plans(SwapOptions{}), plans(SwapOptions{NoRecompute: true})
		if again := plans(SwapOptions{}); !reflect.DeepEqual(all, again) {
			t.Fatalf("seed %d: planned again, the plan differs", seed)
		}
		repeated, err := Frontier(context.Background(), p, orders, limits, Options{NoBound: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range all {
			for _, y := range []*Plan{&alone[i].Plan, repeated[i]} {
				if y.Feasible == Found && (x.Feasible != Found || x.ExtraCost > y.ExtraCost) {
					t.Fatalf("seed %d, limit %d: %d ns, swapping alone or recomputing alone %d", seed, x.Limit, x.ExtraCost, y.ExtraCost)
				}
			}
			if len(x.Swaps) > 0 {
				swapped++
				if x.ExtraCost > x.Waiting {
					both++
				}
			}
		}
	}
	t.Logf("%d plans swap, %d of them repeat nodes too", swapped, both)
	if swapped < 50 || both < 10 {
		t.Errorf("%d plans swap, and %d of them recompute as well: expected more", swapped, both)
	}
}

// No tensor is recomputed only to be swapped out. One of this step's plans once did that,
// and its transfer would have begun where it had to end.
func TestNothingIsRecomputedToBeSwapped(t *testing.T) {
	draw := rand.New(rand.NewPCG(25, 5))
	p := chainProblem(10+draw.IntN(30),
		func(int) int64 { return int64(1+draw.IntN(5)) << 20 },
		func(int) int64 { return 1000 * int64(1+draw.IntN(20)) })
	order := upTo(len(p.Nodes))
	e, err := p.Evaluate(order)
	if err != nil {
		t.Fatal(err)
	}
	var limits []int64
	for percent := int64(90); percent >= 30; percent -= 10 {
		limits = append(limits, e.Peak*percent/100)
	}
	s, err := NewSwapper(p, [][]int32{order}, SwapOptions{Link: 250e9})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range s.Frontier(context.Background(), limits) {
		checkSwaps(t, p, x)
	}
}

// TestSwapResNet checks one row of the swapping table; BenchmarkSwap measures all of it.
func TestSwapResNet(t *testing.T) {
	p := readData(t, "resnet50-train-bs32")
	r, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit := r.Evaluation.Peak / 100 * 60
	for _, c := range []struct {
		opt  SwapOptions
		most float64
	}{
		{SwapOptions{Link: 36e9, NoRecompute: true}, 7.7 + 2},
		{SwapOptions{Link: 36e9}, 0.9 + 2},
		{SwapOptions{Link: 12e9}, 3.6 + 2},
	} {
		c.opt.Effort = schedule.EffortFast
		s, err := NewSwapper(p, r.Orders, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		x := s.Solve(context.Background(), limit)
		checkSwaps(t, p, x)
		if x.Feasible != Found || x.ExtraPercent > c.most {
			t.Errorf("%+v: %v, %.2f %%: expected at most %.2f", c.opt, x.Feasible, x.ExtraPercent, c.most)
		}
	}
}

// Combined plans use the order in which recomputation is cheapest, wherever it is listed:
// with a bad order first they cost hardly more than with it last.
func TestSwapOrders(t *testing.T) {
	p := readData(t, "resnet50-train-bs32")
	r, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bad := schedule.DepthFirst(p)
	limit := r.Evaluation.Peak / 100 * 60
	extra := func(orders ...[]int32) float64 {
		s, err := NewSwapper(p, orders, SwapOptions{Effort: schedule.EffortFast, Link: 12e9})
		if err != nil {
			t.Fatal(err)
		}
		x := s.Solve(context.Background(), limit)
		checkSwaps(t, p, x)
		if x.Feasible != Found || len(x.Swaps) == 0 {
			t.Fatalf("%v, %d swaps", x.Feasible, len(x.Swaps))
		}
		return x.ExtraPercent
	}
	good, alone := r.Orders[0], extra(bad)
	first, last := extra(bad, good), extra(good, bad)
	t.Logf("the bad order alone: %.2f %%, before the good one: %.2f %%, after it: %.2f %%", alone, first, last)
	if first > 1.02*last || first > alone {
		t.Errorf("the bad order alone: %.2f %%, before the good one: %.2f %%, after it: %.2f %%", alone, first, last)
	}
}

func TestSwapRefuses(t *testing.T) {
	p := chainProblem(2, func(int) int64 { return 1 << 20 }, func(int) int64 { return 1 })
	if _, err := NewSwapper(p, [][]int32{upTo(4)}, SwapOptions{}); err == nil {
		t.Error("a link of 0 bytes per second is accepted")
	}
	// The sizes sum to the largest int64, and the link is very slow.
	p.Tensors[0].Bytes = math.MaxInt64 - 3<<20
	s, err := NewSwapper(p, [][]int32{upTo(4)}, SwapOptions{Link: 1})
	if err != nil {
		t.Fatal(err)
	}
	if x := s.Solve(context.Background(), 1<<21); x.Feasible != Impossible {
		t.Errorf("%v", x.Feasible)
	}
}

// TestLinkIsNeverDearer: with a link to a host, every limit that has a plan without one has a
// plan, and none costs more, however slow or fast the link is.
func TestLinkIsNeverDearer(t *testing.T) {
	graphs := 60
	if !sweeps.On() {
		graphs = 15
	}
	cheaper := 0
	for k := range graphs {
		r := rand.New(rand.NewPCG(uint64(k), 44))
		p := chained(r)
		if k%3 == 2 {
			p = unrestricted(r, false)
		}
		for i := range p.Tensors {
			p.Tensors[i].Bytes *= leastSwap
		}
		for i := range p.Nodes {
			p.Nodes[i].Cost *= 100_000
		}
		found, err := schedule.Solve(t.Context(), p, schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var limits []int64
		for percent := int64(95); percent >= 50; percent -= 5 {
			limits = append(limits, found.Evaluation.Peak*percent/100)
		}
		for _, effort := range []schedule.Effort{schedule.EffortFast, schedule.EffortDefault} {
			alone, err := Frontier(t.Context(), p, found.Orders, limits, Options{Effort: effort})
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range []int64{1e8, 2e10, 1e12} {
				s, err := NewSwapper(p, found.Orders, SwapOptions{Effort: effort, Link: link})
				if err != nil {
					t.Fatal(err)
				}
				for i, x := range s.Frontier(t.Context(), limits) {
					y := alone[i]
					if y.Feasible == Found && (x.Feasible != Found || x.ExtraCost > y.ExtraCost) {
						t.Errorf("graph %d, limit %d, link %d, effort %d: %v at %d, without the link found at %d", k, limits[i], link, effort, x.Feasible, x.ExtraCost, y.ExtraCost)
					}
					if x.Feasible == Found && (y.Feasible != Found || x.ExtraCost < y.ExtraCost) {
						cheaper++
					}
					if x.LowerBound != 0 {
						t.Errorf("graph %d, limit %d: a lower bound of %d, expected none: it would be one without swaps", k, limits[i], x.LowerBound)
					}
					checkSwaps(t, p, x)
				}
			}
		}
	}
	t.Logf("the link makes %d plans cheaper or possible", cheaper)
}
