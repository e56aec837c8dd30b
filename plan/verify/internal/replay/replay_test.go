package replay

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core/coretest"
)

// TestReplay compares the replay, with and without forced precedence, with all orders:
// it refutes every limit below the least peak, and finds an order at that peak.
func TestReplay(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	looked, idle, forced, refuted, coarse := 0, 0, 0, 0, 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 8))
		p := coretest.Random(r, 2+r.IntN(10))
		b := core.NewBounds(p, core.MaxWork)
		want := coretest.NewStates(p).Optimum(b.Idle)
		check := func(how string, limit int64, search func(*replay) Verdict) {
			t.Helper()
			x, expect := newReplay(p, b, 0), NoOrder
			if x.limit = limit; limit >= want {
				expect = AnOrder
			}
			if got := search(x); got != expect {
				t.Fatalf("seed %d, %s: a limit of %d bytes: result %d with %v, expected %d: the least peak is %d", seed, how, limit, got, x.order, expect, want)
			}
			if expect == AnOrder {
				if _, peak := p.Simulate(x.order); peak > limit {
					t.Fatalf("seed %d, %s: order %v has a peak of %d bytes, expected at most %d", seed, how, x.order, peak, limit)
				}
			}
		}
		for _, limit := range []int64{want - 1, want - 64, want, want + 64} {
			check("plain", limit, func(x *replay) Verdict {
				found := x.search()
				looked += x.states
				return found
			})
			check("dead states", limit, func(x *replay) Verdict {
				x.deadAfter = 0
				return x.search()
			})
			if least := newReplay(p, b, 0).negligible(limit); least > 0 {
				coarse++
				if x := newReplay(p, b, least); x.run(limit) == NoOrder && limit >= want {
					t.Fatalf("seed %d: no order within %d bytes without storages below %d: the least peak is %d", seed, limit, least, want)
				}
			}
			check("forced", limit, func(x *replay) Verdict {
				possible := x.force()
				for v := range x.before {
					forced += len(x.before[v]) - len(b.Before[v])
				}
				if !possible {
					refuted++
					return NoOrder
				}
				return x.search()
			})
		}
		if b.Idle > 0 {
			idle++
		}
	}
	t.Logf("%d problems, %d with inputs that nobody reads; %d states, %d forced precedences, %d limits refuted by these alone, %d without small storages", rounds, idle, looked, forced, refuted, coarse)
	if looked < rounds || idle < rounds/20 || forced < rounds || refuted < rounds/2 {
		t.Errorf("too few cases are tested")
	}
}

// TestReplayGivesUp: a replay stops when it has done as much work as it may, and says how
// much.
func TestReplayGivesUp(t *testing.T) {
	for _, c := range []struct {
		states, visits int
		want           string
	}{
		{maxReplayStates, 0, "more than 2000000 states"},
		{0, maxReplayVisits + 1, "more than 400000000 visits to nodes, in 1 state"},
	} {
		gaveUp := 0
		for seed := range uint64(100) {
			p := coretest.Random(rand.New(rand.NewPCG(seed, 8)), 8)
			b := core.NewBounds(p, core.MaxWork)
			r := newReplay(p, b, 0)
			r.limit, r.states, r.visits = coretest.NewStates(p).Optimum(b.Idle), c.states, c.visits
			if r.search() != TooMuch {
				continue // the answer is known without a further state
			}
			gaveUp++
			if got := r.tooMany(); got != c.want {
				t.Fatalf("seed %d: %q, expected %q", seed, got, c.want)
			}
		}
		if gaveUp < 50 {
			t.Errorf("%s: %d of 100 searches gave up, expected most", c.want, gaveUp)
		}
	}
}
