package verify

import (
	"math"
	"math/rand/v2"
	"testing"
)

// optimum returns the least peak over all orders, by dynamic programming over sets of
// nodes.
func (q *states) optimum(idle int64) int64 {
	n := len(q.must)
	peak := make([]int64, 1<<n)
	for set := range peak[1:] {
		peak[set+1] = math.MaxInt64
	}
	for set, before := range peak {
		for v := range n {
			if before == math.MaxInt64 || set>>v&1 != 0 || q.must[v]&^set != 0 {
				continue
			}
			load := q.load(v, set)
			if set == 0 {
				load += idle
			}
			next := set | 1<<v
			peak[next] = min(peak[next], max(before, load))
		}
	}
	return peak[len(peak)-1]
}

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
		s := randomScopeOf(r, 2+r.IntN(10))
		b := newBounds(s)
		want := newStates(s).optimum(b.idle)
		check := func(how string, limit int64, search func(*replay) result) {
			t.Helper()
			x, expect := newReplay(b, 0), noOrder
			if x.limit = limit; limit >= want {
				expect = anOrder
			}
			if got := search(x); got != expect {
				t.Fatalf("seed %d, %s: a limit of %d bytes: result %d with %v, expected %d: the least peak is %d", seed, how, limit, got, x.order, expect, want)
			}
			if expect == anOrder {
				if _, peak := s.simulate(x.order); peak > limit {
					t.Fatalf("seed %d, %s: order %v has a peak of %d bytes, expected at most %d", seed, how, x.order, peak, limit)
				}
			}
		}
		for _, limit := range []int64{want - 1, want - 64, want, want + 64} {
			check("plain", limit, func(x *replay) result {
				found := x.search()
				looked += x.states
				return found
			})
			check("dead states", limit, func(x *replay) result {
				x.deadAfter = 0
				return x.search()
			})
			if least := newReplay(b, 0).negligible(limit); least > 0 {
				coarse++
				if x := newReplay(b, least); x.run(limit) == noOrder && limit >= want {
					t.Fatalf("seed %d: no order within %d bytes without storages below %d: the least peak is %d", seed, limit, least, want)
				}
			}
			check("forced", limit, func(x *replay) result {
				possible := x.force()
				for v := range x.before {
					forced += len(x.before[v]) - len(b.before[v])
				}
				if !possible {
					refuted++
					return noOrder
				}
				return x.search()
			})
		}
		if b.idle > 0 {
			idle++
		}
	}
	t.Logf("%d graphs, %d with inputs that nobody reads; %d states, %d forced precedences, %d limits refuted by these alone, %d without small storages", rounds, idle, looked, forced, refuted, coarse)
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
			s := randomScopeOf(rand.New(rand.NewPCG(seed, 8)), 8)
			b := newBounds(s)
			r := newReplay(b, 0)
			r.limit, r.states, r.visits = newStates(s).optimum(b.idle), c.states, c.visits
			if r.search() != tooMuch {
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
