package budget

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	sweeps "github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/schedule"
)

// exact finds the least extra time of any plan in any order by Dijkstra's algorithm. A
// state is the set of nodes that have run and the set of tensors that are held. It shares
// no code with the search or the bound. Costs must be small.
type exact struct {
	p          *schedule.Problem
	reads      []uint32 // node -> tensors
	makes      []uint32
	after      []uint32 // node -> nodes before it
	outs       uint32
	dist       []int32 // state -> 1 + the least cost, of this search
	seen       []int32
	search     int32
	byCost     [][]uint32
	sharings   [][]sharing // node -> what it may write over what, all choices
	nodes, all int
}

// sharing is a choice of in-place pairs.
type sharing struct {
	over  uint32
	saved int64
}

const maxBits = 20 // of a state: nodes and tensors

func newExact() *exact {
	return &exact{dist: make([]int32, 1<<maxBits), seen: make([]int32, 1<<maxBits)}
}

func (e *exact) load(p *schedule.Problem) {
	e.p, e.nodes, e.all = p, len(p.Nodes), len(p.Tensors)
	e.reads, e.makes, e.after = make([]uint32, e.nodes), make([]uint32, e.nodes), make([]uint32, e.nodes)
	e.outs = 0
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Output {
			e.outs |= 1 << i
		}
		if t.Producer >= 0 {
			e.makes[t.Producer] |= 1 << i
		}
		for _, v := range t.Consumers {
			e.reads[v] |= 1 << i
			if t.Producer >= 0 {
				e.after[v] |= 1 << t.Producer
			}
		}
	}
	e.sharings = make([][]sharing, e.nodes)
	for v := range e.sharings {
		e.sharings[v] = []sharing{{}}
	}
	for o := range p.Tensors {
		v := p.Tensors[o].Producer
		if v < 0 {
			continue
		}
		for _, x := range e.sharings[v] {
			for _, t := range p.Tensors[o].Reuses {
				if x.over>>t&1 == 0 && e.reads[v]>>t&1 == 1 && e.outs>>t&1 == 0 && p.Tensors[t].Bytes == p.Tensors[o].Bytes {
					e.sharings[v] = append(e.sharings[v], sharing{x.over | 1<<t, x.saved + p.Tensors[t].Bytes})
				}
			}
		}
	}
}

func (e *exact) bytes(set uint32) (size int64) {
	for ; set != 0; set &= set - 1 {
		size += e.p.Tensors[bits.TrailingZeros32(set)].Bytes
	}
	return size
}

// optimum returns the least extra time within a limit, or -1 if there is no plan.
func (e *exact) optimum(limit int64) int64 {
	e.search++
	for i := range e.byCost {
		e.byCost[i] = e.byCost[i][:0]
	}
	push := func(ran, held uint32, cost int64) {
		key := ran<<e.all | held
		if e.seen[key] == e.search && e.dist[key] <= int32(cost) {
			return
		}
		e.seen[key], e.dist[key] = e.search, int32(cost)
		for int64(len(e.byCost)) <= cost {
			e.byCost = append(e.byCost, nil)
		}
		e.byCost[cost] = append(e.byCost[cost], key)
	}
	var start uint32
	for t := range e.p.Tensors {
		if e.p.Tensors[t].Producer < 0 {
			start |= 1 << t
		}
	}
	push(0, start, 0)
	for cost := int64(0); cost < int64(len(e.byCost)); cost++ {
		for k := 0; k < len(e.byCost[cost]); k++ {
			key := e.byCost[cost][k]
			if int64(e.dist[key]) < cost {
				continue
			}
			ran, held := key>>e.all, key&(1<<e.all-1)
			if ran == 1<<e.nodes-1 && held&e.outs == e.outs {
				return cost
			}
			for s := held; s != 0 && ran != 0; s &= s - 1 { // the first step holds all inputs, read or not
				push(ran, held&^(s&-s), cost)
			}
			load := e.bytes(held)
			for v := range e.p.Nodes {
				if e.reads[v]&^held != 0 || e.after[v]&^ran != 0 {
					continue
				}
				node := &e.p.Nodes[v]
				c := cost
				if ran>>v&1 == 1 {
					if node.Once {
						continue
					}
					c += node.Cost
				}
				// While a node runs, an older instance of its result is held as well.
				top := load + e.bytes(e.makes[v]) + node.Workspace
				for _, x := range e.sharings[v] {
					if top-x.saved <= limit {
						push(ran|1<<v, held&^x.over|e.makes[v], c)
					}
				}
			}
		}
	}
	return -1
}

// chained returns a forward chain with skip connections and its backward pass.
func chained(r *rand.Rand) *schedule.Problem {
	length := 3 + r.IntN(2)
	n := 2 * length
	p := &schedule.Problem{Nodes: make([]schedule.Node, n)}
	for v := range p.Nodes {
		p.Nodes[v].Cost = int64(1 + r.IntN(12))
	}
	size := make([]int64, length+1)
	for i := range size {
		size[i] = int64(2 + r.IntN(8))
	}
	for i := range size {
		t := schedule.Tensor{Bytes: size[i], Producer: int32(i - 1)}
		if i < length {
			t.Consumers = append(t.Consumers, int32(i))
			if i+1 < length && r.IntN(4) == 0 {
				t.Consumers = append(t.Consumers, int32(i+1))
			}
			if r.IntN(3) > 0 {
				t.Consumers = append(t.Consumers, int32(n-1-i))
			}
		}
		if i > 0 && r.IntN(3) == 0 || i == length {
			t.Consumers = append(t.Consumers, int32(n-i))
		}
		p.Tensors = append(p.Tensors, t)
	}
	for i := length; i >= 1; i-- {
		t := schedule.Tensor{Producer: int32(n - i), Bytes: 1 + size[i-1]/3, Output: i == 1}
		if i > 1 {
			t.Consumers = []int32{int32(n - i + 1)}
		}
		p.Tensors = append(p.Tensors, t)
	}
	return p
}

// unrestricted returns a random graph with workspaces, several outputs and, if asked for,
// in-place pairs and nodes that must run once.
func unrestricted(r *rand.Rand, odd bool) *schedule.Problem {
	n := 5 + r.IntN(4)
	p := &schedule.Problem{}
	for range n {
		p.Nodes = append(p.Nodes, schedule.Node{Workspace: int64(r.IntN(3)), Cost: int64(1 + r.IntN(9)), Once: odd && r.IntN(6) == 0})
	}
	half := n
	if r.IntN(2) == 0 {
		half = (n + 1) / 2 // the second half mirrors the first
	}
	for v := -1; v < n; v++ {
		for range 1 + max(0, r.IntN(6)-4) {
			t := schedule.Tensor{Producer: int32(v), Bytes: int64(1 + r.IntN(8)), Output: v == n-1 || v >= 0 && r.IntN(12) == 0}
			for w := v + 1; w < n; w++ {
				chance := 1.2 / float64(n)
				switch {
				case w == v+1:
					chance = 0.8
				case half < n && v >= 0 && w == 2*half-1-v:
					chance = 0.9
				}
				if r.Float64() < chance {
					t.Consumers = append(t.Consumers, int32(w))
				}
			}
			if len(t.Consumers) == 0 && v < 0 {
				t.Consumers = []int32{0}
			}
			p.Tensors = append(p.Tensors, t)
		}
	}
	if odd {
		for o := range p.Tensors {
			for t := range p.Tensors {
				if slices.Contains(p.Tensors[t].Consumers, p.Tensors[o].Producer) && r.IntN(2) == 0 {
					p.Tensors[t].Bytes = p.Tensors[o].Bytes
					p.Tensors[o].Reuses = append(p.Tensors[o].Reuses, int32(t))
				}
			}
		}
	}
	return p
}

// outputsAndInputs returns an unrestricted graph in which two of three tensors live to the
// end, as gradients do, and that has up to three inputs more, read by any node or by none.
func outputsAndInputs(r *rand.Rand) *schedule.Problem {
	p := unrestricted(r, true)
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Producer >= 0 && r.IntN(3) > 0 && !overwritten(p, int32(i)) {
			t.Output = true
		}
	}
	for range r.IntN(4) {
		t := schedule.Tensor{Producer: -1, Bytes: int64(1 + r.IntN(8))}
		if r.IntN(3) > 0 {
			t.Consumers = []int32{int32(r.IntN(len(p.Nodes)))}
		}
		p.Tensors = append(p.Tensors, t)
	}
	return p
}

// overwritten reports whether an in-place pair overwrites a tensor.
func overwritten(p *schedule.Problem, t int32) bool {
	return slices.ContainsFunc(p.Tensors, func(x schedule.Tensor) bool { return slices.Contains(x.Reuses, t) })
}

// tally counts the verdicts for the limits of a family.
type tally struct {
	feasible, tight, none, impossible, proven int
	bounds, optima, plans                     int64
}

func TestAgainstTheOptimum(t *testing.T) {
	families := []struct {
		name   string
		graphs int
		make   func(r *rand.Rand) *schedule.Problem
	}{
		{"chains with skips and their backward pass", 2500, chained},
		{"unrestricted", 1500, func(r *rand.Rand) *schedule.Problem { return unrestricted(r, false) }},
		{"unrestricted, in-place pairs, nodes that run once", 1500, func(r *rand.Rand) *schedule.Problem { return unrestricted(r, true) }},
		{"many outputs and inputs", 1500, outputsAndInputs},
	}
	e := newExact()
	for f, family := range families {
		graphs := family.graphs
		if !sweeps.On() {
			graphs /= 3
		}
		var sum tally
		r := rand.New(rand.NewPCG(uint64(f), 10))
		for k := 0; k < graphs; k++ {
			p := family.make(r)
			if len(p.Nodes)+len(p.Tensors) > maxBits {
				k--
				continue
			}
			sum.add(t, e, p, [][]int64{{90, 80}, {95, 70}, {85, 60}}[k%3])
			if t.Failed() {
				t.Fatalf("%s, graph %d: %+v", family.name, k, p)
			}
		}
		t.Logf("%s: %d graphs: %d feasible, plan = optimum %d, no plan found %d; sums of bounds %d, optima %d, plans %d; impossible %d, proven %d",
			family.name, graphs, sum.feasible, sum.tight, sum.none, sum.bounds, sum.optima, sum.plans, sum.impossible, sum.proven)
	}
}

// add compares the plans for some limits, in per cent of the best peak, with the optimum.
func (sum *tally) add(t *testing.T, e *exact, p *schedule.Problem, percents []int64) {
	t.Helper()
	found, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, found.Orders, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.load(p)
	for _, percent := range percents {
		limit := found.Evaluation.Peak * percent / 100
		best := e.optimum(limit)
		x := s.Solve(context.Background(), limit)
		checkPlan(t, p, x)
		switch {
		case best < 0:
			sum.impossible++
			switch x.Feasible {
			case Impossible:
				sum.proven++
			case Found:
				t.Errorf("limit %d: got a plan, but none exists", limit)
			}
			continue
		case x.Feasible == Impossible:
			t.Errorf("limit %d: called impossible, the optimum is %d", limit, best)
		case x.LowerBound > best:
			t.Errorf("limit %d: bound %d, the optimum is %d", limit, x.LowerBound, best)
		case x.Feasible == Found && x.ExtraCost < best:
			t.Errorf("limit %d: plan of %d, the optimum is %d", limit, x.ExtraCost, best)
		}
		sum.feasible++
		if x.Feasible != Found {
			sum.none++
			continue
		}
		if x.ExtraCost == best {
			sum.tight++
		}
		sum.bounds += x.LowerBound
		sum.optima += best
		sum.plans += x.ExtraCost
	}
}
