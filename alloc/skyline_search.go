package alloc

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// priority is how an attempt of the skyline search ranks buffers: by a product of powers of
// the width (the steps of the lifetime), the size, and the largest load that the lifetime
// meets. The load favours the buffers of the busiest steps. It also says whether the section
// under the most pressure goes first.
type priority struct {
	width, size, load float64 // exponents
	pressure          bool
}

// basePriorities are the first attempts. Without pressure an attempt takes a fifth
// of the time. Each large instance of the test data is solved, or nearly, by some
// of these, with pressure or without.
var basePriorities = []priority{
	{1, 1e-6, 0, true},
	{2, 1, 0, false},
	{1, 1, 0, false},
	{1e-6, 1, 4, false},
	{2, 1, 0, true},
	{1, 1, 0, true},
	{2, 1, 8, false},
	{1e-6, 1, 0, false},
	{1e-6, 1, 0, true},
	{1, 2, 4, true},
	{1, 2, 0, true},
	{1, 1e-6, 0, false},
}

// skylineSearch makes attempts with varying priorities, two at a time. Neither
// attempt of a pair knows the outcome of the other, and they are judged in order,
// so the result does not depend on the number of cores.
type skylineSearch struct {
	s       prepared
	packers [2]*packer   // the second is made when it is needed
	logs    [3][]float64 // by factor of the priority and place in s.ids: its logarithm
	best    attempt      // without weights before the first success
	found   Placement    // by the best attempt
	started int          // attempts so far
	random  random
	without []string // see Options
}

// attempt is one packing with given weights, and its outcome.
type attempt struct {
	weights  []float64 // by place in s.ids: the highest goes first
	pressure bool
	placed   Placement
	fits     bool
}

func newSkylineSearch(p Problem, s prepared) *skylineSearch {
	n := len(s.ids)
	l := &skylineSearch{s: s, found: Placement{Arena: math.MaxInt64}}
	l.packers[0] = newPacker(s)
	loads := newMaxTree(s.sections)
	loads.reset(l.packers[0].loads)
	for k := range l.logs {
		l.logs[k] = make([]float64, n)
	}
	for b, i := range s.ids {
		l.logs[0][b] = math.Log(float64(duration(p.Buffers[i])) + 1)
		l.logs[1][b] = math.Log(float64(s.size[i]))
		l.logs[2][b] = math.Log(float64(loads.maxIn(s.lo[i], s.hi[i])))
	}
	return l
}

// improve skips the base priorities: the attempts vary the first of them, and
// favour the buffers that end above the lower bound in the given placement.
func (l *skylineSearch) improve(a Placement) {
	l.started = len(basePriorities)
	l.best, l.found = l.weigh(basePriorities[0]), a
}

// runSkyline makes attempts up to a number of attempts and of visited tree nodes.
func (v *solver) runSkyline(l *skylineSearch, attempts, treeNodes int) {
	for l.started < attempts && l.work() < treeNodes && !v.done() {
		pair := []attempt{l.next(v.best.LowerBound), {}}
		if l.started < attempts {
			pair[1] = l.next(v.best.LowerBound)
		} else {
			pair = pair[:1]
		}
		l.run(v, pair, min(v.best.Arena, l.found.Arena)-1, treeNodes)
		for _, m := range pair {
			if m.fits && m.placed.Arena < l.found.Arena {
				l.best, l.found = m, m.placed
				v.offer(m.placed, "skyline")
			}
		}
	}
}

// run makes the attempts of a pair in parallel.
func (l *skylineSearch) run(v *solver, pair []attempt, limit int64, treeNodes int) {
	budget := treeNodes - l.work()
	var wait bug.Group
	for k := range pair {
		m := &pair[k]
		if l.packers[k] == nil {
			l.packers[k] = newPacker(l.s)
		}
		p := l.packers[k]
		wait.Go(func() {
			m.placed, m.fits = p.pack(m.weights, m.pressure, limit, p.index.work+budget, v.ctx.Done())
		})
	}
	wait.Wait()
}

// work returns the number of tree nodes that all attempts have visited.
func (l *skylineSearch) work() int {
	sum := 0
	for _, p := range l.packers {
		if p != nil {
			sum += p.index.work
		}
	}
	return sum
}

// next returns the next attempt. The base priorities come first. Then random
// exponents alternate with the weights of the best attempt plus noise. Small noise
// also favours the buffers that end above the lower bound (squeaky wheel: Joslin &
// Clements 1999).
func (l *skylineSearch) next(bound int64) attempt {
	for l.started < len(basePriorities) {
		k := l.started
		l.started++
		if !slices.Contains(l.without, priorityName(k)) {
			return l.weigh(basePriorities[k])
		}
	}
	k := l.started
	l.started++
	drawn := k%2 == 1 && !slices.Contains(l.without, "drawn priorities")
	if drawn || l.best.weights == nil || slices.Contains(l.without, "noisy priorities") {
		angle := l.random.float() * math.Pi / 2
		x := priority{width: math.Cos(angle), size: math.Sin(angle), pressure: l.random.float() < 0.3}
		if l.random.float() < 0.7 {
			x.load = math.Exp(6*l.random.float() - 2)
		}
		return l.weigh(x)
	}
	m := attempt{weights: slices.Clone(l.best.weights), pressure: l.best.pressure}
	amplitude := [4]float64{0.1, 0.5, 0.1, 2}[k/2%4]
	share := l.random.float()
	for b, i := range l.s.ids {
		if l.random.float() < share*share {
			m.weights[b] += amplitude * (l.random.float() - 0.5)
		}
		if amplitude < 1 && l.found.Offsets[i]+l.s.size[i] > bound {
			m.weights[b] += 0.7 * l.random.float()
		}
	}
	return m
}

// priorityName is what Options.without calls one of basePriorities.
func priorityName(k int) string { return fmt.Sprint("priority ", k+1) }

// weigh returns an attempt with the weights of a priority: logarithms turn its
// product of powers into a sum.
func (l *skylineSearch) weigh(x priority) attempt {
	m := attempt{weights: make([]float64, len(l.s.ids)), pressure: x.pressure}
	for b := range m.weights {
		m.weights[b] = x.width*l.logs[0][b] + x.size*l.logs[1][b] + x.load*l.logs[2][b]
	}
	return m
}

// coreShares are the loads, as shares of the largest load, from which on a section
// belongs to the core.
var coreShares = [...]float64{0.95, 0.9, 0.8}

// packCores packs the busiest sections first. The core is the buffers that are live
// in them. The skyline search packs it alone; if it reaches the lower bound, or the
// capacity, the other buffers are placed around it by breadth. Bytes wasted in the
// busiest sections decide the arena, the same number of attempts takes much less
// time on the core, and outside the core there is room. Each core gets an equal
// part of treeNodes. Cores of more than half of the buffers are left to the search
// of the whole problem.
//
// The core of idealloc-S, 3,091 of 28,526 buffers, reaches its bound after 18
// attempts, and the whole problem with it; the search of the whole problem stays
// 0.016 % above the bound.
func (v *solver) packCores(s prepared, attempts, treeNodes int) {
	for _, share := range coreShares {
		if v.done() {
			return
		}
		ids := s.core(share)
		if 2*len(ids) > len(s.ids) {
			return
		}
		part := Problem{Alignment: v.p.Alignment, work: v.p.work}
		for _, i := range ids {
			part.Buffers = append(part.Buffers, v.p.Buffers[i])
		}
		w := solver{ctx: v.ctx, p: part, opt: v.opt, best: Result{LowerBound: v.best.LowerBound}}
		w.offer(BestFit(part), "best-fit")
		l := newSkylineSearch(part, prepare(part))
		l.improve(w.best.Placement)
		l.without = v.opt.without
		w.runSkyline(l, attempts, treeNodes/len(coreShares))
		v.opt.spend(int64(l.work()))
		if !w.done() {
			continue
		}
		whole := Problem{Buffers: slices.Clone(v.p.Buffers), Alignment: v.p.Alignment, work: v.p.work}
		for b, i := range ids {
			whole.Buffers[i].Fixed = &w.best.Offsets[b]
		}
		if a := GreedyByBreadth(whole); len(a.Offsets) == len(whole.Buffers) {
			v.offer(a, "skyline")
		}
	}
}

// core returns the buffers that are live in a section whose load is at least this
// share of the largest load.
func (s prepared) core(share float64) []int {
	loads := s.loads()
	var largest int64
	for _, load := range loads {
		largest = max(largest, load)
	}
	busy := make([]int32, s.sections+1) // how many sections of the core are before this one
	for c, load := range loads {
		busy[c+1] = busy[c]
		if float64(load) >= share*float64(largest) {
			busy[c+1]++
		}
	}
	var ids []int
	for _, i := range s.ids {
		if busy[s.hi[i]] > busy[s.lo[i]] {
			ids = append(ids, i)
		}
	}
	return ids
}
