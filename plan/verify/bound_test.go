package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// randomScope makes a small graph with everything that affects bounds: several outputs
// and readers, views of views, in-place results, dynamic tensors, tensors of 0 bytes,
// unread tensors, constants, workspaces, and parameters that are updated.
func randomScope(r *rand.Rand) *scope { return randomScopeOf(r, 2+r.IntN(7)) }

func randomScopeOf(r *rand.Rand, nodes int) *scope {
	g := &graph.Graph{}
	tensor := func(bytes int64) graph.TensorID {
		id := g.NewTensor(fmt.Sprint("t", len(g.Tensors)))
		g.Tensors[id].Bytes = bytes
		return id
	}
	size := func() int64 { return 64 * []int64{0, 1, 1, 1, 2, 2, 3, 7}[r.IntN(8)] }
	for range 1 + r.IntN(3) {
		id := tensor(size())
		g.Tensors[id].Input = true
		g.Inputs = append(g.Inputs, id)
	}
	if r.IntN(3) == 0 {
		g.Tensors[tensor(64)].Data = &graph.Data{Bytes: 64}
	}
	for n := range nodes {
		node := &graph.Node{Name: fmt.Sprint("n", n)}
		for range r.IntN(4) {
			// Late tensors are more likely, to make chains.
			a, b := r.IntN(len(g.Tensors)), r.IntN(len(g.Tensors))
			node.Inputs = append(node.Inputs, graph.TensorID(max(a, b)))
		}
		for range r.IntN(3) {
			bytes := size()
			if len(node.Inputs) > 0 && r.IntN(2) == 0 {
				bytes = g.Tensors[node.Inputs[0]].Bytes
			}
			id := tensor(bytes)
			if r.IntN(12) == 0 {
				g.Tensors[id].Dynamic = "for a test"
			}
			node.Outputs = append(node.Outputs, id)
		}
		for out := range node.Outputs {
			for in := range node.Inputs {
				switch r.IntN(8) {
				case 0:
					node.Semantics.Views = append(node.Semantics.Views, graph.Alias{Out: out, In: in})
				case 1, 2, 3, 4:
					node.Semantics.Inplace = append(node.Semantics.Inplace, graph.Alias{Out: out, In: in})
				}
			}
		}
		g.Nodes = append(g.Nodes, node)
	}
	for id := range g.Tensors {
		if r.IntN(6) == 0 {
			g.Outputs = append(g.Outputs, graph.TensorID(id))
		}
	}
	g.Link()
	v := &verifier{p: &plan.Plan{Alignment: 64, Sharing: plan.Sharing{Views: r.IntN(4) > 0, Inplace: r.IntN(4) > 0}}, r: &Report{}}
	if r.IntN(4) == 0 && len(g.Outputs) > 0 {
		in, out := g.Inputs[0], g.Outputs[r.IntN(len(g.Outputs))]
		v.updates = map[string]string{g.Tensors[in].Name: g.Tensors[out].Name}
	}
	s := v.newScope(g, mainGraph, "")
	s.share()
	for n := range s.work {
		if r.IntN(4) == 0 {
			s.work[n] = size()
		}
	}
	return s
}

// states enumerates the downsets of a small scope.
type states struct {
	s     *scope
	must  []int // by node: the nodes that must run before it, as bits
	pairs [][]pair
}

// newStates derives precedence from the same facts as the orders that it accepts.
func newStates(s *scope) *states {
	q := &states{s: s, must: make([]int, len(s.g.Nodes)), pairs: make([][]pair, len(s.g.Nodes))}
	for i, n := range s.g.Nodes {
		q.pairs[i] = s.pairs(graph.NodeID(i))
		n.Reads(func(t graph.TensorID) {
			if m := s.g.Tensors[t].Maker; m >= 0 {
				q.must[i] |= 1 << m
			}
		})
	}
	for _, u := range s.updated {
		maker := s.storages[u.updated].maker
		for _, r := range s.storages[u.old].readers {
			if r < maker {
				q.must[maker] |= 1 << r
			}
		}
	}
	return q
}

func (q *states) downset(set int) bool {
	for n, must := range q.must {
		if set>>n&1 != 0 && must&^set != 0 {
			return false
		}
	}
	return true
}

// load returns the load of node n when it runs in a state, without inputs that nobody
// reads.
func (q *states) load(n, set int) int64 {
	load := q.s.work[n]
	waits := func(i int32) (count int) {
		for _, r := range q.s.storages[i].readers {
			if set>>r&1 == 0 {
				count++
			}
		}
		return count
	}
	for i := range q.s.storages {
		st := &q.s.storages[i]
		made := st.maker < 0 || set>>st.maker&1 != 0
		if q.s.counts(int32(i)) && (made && (st.output || waits(int32(i)) > 0) || st.maker == graph.NodeID(n)) {
			load += st.bytes
		}
	}
	var ready []pair
	for _, p := range q.pairs[n] {
		if waits(p.over) == 1 {
			ready = append(ready, p)
		}
	}
	return load - q.s.saved(ready)
}

// least returns the least load of node n over the states that keep accepts.
func (q *states) least(n int, idle int64, keep func(set int) bool) int64 {
	least, empty := int64(math.MaxInt64), true
	for set := range 1 << len(q.must) {
		if set>>n&1 == 0 && q.must[n]&^set == 0 && q.downset(set) && keep(set) {
			least = min(least, q.load(n, set))
			empty = empty && set == 0
		}
	}
	if empty && least < math.MaxInt64 {
		least += idle // it can run only at step 0
	}
	return least
}

// TestBoundsAreExact compares the bounds of one node, and of the first and the last of a
// set, with the least load over all states and with the peaks of all orders.
func TestBoundsAreExact(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	var met, paired, several int // numbers of tested cases
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		s := randomScope(r)
		b, q := newBounds(s), newStates(s)
		n := len(s.g.Nodes)
		// Sizes are multiples of 64, so the bound is accepted and anything above it is
		// not.
		check := func(what string, bound func(target int64) answer, want int64) {
			t.Helper()
			if got := bound(want); got.unknown || got.bytes < want {
				t.Fatalf("seed %d: %s: %d bytes (unknown: %t), expected %d or more", seed, what, got.bytes, got.unknown, want)
			}
			if got := bound(want + 64); got.unknown || got.bytes != want {
				t.Fatalf("seed %d: %s: %d bytes (unknown: %t), expected %d", seed, what, got.bytes, got.unknown, want)
			}
		}
		best := int64(0)
		for v := range n {
			want := q.least(v, b.idle, func(int) bool { return true })
			one := []graph.NodeID{graph.NodeID(v)}
			check(fmt.Sprint("cut of node ", v), func(target int64) answer { return b.atNode(one[0], target) }, want)
			check(fmt.Sprint("the first of ", one), func(target int64) answer { return b.firstOf(one, target) }, want)
			check(fmt.Sprint("the last of ", one), func(target int64) answer { return b.lastOf(one, target) }, want)
			best = max(best, want)
			if len(q.pairs[v]) > 0 {
				paired++
			}
			if len(maximal(b.alike(q.pairs[v]), maxMatchings)) > 1 {
				several++
			}
		}
		for range 4 {
			set, bits := []graph.NodeID{}, 0
			for _, v := range r.Perm(n)[:1+r.IntN(n)] {
				set, bits = append(set, graph.NodeID(v)), bits|1<<v
			}
			first, last := int64(math.MaxInt64), int64(math.MaxInt64)
			for _, v := range set {
				first = min(first, q.least(int(v), b.idle, func(s int) bool { return s&bits == 0 }))
				last = min(last, q.least(int(v), b.idle, func(s int) bool { return (s|1<<v)&bits == bits }))
			}
			check(fmt.Sprint("the first of ", set), func(target int64) answer { return b.firstOf(set, target) }, first)
			check(fmt.Sprint("the last of ", set), func(target int64) answer { return b.lastOf(set, target) }, last)
			best = max(best, first, last)
		}
		least := int64(math.MaxInt64)
		for range 20 {
			_, peak := s.simulate(randomOrder(r, q))
			least = min(least, peak)
		}
		if best > least {
			t.Fatalf("seed %d: a bound of %d bytes, but an order of %d", seed, best, least)
		}
		if best == least {
			met++
		}
	}
	t.Logf("%d graphs, %d whose bound an order meets; %d nodes with in-place pairs, %d of them with several matchings", rounds, met, paired, several)
	if met < rounds/2 || paired < rounds/3 || several < rounds/40 {
		t.Errorf("too few cases are tested")
	}
}

func randomOrder(r *rand.Rand, q *states) []graph.NodeID {
	var order []graph.NodeID
	for set := 0; len(order) < len(q.must); {
		for _, n := range r.Perm(len(q.must)) {
			if set>>n&1 == 0 && q.must[n]&^set == 0 {
				set |= 1 << n
				order = append(order, graph.NodeID(n))
				break
			}
		}
	}
	return order
}

// TestMaximal compares the matchings with all sets of pairs.
func TestMaximal(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var pairs []option
		for result := range int32(3) {
			for over := int32(3); over < 6; over++ {
				if r.IntN(2) == 0 {
					pairs = append(pairs, option{pair{result, over}, 64})
				}
			}
		}
		compatible := func(set int) bool {
			for i := range pairs {
				for j := range i {
					if set>>i&1 != 0 && set>>j&1 != 0 && (pairs[i].result == pairs[j].result || pairs[i].over == pairs[j].over) {
						return false
					}
				}
			}
			return true
		}
		var want [][]option
		for set := range 1 << len(pairs) {
			ok := compatible(set)
			for i := range pairs {
				ok = ok && (set>>i&1 != 0 || !compatible(set|1<<i))
			}
			if !ok {
				continue
			}
			var m []option
			for i := range pairs {
				if set>>i&1 != 0 {
					m = append(m, pairs[i])
				}
			}
			want = append(want, m)
		}
		for _, limit := range []int{len(want), len(want) - 1} {
			got := maximal(pairs, limit)
			if limit < len(want) && got != nil || limit == len(want) && len(got) != len(want) {
				t.Fatalf("%v: %d matchings, expected %d, at most %d", pairs, len(got), len(want), limit)
			}
			for _, m := range got {
				if !slices.ContainsFunc(want, func(x []option) bool { return slices.Equal(x, m) }) {
					t.Fatalf("%v: %v is not a maximal matching", pairs, m)
				}
			}
		}
	}
}

// TestReduce compares the flow through a network that was reduced, or through which flow
// was pushed, with gonum's flow through the whole network.
func TestReduce(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	left := 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		n := 2 + r.IntN(12)
		build := func(r *rand.Rand) *network {
			w := &network{b: &bounds{unit: 1}, excess: make([]int64, n)}
			for range r.IntN(4 * n) {
				units := int64(1 + r.IntN(9))
				v, u := int32(r.IntN(n)), int32(r.IntN(n))
				switch {
				case r.IntN(6) == 0:
					w.give(v, units)
				case r.IntN(6) == 0:
					w.take(v, units)
				case v < u:
					w.edges = append(w.edges, edge{v, u, units})
				case v > u: // in one direction, like precedence
					w.edges = append(w.edges, edge{v, u, unlimited})
				}
			}
			return w
		}
		again := func() *network {
			w := build(rand.New(rand.NewPCG(uint64(seed), 7)))
			w.link()
			return w
		}
		finish := func(w *network, few int) int64 {
			for _, part := range w.parts() {
				if part = w.push(part, few); len(part) > 0 {
					w.flow += w.dinic(part)
					left++
				}
			}
			return w.flow
		}
		want := finish(again(), n)
		reduced := again()
		reduced.reduce()
		if got := finish(reduced, n); got != want {
			t.Fatalf("seed %d: a flow of %d through the reduced network, expected %d", seed, got, want)
		}
		for _, few := range []int{0, r.IntN(n)} {
			if got := finish(again(), few); got != want {
				t.Fatalf("seed %d: a flow of %d, pushed until %d vertices are left, expected %d", seed, got, few, want)
			}
			reduced = again()
			reduced.reduce()
			if got := finish(reduced, few); got != want {
				t.Fatalf("seed %d: a flow of %d, reduced and pushed until %d vertices are left, expected %d", seed, got, few, want)
			}
		}
	}
	if left < rounds/2 {
		t.Errorf("too little is left to gonum: %d parts of %d networks", left, rounds)
	}
}

// TestTooLarge: a flow that float64 cannot hold exactly is not reported as exact.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		units int64
		ok    bool
	}{{maxUnits / 4, true}, {maxUnits, false}} {
		w := &network{b: &bounds{unit: 1}, excess: make([]int64, 2)}
		w.give(0, c.units)
		w.take(1, c.units)
		w.edges = []edge{{0, 1, c.units}}
		if flow, ok := w.maxFlow(unlimited); ok != c.ok || ok && flow != c.units {
			t.Errorf("%d units: a flow of %d, exact: %t, expected %t", c.units, flow, ok, c.ok)
		}
	}
}

// TestTooMuch: a plan that needs more flows than the verifier's budget is not refused,
// but proves nothing.
func TestTooMuch(t *testing.T) {
	s := randomScope(rand.New(rand.NewPCG(1, 5)))
	b := newBounds(s)
	simple := s.atNode(0)
	if a := b.atNode(0, simple+64); a.unknown {
		t.Fatalf("%v: expected a bound", a)
	}
	b.work = maxWork
	if a := b.atNode(0, simple+64); !a.unknown {
		t.Errorf("%v: expected none", a)
	}
	if a := b.atNode(0, simple); a.unknown || a.bytes != simple {
		t.Errorf("%v: expected %d bytes, which take no flow", a, simple)
	}
}
