package alloc

import "container/heap"

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

// lowest returns the lowest plateau, the leftmost of equal ones.
func (l *skyline) lowest() plateau {
	for l.queue[0] != l.at[l.queue[0].lo] {
		heap.Pop(&l.queue)
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
	heap.Push(&l.queue, x)
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

func (q plateaus) Len() int { return len(q) }
func (q plateaus) Less(i, j int) bool {
	return q[i].height < q[j].height || q[i].height == q[j].height && q[i].lo < q[j].lo
}
func (q plateaus) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *plateaus) Push(x any)   { *q = append(*q, x.(plateau)) }
func (q *plateaus) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}
