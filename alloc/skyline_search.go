package alloc

import (
	"math"
	"slices"
)

// basePriorities are the first runs of the skyline search: powers of the width
// (the steps of a lifetime) and of the size, and whether the section under the
// most pressure goes first.
var basePriorities = []struct {
	width, size float64
	pressure    bool
}{
	{1, 1e-6, true},
	{2, 1, true},
	{1, 1, true},
	{1e-6, 1, true},
	{1, 2, true},
	{1, 1e-6, false},
	{2, 1, false},
	{1, 1, false},
	{1e-6, 1, false},
}

// lines is the skyline search: runs of [line] with ever other priorities.
type lines struct {
	line     *line
	base     [][]float64
	best     []float64 // the priorities of the best run
	pressure bool
	found    Placement
	runs     int
	draws    uint64
}

func newLines(p Problem, s prepared) *lines {
	n := len(s.ids)
	l := &lines{line: newLine(s), found: Placement{Arena: math.MaxInt64}}
	logWidth, logSize := make([]float64, n), make([]float64, n)
	for b, i := range s.ids {
		logWidth[b] = math.Log(float64(duration(p.Buffers[i])) + 1)
		logSize[b] = math.Log(float64(s.size[i]))
	}
	for _, pow := range basePriorities {
		w := make([]float64, n)
		for b := range w {
			w[b] = pow.width*logWidth[b] + pow.size*logSize[b]
		}
		l.base = append(l.base, w)
	}
	return l
}

// skylines runs until so many runs are done, or so many tree nodes looked at.
func (v *solver) skylines(l *lines, runs, look int) {
	for l.runs < runs && l.line.index.work < look && !v.done() {
		w, pressure := l.next(v.best.LowerBound)
		l.runs++
		if a, ok := l.line.run(w, pressure, min(v.best.Arena, l.found.Arena)-1, look); ok {
			l.best, l.pressure, l.found = w, pressure, a
			v.offer(a, "skyline")
		}
	}
}

// next returns the priorities of the next run. After the base ones it varies
// the best so far at random, little or much, and lifts those buffers that end
// above the lower bound (squeaky wheel: Joslin & Clements 1999); each fourth
// run it varies a base.
func (l *lines) next(bound int64) ([]float64, bool) {
	if l.runs < len(l.base) {
		return l.base[l.runs], basePriorities[l.runs].pressure
	}
	k := l.runs % len(l.base)
	from, pressure := l.best, l.pressure
	if l.runs%4 == 3 || from == nil {
		from, pressure = l.base[k], basePriorities[k].pressure
	}
	amplitude := [4]float64{0.1, 0.5, 2, 1}[l.runs%4]
	share := l.draw()
	w := slices.Clone(from)
	for b, i := range l.line.s.ids {
		if l.draw() < share*share {
			w[b] += amplitude * (l.draw() - 0.5)
		}
		if l.runs%4 < 2 && l.best != nil && l.found.Offsets[i]+l.line.s.size[i] > bound {
			w[b] += 0.7 * l.draw()
		}
	}
	return w, pressure
}

// draw returns a number from 0 to 1: the same ones in each search.
func (l *lines) draw() float64 {
	l.draws++
	return float64(mix(l.draws*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// ranked returns the places in s.ids, the highest priority first.
func ranked(priority []float64) []int32 {
	order := make([]int32, len(priority))
	for b := range order {
		order[b] = int32(b)
	}
	sortBy(order, func(b int32) uint64 { return ^keyOfFloat(priority[b]) })
	return order
}
