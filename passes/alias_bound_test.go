package passes

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/passes/internal/alias"
	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/schedule"
)

// aliasing prepares a random model up to the storages of its graph.
func aliasing(t *testing.T, seed uint64, opt Options) *State {
	t.Helper()
	s, err := newState(randmodel.Joins(seed, 3+int(seed%8)), opt)
	if err != nil {
		t.Fatal(err)
	}
	list, err := upTo(Default(), "order")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.run(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return s
}

// optimum is the smallest peak of all orders of a problem, by trying all.
func optimum(t *testing.T, p *schedule.Problem) int64 {
	t.Helper()
	n := len(p.Nodes)
	before := make([][]int32, n)
	for i := range p.Tensors {
		x := &p.Tensors[i]
		for _, c := range x.Consumers {
			if x.Producer >= 0 {
				before[c] = append(before[c], x.Producer)
			}
		}
	}
	best := int64(-1)
	var order []int32
	ran := make([]bool, n)
	tries := 0
	var extend func()
	extend = func() {
		if tries > 3000 {
			return
		}
		if len(order) == n {
			tries++
			e, err := p.Evaluate(order)
			if err != nil {
				t.Fatal(err)
			}
			if best < 0 || e.Peak < best {
				best = e.Peak
			}
			return
		}
		for v := range int32(n) {
			if ran[v] || slices.ContainsFunc(before[v], func(u int32) bool { return !ran[u] }) {
				continue
			}
			ran[v], order = true, append(order, v)
			extend()
			ran[v], order = false, order[:len(order)-1]
		}
	}
	extend()
	if tries > 3000 {
		return -1
	}
	return best
}

// TestAliasBoundByBruteForce: over all orders and all sets of nodes that share bytes, no
// peak is below the optimum of the relaxed problem, and the pass finds the smallest.
func TestAliasBoundByBruteForce(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 40
	}
	compared, met := 0, 0
	for seed := range seeds {
		s := aliasing(t, seed, Options{})
		r := s.now.Main
		g := r.AliasGraph()
		if len(g.Nodes) == 0 || len(g.Nodes) > 6 {
			continue
		}
		pairs := r.AliasPairs()
		l := g.Relax()
		q, _ := r.Aliased(l, l.Pieces(pairs), pairs)
		bound := optimum(t, q.Problem())
		if bound < 0 {
			continue
		}
		least := int64(-1)
		for set := range 1 << len(g.Nodes) {
			l := g.Choose(func(n int32) bool {
				k := slices.IndexFunc(g.Nodes, func(x alias.Node) bool { return x.ID == n })
				return set>>k&1 > 0
			})
			q, _ := r.Aliased(l, l.Pieces(nil), pairs)
			peak := optimum(t, q.Problem())
			if peak < bound {
				t.Fatalf("seed %d: a peak of %d without the nodes %b, below the bound %d", seed, peak, set, bound)
			}
			if least < 0 || peak < least {
				least = peak
			}
		}
		compared++
		if least == bound {
			met++
		}
		plan, err := Optimize(t.Context(), randmodel.Joins(seed, 3+int(seed%8)), Options{Aliases: AliasesOn})
		if err != nil {
			t.Fatal(err)
		}
		if sum := &plan.Plan.Summary; plan.Plan.Sharing.Aliases && sum.LowerBoundBytes > bound || sum.PeakBytes < least {
			t.Errorf("seed %d: bound %d and peak %d, expected at most %d and at least %d", seed, sum.LowerBoundBytes, sum.PeakBytes, bound, least)
		}
	}
	t.Logf("%d models, the bound is met in %d", compared, met)
	if compared < int(seeds)/8 {
		t.Errorf("%d models were compared: nothing is tested", compared)
	}
}

// TestAliasesCostNoLoad: without in-place results, sharing the bytes of a Concat or a Split
// makes no step of any order need more.
func TestAliasesCostNoLoad(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(300) {
		s := aliasing(t, seed, Options{NoInplace: true})
		r := s.now.Main
		g := r.AliasGraph()
		left := random.Uint64()
		l := g.Choose(func(n int32) bool { return left>>(n%64)&1 > 0 })
		q, _ := r.Aliased(l, l.Pieces(nil), nil)
		plain, shared := r.Problem(), q.Problem()
		for range 4 {
			order := anyOrder(plain, random)
			before, err := plain.Evaluate(order)
			if err != nil {
				t.Fatal(err)
			}
			after, err := shared.Evaluate(order)
			if err != nil {
				t.Fatal(err)
			}
			for step := range order {
				if after.Loads[step] > before.Loads[step] {
					t.Fatalf("seed %d, order %v: step %d needs %d bytes, and %d without aliases", seed, order, step, after.Loads[step], before.Loads[step])
				}
			}
		}
	}
}

// anyOrder draws a topological order.
func anyOrder(p *schedule.Problem, random *rand.Rand) []int32 {
	waits := make([]int, len(p.Nodes))
	after := make([][]int32, len(p.Nodes))
	for i := range p.Tensors {
		if x := &p.Tensors[i]; x.Producer >= 0 {
			for _, c := range x.Consumers {
				waits[c]++
				after[x.Producer] = append(after[x.Producer], c)
			}
		}
	}
	var ready, order []int32
	for v, n := range waits {
		if n == 0 {
			ready = append(ready, int32(v))
		}
	}
	for len(ready) > 0 {
		k := random.IntN(len(ready))
		v := ready[k]
		ready = slices.Delete(ready, k, k+1)
		order = append(order, v)
		for _, c := range after[v] {
			if waits[c]--; waits[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
	return order
}

// TestAliasBoundOfLimits: no plan with aliases is below a limit that is called impossible, in
// whatever order its nodes run, and again. Of many networks, the next smaller limit is.
func TestAliasBoundOfLimits(t *testing.T) {
	again, met, aliased := 0, 0, 0
	for seed := range uint64(150) {
		draw := func() (*graph.Model, Options) {
			if seed%3 == 0 {
				return randmodel.Joins(seed, 3+int(seed%12)), Options{}
			}
			n := randmodel.Draw(seed)
			return n.Model, Options{Dims: n.Dims, Train: &autodiff.Options{Loss: "mse"}}
		}
		if _, err := beforeLimit(t, draw, nil); err != nil {
			continue // it has no training step
		}
		least := int64(math.MaxInt64)
		for _, extra := range []float64{0, 20, 1000} {
			m, opt := draw()
			opt.Aliases, opt.ExtraPercent = AliasesOn, extra
			r, err := Optimize(t.Context(), m, opt)
			if err != nil {
				t.Fatal(err)
			}
			x := &r.Plan.Summary
			least = min(least, x.PeakBytes)
			if x.Limited != nil && x.RecomputedNodes > 0 {
				again++
			}
			if r.Plan.Sharing.Aliases {
				aliased++
			}
		}
		switch {
		case impossible(t, draw, least):
			t.Errorf("seed %d: a limit of %d bytes is called impossible, and there is a plan", seed, least)
		case impossible(t, draw, least-1):
			met++
		}
	}
	t.Logf("%d plans with aliases, %d in which nodes run again; %d bounds are met", aliased, again, met)
	if aliased < 80 || again < 10 || met < 20 {
		t.Error("expected more of each")
	}
}

// beforeLimit runs all passes before limit.
func beforeLimit(t *testing.T, draw func() (*graph.Model, Options), limit *Limit) (*State, error) {
	t.Helper()
	m, opt := draw()
	opt.Aliases, opt.Limit = AliasesOn, limit
	s, err := newState(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	list, err := upTo(Default(), "limit")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.run(t.Context(), list)
	return s, err
}

// impossible reports whether a limit of so many bytes is called impossible for all plans with aliases.
func impossible(t *testing.T, draw func() (*graph.Model, Options), limit int64) bool {
	t.Helper()
	s, err := beforeLimit(t, draw, &Limit{Bytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	_, err = limits.Keep(t.Context(), s.task(), nil, limits.Choice{}, true)
	var none *limits.Error
	if err != nil && !errors.As(err, &none) {
		t.Fatal(err)
	}
	return none != nil && none.Impossible
}
