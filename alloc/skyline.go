package alloc

// plateau is a maximal run of sections [lo, hi) whose tops have one height.
type plateau struct {
	lo, hi int32
	height int64
}

// skyline is the tops of the buffers placed so far, as plateaus: an array, by
// section, and a heap.
//
//	      ┌──┐
//	   ┌──┘  │
//	───┘     └───   four plateaus; the lowest, leftmost one is the first
type skyline struct {
	at    []plateau // by the first section of a plateau; hi is 0 where none starts
	start []int32   // by the end of a plateau: its first section; old ends remain
	queue plateaus  // all of at, and some that no longer exist
}

func newSkyline(sections int32) *skyline {
	l := &skyline{at: make([]plateau, sections+1), start: make([]int32, sections+1)}
	if sections > 0 {
		l.put(plateau{0, sections, 0})
	}
	return l
}

// newSkylineOn returns the skyline with these tops, by section.
func newSkylineOn(tops []int64) *skyline {
	n := int32(len(tops))
	l := &skyline{at: make([]plateau, n+1), start: make([]int32, n+1)}
	for c, top := range tops {
		l.put(plateau{int32(c), int32(c) + 1, top})
	}
	return l
}

// lowest returns the lowest plateau, the leftmost of equal ones.
func (l *skyline) lowest() plateau {
	for l.queue[0] != l.at[l.queue[0].lo] {
		l.queue.pop()
	}
	return l.queue[0]
}

// raise lifts a plateau to its lower neighbour. It must have a neighbour.
func (l *skyline) raise(x plateau) {
	x.height = l.lowerNeighbour(x)
	l.put(x)
}

// lowerNeighbour returns the height of the lower neighbour, or of the only one.
func (l *skyline) lowerNeighbour(x plateau) int64 {
	before, after := l.neighbours(x)
	switch {
	case before.hi == 0:
		return after.height
	case after.hi == 0:
		return before.height
	}
	return min(before.height, after.height)
}

// place replaces a part of a plateau by x.
func (l *skyline) place(on, x plateau) {
	l.cut(on, x.lo, x.hi)
	l.put(x)
}

// cut removes the sections [lo, hi) of a plateau.
func (l *skyline) cut(on plateau, lo, hi int32) {
	l.at[on.lo].hi = 0
	if on.lo < lo {
		l.put(plateau{on.lo, lo, on.height})
	}
	if hi < on.hi {
		l.put(plateau{hi, on.hi, on.height})
	}
}

// put adds a plateau and joins it with neighbours of the same height.
func (l *skyline) put(x plateau) {
	before, after := l.neighbours(x)
	l.at[x.lo].hi = 0
	if before.hi > 0 && before.height == x.height {
		x.lo = before.lo
	}
	if after.hi > 0 && after.height == x.height {
		l.at[after.lo].hi = 0
		x.hi = after.hi
	}
	l.at[x.lo] = x
	l.start[x.hi] = x.lo
	l.queue.push(x)
}

// neighbours returns the plateaus on both sides; hi is 0 where there is none.
func (l *skyline) neighbours(x plateau) (before, after plateau) {
	if before = l.at[l.start[x.lo]]; before.hi != x.lo {
		before.hi = 0 // it no longer exists, or has not been put yet
	}
	return before, l.at[x.hi]
}

// plateaus is a heap. The first plateau is the lowest, the leftmost of equal ones.
type plateaus []plateau

func (x plateau) below(y plateau) bool {
	return x.height < y.height || x.height == y.height && x.lo < y.lo
}

func (q *plateaus) push(x plateau) {
	*q = append(*q, x)
	k := len(*q) - 1
	for k > 0 && x.below((*q)[(k-1)/2]) {
		(*q)[k] = (*q)[(k-1)/2]
		k = (k - 1) / 2
	}
	(*q)[k] = x
}

// pop removes the first plateau.
func (q *plateaus) pop() {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	k := 0
	for 2*k+1 < last {
		child := 2*k + 1
		if child+1 < last && (*q)[child+1].below((*q)[child]) {
			child++
		}
		if !(*q)[child].below(x) {
			break
		}
		(*q)[k] = (*q)[child]
		k = child
	}
	if last > 0 {
		(*q)[k] = x
	}
}
