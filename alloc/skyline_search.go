package alloc

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// priority is how the skyline search ranks buffers: by a product of powers of
// the width (the steps of the lifetime), the size, and the largest load that
// the lifetime meets, which brings the buffers of the busiest steps forward;
// and whether the section under the most pressure goes first.
type priority struct {
	width, size, load float64
	pressure          bool
}

// basePriorities are the first runs of the skyline search. Without pressure a
// run takes a fifth of the time, and of the large instances of the test data
// each is solved, or nearly, by some of either kind.
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

// lines is the skyline search: runs of [line] with ever other priorities, two
// at a time. Both members of a pair know the same past and are judged in order,
// so that the outcome does not depend on how many cores there are.
type lines struct {
	s     prepared
	pair  [2]*line // the second is made when it is needed
	logs  [3][]float64
	best  member // the best run so far; of no weights before the first
	found Placement
	runs  int
	draws uint64
}

// member is a run of a pair.
type member struct {
	weights  []float64 // by place in s.ids: the highest goes first
	pressure bool
	placed   Placement
	fits     bool
}

func newLines(p Problem, s prepared) *lines {
	n := len(s.ids)
	l := &lines{s: s, found: Placement{Arena: math.MaxInt64}}
	l.pair[0] = newLine(s)
	most := newPeaks(s.sections)
	most.reset(l.pair[0].loads)
	for k := range l.logs {
		l.logs[k] = make([]float64, n)
	}
	for b, i := range s.ids {
		l.logs[0][b] = math.Log(float64(duration(p.Buffers[i])) + 1)
		l.logs[1][b] = math.Log(float64(s.size[i]))
		l.logs[2][b] = math.Log(float64(most.largest(s.lo[i], s.hi[i])))
	}
	return l
}

// begin skips the base priorities: noise goes to the longest lifetimes first, and
// lifts what ends above the lower bound in a given placement.
func (l *lines) begin(from Placement) {
	l.runs = len(basePriorities)
	l.best, l.found = l.weigh(basePriorities[0]), from
}

// skylines runs pairs until so many runs are done, or so many tree nodes looked
// at.
func (v *solver) skylines(l *lines, runs, look int) {
	for l.runs < runs && l.work() < look && !v.done() {
		pair := []member{l.next(v.best.LowerBound), {}}
		if l.runs < runs {
			pair[1] = l.next(v.best.LowerBound)
		} else {
			pair = pair[:1]
		}
		l.run(v, pair, min(v.best.Arena, l.found.Arena)-1, look)
		for _, m := range pair {
			if m.fits && m.placed.Arena < l.found.Arena {
				l.best, l.found = m, m.placed
				v.offer(m.placed, "skyline")
			}
		}
	}
}

// run lays the members of a pair at once.
func (l *lines) run(v *solver, pair []member, limit int64, look int) {
	budget := look - l.work()
	var wait bug.Group
	for k := range pair {
		m := &pair[k]
		if l.pair[k] == nil {
			l.pair[k] = newLine(l.s)
		}
		on := l.pair[k]
		wait.Go(func() {
			m.placed, m.fits = on.run(m.weights, m.pressure, limit, on.index.work+budget, v.ctx.Done())
		})
	}
	wait.Wait()
}

// work returns the tree nodes that all runs have looked at.
func (l *lines) work() int {
	sum := 0
	for _, on := range l.pair {
		if on != nil {
			sum += on.index.work
		}
	}
	return sum
}

// next returns the priorities of the next run: after the base ones by turns the
// best so far with noise, and powers drawn at random. Noise is little or much,
// and lifts those buffers that end above the lower bound (squeaky wheel: Joslin
// & Clements 1999).
func (l *lines) next(bound int64) member {
	k := l.runs
	l.runs++
	if k < len(basePriorities) {
		return l.weigh(basePriorities[k])
	}
	if k%2 == 1 || l.best.weights == nil {
		angle := l.draw() * math.Pi / 2
		x := priority{width: math.Cos(angle), size: math.Sin(angle), pressure: l.draw() < 0.3}
		if l.draw() < 0.7 {
			x.load = math.Exp(6*l.draw() - 2)
		}
		return l.weigh(x)
	}
	m := member{weights: slices.Clone(l.best.weights), pressure: l.best.pressure}
	amplitude := [4]float64{0.1, 0.5, 0.1, 2}[k/2%4]
	share := l.draw()
	for b, i := range l.s.ids {
		if l.draw() < share*share {
			m.weights[b] += amplitude * (l.draw() - 0.5)
		}
		if amplitude < 1 && l.found.Offsets[i]+l.s.size[i] > bound {
			m.weights[b] += 0.7 * l.draw()
		}
	}
	return m
}

// weigh returns the weights of a priority.
func (l *lines) weigh(x priority) member {
	m := member{weights: make([]float64, len(l.s.ids)), pressure: x.pressure}
	for b := range m.weights {
		m.weights[b] = x.width*l.logs[0][b] + x.size*l.logs[1][b] + x.load*l.logs[2][b]
	}
	return m
}

// draw returns a number from 0 to 1: the same ones in each search.
func (l *lines) draw() float64 {
	l.draws++
	return float64(mix(l.draws*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// ranked returns the places in s.ids, the highest weight first.
func ranked(weights []float64) []int32 {
	order := make([]int32, len(weights))
	for b := range order {
		order[b] = int32(b)
	}
	sortBy(order, func(b int32) uint64 { return ^keyOfFloat(weights[b]) })
	return order
}
