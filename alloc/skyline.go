package alloc

// plateau is a longest run of sections [lo, hi) whose tops have one height.
type plateau struct {
	lo, hi int32
	height int64
}

// skyline is the tops of what is laid, as plateaus in a list and in a heap.
type skyline struct {
	at    []plateau // by the plateau's first section; hi is 0 where none starts
	left  []int32   // by a plateau's end: its first section; old ends stay
	queue plateaus  // those of at, and some that are gone
}

func newSkyline(sections int32) *skyline {
	l := &skyline{at: make([]plateau, sections+1), left: make([]int32, sections+1)}
	if sections > 0 {
		l.put(plateau{0, sections, 0})
	}
	return l
}

// newSkylineOn returns the line of given tops, by section.
func newSkylineOn(tops []int64) *skyline {
	n := int32(len(tops))
	l := &skyline{at: make([]plateau, n+1), left: make([]int32, n+1)}
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

// raise lifts a plateau to the lower of its neighbours, or of the only one. It
// must not be the whole line.
func (l *skyline) raise(x plateau) {
	x.height = l.over(x)
	l.put(x)
}

// over returns the height of the lower neighbour, or of the only one.
func (l *skyline) over(x plateau) int64 {
	before, after := l.neighbours(x)
	switch {
	case before.hi == 0:
		return after.height
	case after.hi == 0:
		return before.height
	}
	return min(before.height, after.height)
}

// lay puts x on part of a plateau.
func (l *skyline) lay(on, x plateau) {
	l.at[on.lo].hi = 0
	if on.lo < x.lo {
		l.put(plateau{on.lo, x.lo, on.height})
	}
	if x.hi < on.hi {
		l.put(plateau{x.hi, on.hi, on.height})
	}
	l.put(x)
}

// put enters a plateau, joined with the neighbours of its height.
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
	l.left[x.hi] = x.lo
	l.queue.push(x)
}

// neighbours returns the plateaus on both sides; hi is 0 where there is none.
func (l *skyline) neighbours(x plateau) (before, after plateau) {
	if before = l.at[l.left[x.lo]]; before.hi != x.lo {
		before.hi = 0 // gone, or not yet put
	}
	return before, l.at[x.hi]
}

// plateaus is a heap: the lowest first, then the leftmost.
type plateaus []plateau

func (x plateau) below(y plateau) bool {
	return x.height < y.height || x.height == y.height && x.lo < y.lo
}

// push enters a plateau.
func (q *plateaus) push(x plateau) {
	*q = append(*q, x)
	k := len(*q) - 1
	for k > 0 && x.below((*q)[(k-1)/2]) {
		(*q)[k] = (*q)[(k-1)/2]
		k = (k - 1) / 2
	}
	(*q)[k] = x
}

// pop drops the first plateau.
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
