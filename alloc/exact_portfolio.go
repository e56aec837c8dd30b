package alloc

import (
	"cmp"
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// config is one configuration of the search. The keys give the order in which candidates are
// tried. It is descending by the first key; ties go to the next key and then to the smaller
// index. lowest restricts branching to the niches with the lowest floor; fit tries the buffer
// that fits its niche best before all others.
//
//	W  width: the steps of the lifetime      A  area: width times size
//	Z  size                                  T  the largest load it meets
type config struct {
	keys   string
	lowest bool
	fit    bool
	noise  float64 // the only key is multiplied by 1 ± noise/2
	seed   uint64
}

// baseConfigs are tried first. No order suits all problems: one configuration may
// solve an instance within a hundred nodes that another does not solve within a
// million.
var baseConfigs = []config{
	{keys: "A"},
	{keys: "WAT"},
	{keys: "Z", lowest: true},
	{keys: "TAW", lowest: true},
	{keys: "A", lowest: true},
	{keys: "TAW"},
	{keys: "Z"},
	{keys: "T", lowest: true},
}

// noisyConfig returns the k-th of the unlimited configurations that follow
// baseConfigs.
func noisyConfig(k uint64) config {
	return config{
		keys:   "AZWT"[k%4 : k%4+1],
		noise:  [4]float64{0.2, 0.5, 1, 1.9}[k/4%4],
		lowest: k/16%2 == 1,
		fit:    (k+k/4)%2 == 1,
		seed:   k,
	}
}

// portfolio hands out configurations round robin, with node limits that double
// from round to round. Each round has twice as many noisy ones as the one before.
type portfolio struct {
	round, k int
	nodes    int64  // the node limit of the round
	seed     uint64 // of the last noisy configuration

	base  []config
	noisy int  // how many noisy configurations the first round has
	fits  bool // whether any configuration tries the best fit first
}

var wholePortfolio = portfolio{base: baseConfigs, noisy: 8, fits: true}

func (t *portfolio) next() (config, int64) {
	if t.k == len(t.base)+t.noisy<<t.round {
		t.round, t.k, t.nodes = t.round+1, 0, 2*t.nodes
	}
	k := t.k
	t.k++
	if k < len(t.base) {
		a := t.base[k]
		a.fit = (k+t.round)%2 == 1 && t.fits
		return a, t.nodes
	}
	t.seed++
	a := noisyConfig(t.seed)
	a.fit = a.fit && t.fits
	return a, t.nodes
}

// String is what Options.without calls one of baseConfigs.
func (a config) String() string {
	if a.lowest {
		return "order " + a.keys + " lowest"
	}
	return "order " + a.keys
}

// leaveOut switches parts of the search off, by name.
func (x *exact) leaveOut(names []string) {
	out := func(name string) bool { return slices.Contains(names, name) }
	x.off = rules{
		heads: out("heads"), table: out("table"), backjumps: out("backjumps"), splits: out("splits"),
		twins: out("twins"), forced: out("forced"), boundaries: out("boundaries"),
	}
	x.orders.base = slices.DeleteFunc(slices.Clone(baseConfigs), func(a config) bool { return out(a.String()) })
	x.orders.fits = !out("best fit first")
	if out("noisy orders") {
		x.orders.noisy = 0
	}
}

// allWork is the work of both searches.
func (x *exact) allWork() int64 {
	if x.second == nil {
		return x.work
	}
	return x.work + x.second.work
}

// singleSearchWork is the work before a second search joins. Most decisions take
// less, under a tenth of a second.
const singleSearchWork = 20_000_000

// decide runs configurations until one of them decides the capacity, the budget of
// work is spent, or the context ends. After singleSearchWork, two configurations
// run in parallel, each with its own state and table. decide waits for both and
// prefers the answer of the first, so the result does not depend on their speed.
func (x *exact) decide(capacity, budget int64) (outcome, []int64) {
	x.setCapacity(capacity)
	t := x.orders
	t.nodes = 3 * int64(len(x.ids))
	x.budget = x.work + min(budget, singleSearchWork)
	for x.work <= x.budget && x.ctx.Err() == nil {
		if out, found := x.runConfig(t.next()); out != gaveUp {
			return out, found
		}
	}
	if budget <= singleSearchWork {
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
	x.budget, y.budget = x.work+(budget-singleSearchWork)/2, y.work+(budget-singleSearchWork)/2
	for x.work <= x.budget && y.work <= y.budget && x.ctx.Err() == nil {
		mine, nodes := t.next()
		others, _ := t.next()
		var second struct {
			out   outcome
			found []int64
		}
		var wait bug.Group
		wait.Go(func() { second.out, second.found = y.runConfig(others, nodes) })
		out, found := x.runConfig(mine, nodes)
		if out != gaveUp {
			stop()
		}
		wait.Wait()
		if out == gaveUp {
			out, found = second.out, second.found
		}
		if out != gaveUp {
			return out, found
		}
	}
	return gaveUp, nil
}

// runConfig runs one configuration up to a limit of nodes.
func (x *exact) runConfig(a config, nodes int64) (outcome, []int64) {
	x.rankBuffers(a)
	x.limit = x.nodes + nodes
	return x.run()
}

// rankBuffers ranks the buffers by the keys of a configuration.
func (x *exact) rankBuffers(a config) {
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

// noise returns a number from 0 to 1 that is the same for identical buffers.
func (x *exact) noise(b int32, seed uint64) float64 {
	h := mix(seed*0x9e3779b97f4a7c15 ^ mix(uint64(x.lo[b])<<40^uint64(x.hi[b])<<20^uint64(x.size[b])))
	return float64(h>>11) / (1 << 53)
}

// values returns the values of a key, by buffer.
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
