package budget

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule"
)

// afresh evaluates a plan from nothing: the nodes by position, their slots, the bytes there, and the time
// of the repeated runs.
func (l *line) afresh(plan recomputeSet) (node, slot []int32, load []int64, extra int64) {
	first, last := make([]int, len(l.size)), make([]int, len(l.size))
	for t := range first {
		if l.maker[t] >= 0 {
			first[t] = -1
		}
	}
	for i := range int32(len(l.order)) {
		var runs []int32
		for _, m := range plan {
			if m.slot() == i {
				l.unit(m.buffer(), i, func(j int32) { runs = append(runs, j) })
			}
		}
		slices.Sort(runs)
		for _, j := range append(slices.Compact(runs), i) {
			node, slot = append(node, j), append(slot, i)
			if j != i {
				extra += l.cost[j]
			}
		}
	}
	load = make([]int64, len(node))
	free := make([][]match.Pair, len(node))
	end := func(t int32) {
		for k := first[t]; k <= last[t]; k++ {
			load[k] += l.size[t]
		}
		for _, pair := range l.pairs[node[last[t]]] {
			if pair.Over == t {
				free[last[t]] = append(free[last[t]], pair)
			}
		}
	}
	for k, j := range node {
		load[k] += l.workspace[j]
		for _, t := range l.reads.of(j) {
			last[t] = k
		}
		for _, t := range l.makes.of(j) {
			if j != slot[k] && l.overwritten(t, slot[k]) && !slices.Contains(plan, newRecompute(slot[k], t)) {
				load[k] += l.size[t]
				continue
			}
			if first[t] >= 0 {
				end(t)
			}
			first[t], last[t] = k, k
		}
	}
	for t := range int32(len(l.size)) {
		if l.output[t] {
			last[t] = len(node) - 1
		}
		end(t)
	}
	for k, pairs := range free {
		slices.SortFunc(pairs, func(a, b match.Pair) int { return cmp.Or(cmp.Compare(a.Result, b.Result), cmp.Compare(a.Over, b.Over)) })
		for _, pair := range match.New(len(l.size)).Largest(nil, pairs) {
			load[k] -= l.size[pair.Over]
		}
	}
	return node, slot, load, extra
}

// What a sweep knows after many changes of a plan is what an evaluation from nothing says.
func TestChangesOfPlans(t *testing.T) {
	plans, repeated := 0, 0
	for k := range 300 {
		draw := rand.New(rand.NewPCG(uint64(k), 40))
		var p *schedule.Problem
		switch {
		case k == 0:
			p = readData(t, "mobilenet_v2-train-bs32") // whose activations are overwritten
		case k%3 == 0:
			p = layers(draw, 4+draw.IntN(20))
		default:
			p = unrestricted(draw, k%3 == 1)
		}
		s, _ := solver(t, p, Options{})
		l := s.lines[len(s.lines)-1]
		x := newSweep(l, &work{})
		var all recomputeSet
		for b := range int32(len(l.size)) {
			for slot := l.maker[b] + 1; l.maker[b] >= 0 && slot < int32(len(l.order)) && slot <= l.until[b]; slot++ {
				all = append(all, newRecompute(slot, b))
			}
		}
		if len(all) == 0 {
			continue
		}
		var plan recomputeSet
		for range 40 {
			for range 1 + draw.IntN(4) {
				if m := all[draw.IntN(len(all))]; !plan.add(m) {
					plan.remove(m)
				}
			}
			if draw.IntN(10) == 0 {
				plan = plan[:draw.IntN(len(plan)+1)]
			}
			node, slot, load, extra := l.afresh(plan)
			peak := slices.Max(load)
			x.limit = peak * int64(draw.IntN(11)) / 10
			excess := 0.0
			for _, bytes := range load {
				excess += float64(max(0, bytes-x.limit))
			}
			positions := draw.IntN(2) == 0
			x.run(plan, positions)
			if x.peak != peak || load[x.at] != peak || slices.Contains(load[:x.at], peak) || x.extra != extra || x.excess != excess {
				t.Fatalf("graph %d, plan %v: peak %d at %d, extra cost %d, excess %g; expected %d at %d, %d, %g", k, plan, x.peak, x.at, x.extra, x.excess, peak, slices.Index(load, peak), extra, excess)
			}
			if positions && (!slices.Equal(x.node, node) || !slices.Equal(x.slot, slot) || !slices.Equal(x.load, load)) {
				t.Fatalf("graph %d, plan %v: nodes %v with %v, expected %v with %v", k, plan, x.node, x.load, node, load)
			}
			if fits := x.fits(plan); fits != (peak <= x.limit) {
				t.Fatalf("graph %d, plan %v: fits %d: %t, the peak is %d", k, plan, x.limit, fits, peak)
			}
			plans++
			repeated += x.repeats
		}
	}
	if plans < 5000 || repeated < 5*plans {
		t.Errorf("%d plans with %d repeated runs: too few for a test", plans, repeated)
	}
}
