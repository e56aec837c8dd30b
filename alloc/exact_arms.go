package alloc

import (
	"cmp"
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// arm is one way to search: the order in which candidates are tried, as keys
// that descend, ties going to the next key and then to the smaller index;
// whether only the lowest valleys are branched in; and whether what fits its
// valley best comes before all that.
//
//	W  width: the steps of the lifetime      A  area: width times size
//	Z  size                                  T  the largest load it meets
type arm struct {
	keys   string
	lowest bool
	fit    bool
	noise  float64 // of the only key: it is multiplied by 1 ± noise/2
	seed   uint64
}

// arms are tried first. No order suits all problems: one solves an instance in
// n nodes that another does not solve in a million.
var arms = []arm{
	{keys: "A"},
	{keys: "WAT"},
	{keys: "Z", lowest: true},
	{keys: "TAW", lowest: true},
	{keys: "A", lowest: true},
	{keys: "TAW"},
	{keys: "Z"},
	{keys: "T", lowest: true},
}

// noisy returns the k-th of the endless arms after those.
func noisy(k uint64) arm {
	return arm{
		keys:   "AZWT"[k%4 : k%4+1],
		noise:  [4]float64{0.2, 0.5, 1, 1.9}[k/4%4],
		lowest: k/16%2 == 1,
		fit:    (k+k/4)%2 == 1,
		seed:   k,
	}
}

// turns deals out arms, round robin, with node limits that double. Each round
// has twice as many noisy arms as the one before.
type turns struct {
	round, k int
	nodes    int64  // the limit of the round
	seed     uint64 // of the last noisy arm
}

func (t *turns) next() (arm, int64) {
	if t.k == len(arms)+8<<t.round {
		t.round, t.k, t.nodes = t.round+1, 0, 2*t.nodes
	}
	k := t.k
	t.k++
	if k < len(arms) {
		a := arms[k]
		a.fit = (k+t.round)%2 == 1
		return a, t.nodes
	}
	t.seed++
	return noisy(t.seed), t.nodes
}

// soloWork is spent before a second search joins in: most decisions are over
// by then, in less than a tenth of a second.
const soloWork = 20_000_000

// decide tries the arms until one of them knows, the budget of work is spent,
// or the context ends. After a while two arms run side by side, each on a state
// and a table of its own; both end before either is believed, and the first in
// order is: the result does not depend on which is faster.
func (x *exact) decide(capacity, budget int64) (outcome, []int64) {
	x.setCapacity(capacity)
	t := turns{nodes: 3 * int64(len(x.ids))}
	x.budget = x.work + min(budget, soloWork)
	for x.work <= x.budget && x.ctx.Err() == nil {
		if out, found := x.try(t.next()); out != gaveUp {
			return out, found
		}
	}
	if budget <= soloWork {
		return gaveUp, nil
	}
	if x.second == nil {
		x.second = x.clone()
	}
	y := x.second
	y.setCapacity(capacity)
	var stop context.CancelFunc
	y.ctx, stop = context.WithCancel(x.ctx)
	defer stop()
	x.budget, y.budget = x.work+(budget-soloWork)/2, y.work+(budget-soloWork)/2
	type answer struct {
		out   outcome
		found []int64
		fault *bug.Error
	}
	for x.work <= x.budget && y.work <= y.budget && x.ctx.Err() == nil {
		mine, nodes := t.next()
		others, _ := t.next()
		other := make(chan answer, 1)
		go func() {
			var a answer
			defer func() {
				if r := recover(); r != nil { // the caller panics, and may be recovered itself
					a.fault = bug.Recovered("", r)
				}
				other <- a
			}()
			a.out, a.found = y.try(others, nodes)
		}()
		out, found := x.try(mine, nodes)
		if out != gaveUp {
			stop()
		}
		b := <-other
		if b.fault != nil {
			panic(b.fault)
		}
		if out == gaveUp {
			out, found = b.out, b.found
		}
		if out != gaveUp {
			return out, found
		}
	}
	return gaveUp, nil
}

// try runs one arm up to a limit of nodes.
func (x *exact) try(a arm, nodes int64) (outcome, []int64) {
	x.order(a)
	x.limit = x.nodes + nodes
	return x.run()
}

// order ranks the buffers as an arm wants.
func (x *exact) order(a arm) {
	x.lowest, x.fit = a.lowest, a.fit
	values := make([][]float64, len(a.keys))
	for k, key := range []byte(a.keys) {
		values[k] = x.values(key)
		for b := range values[k] {
			if a.noise > 0 {
				values[k][b] *= 1 + a.noise*(x.noise(int32(b), a.seed)-0.5)
			}
		}
	}
	order := make([]int32, len(x.ids))
	for b := range order {
		order[b] = int32(b)
	}
	slices.SortFunc(order, func(i, j int32) int {
		for _, v := range values {
			if v[i] != v[j] {
				return -cmp.Compare(v[i], v[j])
			}
		}
		return cmp.Compare(i, j)
	})
	for rank, b := range order {
		x.rank[b] = int32(rank)
	}
}

// noise is from 0 to 1, and the same for buffers that are the same.
func (x *exact) noise(b int32, seed uint64) float64 {
	h := mix(seed*0x9e3779b97f4a7c15 ^ mix(uint64(x.lo[b])<<40^uint64(x.hi[b])<<20^uint64(x.size[b])))
	return float64(h>>11) / (1 << 53)
}

func (x *exact) values(key byte) []float64 {
	v := make([]float64, len(x.ids))
	for b := range v {
		switch key {
		case 'W':
			v[b] = x.width[b]
		case 'A':
			v[b] = x.width[b] * float64(x.size[b])
		case 'Z':
			v[b] = float64(x.size[b])
		case 'T':
			v[b] = float64(slices.Max(x.load[x.lo[b]:x.hi[b]]))
		}
	}
	return v
}
