package alloc

// line lays all buffers bottom up, in one run by priority: on the lowest
// plateau, in the section under the most pressure, the buffer of the highest
// priority that lies within the plateau. Pressure is the floor and the bytes
// still to come: the height at which the section ends if nothing more is wasted
// there, so that only waste changes it. Sections that are full are walls.
// O(n (log n + √n)).
type line struct {
	s        prepared
	ids      []int // as in s, before a run sorts them
	loads    []int64
	index    *index
	pressure *peaks
	left     *peaks // minus how many are unplaced, by section
	counts   []int64
}

// perStep is what a step costs beside the index, in the same unit.
const perStep = 32

func newLine(s prepared) *line {
	l := &line{s: s, ids: s.ids, loads: s.loads(), index: newIndex(s)}
	l.counts = make([]int64, s.sections+1)
	for _, i := range s.ids {
		l.counts[s.lo[i]]--
		l.counts[s.hi[i]]++
	}
	for c := range s.sections {
		l.counts[c+1] += l.counts[c]
	}
	l.pressure, l.left = newPeaks(s.sections), newPeaks(s.sections)
	return l
}

// run returns false as soon as it is sure to pass the limit, or has spent the
// budget, in tree nodes looked at by all runs of this line, or is told to end.
func (l *line) run(weights []float64, pressure bool, limit int64, budget int, end <-chan struct{}) (Placement, bool) {
	order := ranked(weights)
	l.index.reset(order)
	l.pressure.reset(l.loads)
	l.left.reset(l.counts[:l.s.sections])
	tops := newSkyline(int32(l.s.sections))
	a := Placement{Offsets: make([]int64, len(l.s.size))}
	for done := range order {
		if done%(1<<12) == 0 && ended(end) {
			return Placement{}, false
		}
		rank := int32(-1)
		var at plateau
		for {
			if l.index.work > budget {
				return Placement{}, false
			}
			l.index.work += perStep
			at = tops.lowest()
			if !pressure {
				if rank = l.index.first(at.lo, at.hi); rank >= 0 {
					break
				}
				tops.raise(at)
				continue
			}
			c := l.pressure.first(at.lo, at.hi)
			if rank = l.index.across(at.lo, c, at.hi); rank >= 0 {
				break
			}
			if !l.waste(tops, at, c, limit) {
				return Placement{}, false
			}
		}
		l.index.remove(rank)
		i := l.ids[order[rank]]
		off := roundUp(at.height, l.s.align[i])
		top := off + l.s.size[i]
		if top > limit {
			return Placement{}, false
		}
		a.Offsets[i] = off
		a.Arena = max(a.Arena, top)
		l.lay(tops, at, plateau{l.s.lo[i], l.s.hi[i], top}, off-at.height)
	}
	return a, true
}

// ended says whether a channel is closed.
func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waste raises a section that nothing on the plateau reaches: alone, for its
// buffers all stick out of the plateau; or the whole of it, if none fits there.
func (l *line) waste(tops *skyline, at plateau, c int32, limit int64) bool {
	x := at
	if l.index.first(at.lo, at.hi) >= 0 {
		x = plateau{c, c + 1, at.height}
	}
	x.height = tops.over(at)
	l.pressure.add(x.lo, x.hi, x.height-at.height)
	if l.pressure.top() > limit {
		return false
	}
	tops.lay(at, x)
	return true
}

// lay puts a buffer's top on the plateau, and walls where nothing else comes.
func (l *line) lay(tops *skyline, on, x plateau, wasted int64) {
	if wasted > 0 {
		l.pressure.add(x.lo, x.hi, wasted)
	}
	l.left.add(x.lo, x.hi, 1)
	var walls []int32
	for c := l.left.firstAt(x.lo, x.hi, 0); c >= 0; c = l.left.firstAt(x.lo, x.hi, 0) {
		l.left.add(c, c+1, -never)
		l.pressure.add(c, c+1, -never)
		walls = append(walls, c)
	}
	tops.at[on.lo].hi = 0
	if on.lo < x.lo {
		tops.put(plateau{on.lo, x.lo, on.height})
	}
	if x.hi < on.hi {
		tops.put(plateau{x.hi, on.hi, on.height})
	}
	for _, c := range walls {
		if x.lo < c {
			tops.put(plateau{x.lo, c, x.height})
		}
		tops.put(plateau{c, c + 1, never})
		x.lo = c + 1
	}
	if x.lo < x.hi {
		tops.put(x)
	}
}
