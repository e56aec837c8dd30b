package prooftest

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// Load is the load of a node behind a state, the nodes that have run, by the definition of
// docs/formats/bounds.md.
func Load(p *model.Problem, ran []bool, v int32) int64 {
	load := p.Work[v]
	left := func(readers []int32, but int32) bool {
		return slices.ContainsFunc(readers, func(r int32) bool { return r != but && !ran[r] })
	}
	for i := range p.Tensors {
		switch x := &p.Tensors[i]; {
		case x.Maker == v:
			load += x.Bytes
		case x.Maker >= 0 && !ran[x.Maker]:
		case x.Output || left(x.Readers, -1) || x.Maker < 0 && len(x.Readers) == 0 && !slices.Contains(ran, true):
			load += x.Bytes
		}
	}
	for i := range p.Written {
		x := &p.Written[i]
		if left(x.Others, -1) && (x.Maker == v && x.AtOnce || ran[x.Maker] && x.Later) {
			load += x.Bytes
		}
	}
	var most func(k int, used []int32) int64
	most = func(k int, used []int32) int64 {
		if k == len(p.Pairs[v]) {
			return 0
		}
		saved := most(k+1, used)
		x := p.Pairs[v][k]
		// A result is marked by a number that no overwritten tensor has.
		if !left(p.Tensors[x.Over].Readers, v) && !slices.Contains(used, x.Over) && !slices.Contains(used, -1-x.Result) {
			saved = max(saved, p.Tensors[x.Over].Bytes+most(k+1, append(slices.Clip(used), x.Over, -1-x.Result)))
		}
		return saved
	}
	return load - most(0, nil)
}

// Optimum is the least peak of all orders, and the least load of the node of a set that runs
// first, or last, over all orders. It goes through all states: at most 20 nodes.
func Optimum(p *model.Problem, set []int32, last bool) (peak, least int64) {
	n := len(p.Before)
	best := make([]int64, 1<<n) // by state: the least peak on the way there
	for i := range best {
		best[i] = math.MaxInt64
	}
	best[0], least = 0, math.MaxInt64
	ran := make([]bool, n)
	for s := range best {
		if best[s] == math.MaxInt64 {
			continue
		}
		for v := range ran {
			ran[v] = s>>v&1 == 1
		}
		for v := range int32(n) {
			if ran[v] || slices.ContainsFunc(p.Before[v], func(w int32) bool { return !ran[w] }) {
				continue
			}
			load := Load(p, ran, v)
			next := s | 1<<v
			best[next] = min(best[next], max(best[s], load))
			decides := slices.Contains(set, v) && !slices.ContainsFunc(set, func(a int32) bool { return a != v && ran[a] != last })
			if decides {
				least = min(least, load)
			}
		}
	}
	return best[len(best)-1], least
}
