package alloc

import (
	"cmp"
	"slices"
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
// n nodes that another does not solve in a million (placement.md, 4.6).
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

// decide searches, round robin over the arms with node limits that double,
// until one of them knows, the budget of work is spent, or the context ends.
// Each round has twice as many noisy arms as the one before.
func (x *exact) decide(capacity int64, budget int64) (outcome, []int64) {
	x.setCapacity(capacity)
	x.budget = x.work + budget
	seed := uint64(1)
	for round, nodes := 0, 3*int64(len(x.ids)); ; round, nodes = round+1, 2*nodes {
		for k := range len(arms) + 8<<round {
			var a arm
			if k < len(arms) {
				a = arms[k]
				a.fit = (k+round)%2 == 1
			} else {
				a = noisy(seed)
				seed++
			}
			x.order(a)
			x.limit = x.nodes + nodes
			if out, found := x.run(); out != gaveUp {
				return out, found
			}
			if x.work > x.budget || x.ctx.Err() != nil {
				return gaveUp, nil
			}
		}
	}
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
