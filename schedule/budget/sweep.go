package budget

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// sweep evaluates plans of one line. It reuses its memory from plan to plan.
//
// A plan runs as a sequence of positions: for each slot the nodes that recompute its
// buffers, each once, in the order of the line, then the node of the slot's step itself.
//
//	position    0  1  2  3  4  5      the plan recomputes the buffers of
//	slot        0  1  2  3  3  3      nodes 0 and 1 in slot 3
//	node        0  1  2  0  1  3
//
// Every reader reads the newest instance of a buffer. An instance is held from the
// position that makes it to its last reader before the next instance; the last instance
// of an output is held to the end. A repeated run makes new instances of all its
// buffers, needed or not: the newer instance serves as well, and the older one may end
// earlier. There is one exception. If a writer has overwritten the buffer, the new
// instance is in the state before that: it is dropped at once, unless the slot recomputes
// the buffer with its writers.
type sweep struct {
	*line
	*work
	limit int64

	node   []int32 // position -> its node
	slot   []int32 // position -> its slot
	first  []int32 // slot -> its first position
	load   []int64 // position -> bytes
	peak   int64
	at     int32   // the first position of the peak
	extra  int64   // nanoseconds of the repetitions
	excess float64 // the sum of load - limit over all positions above the limit

	hot    []int32   // the positions above the limit; only with events
	events [][]int32 // buffer -> its accesses: 2 * position, + 1 if it is made there; ascending

	now   []state // buffer -> its newest instance
	stamp []int32 // node -> 1 + the slot that last ran it
	free  []atPosition
	freed []int32      // position -> the last entry of free there, or -1; all -1 between sweeps
	here  []match.Pair // those of free at one position
	match *match.Matcher
	taken []match.Pair
	after []int64 // memory for needed
	only  []int32 // memory for runsOnlyFor
	areas []area
	swept int32   // how many plans were evaluated
	own   archive // the recorded plans of this line
}

// state is the newest instance of a buffer. Its fields are together in memory because a
// sweep accesses them together, for one buffer after another.
type state struct {
	size        int64
	start, last int32 // the position that made it, or -1, and its last reader so far
	wanted      int32 // 1 + the slot that last wanted the buffer
	over        bool  // see line.over
}

// atPosition is an in-place pair whose overwritten tensor has its last reader at a
// position.
type atPosition struct {
	position int32
	next     int32 // another at the position, or -1
	pair     match.Pair
}

func newSweep(l *line, w *work) *sweep {
	n, buffers := len(l.order), len(l.size)
	s := &sweep{
		line: l, work: w,
		first: make([]int32, n+1), stamp: make([]int32, n),
		events: make([][]int32, buffers), now: make([]state, buffers),
		match: match.New(buffers), areas: make([]area, len(l.sizes)),
	}
	for t := range s.now {
		s.now[t].size, s.now[t].over = l.size[t], l.over[t]
	}
	return s
}

// run evaluates a plan. With events it also sets hot and events, which the search for
// candidates needs. O(instances x degree).
func (s *sweep) run(plan recomputeSet, events bool) {
	s.swept++
	s.node, s.slot, s.hot, s.free = s.node[:0], s.slot[:0], s.hot[:0], s.free[:0]
	s.load = append(s.load[:0], 0)
	clear(s.stamp)
	for t, maker := range s.maker {
		x := &s.now[t]
		x.wanted, x.start = 0, -1
		if maker < 0 {
			x.start, x.last = 0, 0
		}
	}
	if events {
		for t := range s.events {
			s.events[t] = s.events[t][:0]
		}
	}
	s.extra = 0
	for i := range int32(len(s.order)) {
		s.first[i] = int32(len(s.node))
		if len(plan) > 0 && plan[0].slot() == i {
			for len(plan) > 0 && plan[0].slot() == i {
				s.want(plan[0].buffer(), i)
				plan = plan[1:]
			}
			slices.Sort(s.node[s.first[i]:])
			for k := s.first[i]; k < int32(len(s.node)); k++ {
				s.extra += s.cost[s.node[k]]
				s.step(k, i, events)
			}
		}
		s.node = append(s.node, i)
		s.step(int32(len(s.node)-1), i, events)
	}
	s.first[len(s.order)] = int32(len(s.node))
	if len(s.order) == 0 {
		s.load = append(s.load, 0) // the inputs are held at one step, although no node runs
	}
	for t := range s.size {
		x := &s.now[t]
		if x.start < 0 {
			continue
		}
		if s.output[t] {
			x.last = int32(len(s.node)) - 1
		}
		s.close(int32(t), x)
	}
	s.sum(events)
	s.count(len(s.node))
}

// want adds the nodes that recompute a buffer in a slot.
func (s *sweep) want(t, slot int32) {
	s.now[t].wanted = slot + 1
	s.unit(t, slot, func(i int32) {
		if s.stamp[i] != slot+1 {
			s.stamp[i] = slot + 1
			s.node = append(s.node, i)
		}
	})
}

// step reads and makes the buffers of the node at position k, which belongs to a slot.
// Until sum runs, load holds differences.
func (s *sweep) step(k, slot int32, events bool) {
	i := s.node[k]
	s.slot = append(s.slot, slot)
	s.load = append(s.load, -s.workspace[i])
	s.load[k] += s.workspace[i]
	for _, t := range s.reads.of(i) {
		s.now[t].last = k
		if events {
			s.events[t] = append(s.events[t], k<<1)
		}
	}
	for _, t := range s.makes.of(i) {
		x := &s.now[t]
		if i != slot && x.wanted != slot+1 && s.overwritten(t, slot) {
			s.load[k] += x.size
			s.load[k+1] -= x.size
			continue
		}
		if x.start >= 0 {
			s.close(t, x)
		}
		x.start, x.last = k, k
		if events {
			s.events[t] = append(s.events[t], k<<1|1)
		}
	}
}

// close adds the newest instance of a buffer, which ends, to the loads.
func (s *sweep) close(t int32, x *state) {
	s.load[x.start] += x.size
	s.load[x.last+1] -= x.size
	if x.over {
		for _, pair := range s.pairs[s.node[x.last]] {
			if pair.Over == t {
				s.free = append(s.free, atPosition{x.last, -1, pair})
			}
		}
	}
}

// sum converts the differences into loads, subtracts the savings of in-place pairs, and
// finds the peak.
func (s *sweep) sum(events bool) {
	var load int64
	for k, x := range s.load {
		load += x
		s.load[k] = load
	}
	s.load = s.load[:len(s.node)]
	s.share()
	s.peak, s.at, s.excess = 0, 0, 0
	for k, load := range s.load {
		if load > s.peak {
			s.peak, s.at = load, int32(k)
		}
		if load > s.limit {
			s.excess += float64(load - s.limit)
			if events {
				s.hot = append(s.hot, int32(k))
			}
		}
	}
}

// share subtracts, at each position, the savings of a largest matching of the in-place
// pairs that are free there. A pair changes the load of its own step only, so the best
// choice at each step is the best for the order (see package schedule).
func (s *sweep) share() {
	for len(s.freed) < len(s.node) {
		s.freed = append(s.freed, -1)
	}
	for i := range s.free {
		x := &s.free[i]
		x.next, s.freed[x.position] = s.freed[x.position], int32(i)
	}
	for i := range s.free {
		k := s.free[i].position
		at := s.freed[k]
		if at < 0 {
			continue // the position was treated before
		}
		s.freed[k] = -1
		if s.free[at].next < 0 {
			s.load[k] -= s.size[s.free[at].pair.Over] // most positions have a single pair
			continue
		}
		s.here = s.here[:0]
		for ; at >= 0; at = s.free[at].next {
			s.here = append(s.here, s.free[at].pair)
		}
		slices.SortFunc(s.here, func(a, b match.Pair) int {
			return cmp.Or(cmp.Compare(a.Result, b.Result), cmp.Compare(a.Over, b.Over))
		})
		s.taken = s.match.Largest(s.taken[:0], s.here)
		for _, pair := range s.taken {
			s.load[k] -= s.size[pair.Over]
		}
	}
}

// around returns the last event of a buffer before a position and the first at the
// position or after it; -1 stands for none.
func (s *sweep) around(t, position int32) (before, after int32) {
	events := s.events[t]
	i, _ := slices.BinarySearch(events, position<<1)
	before, after = -1, -1
	if i > 0 {
		before = events[i-1]
	}
	if i < len(events) {
		after = events[i]
	}
	return before, after
}

// area holds, for one size, the prefix sums of min(size, load - limit) over the hot
// positions.
type area struct {
	swept int32 // the number of the plan, see sweep.swept
	sums  []float64
}

// hotArea returns the sum of min(size of t, load - limit) over the hot positions
// strictly between two positions: freeing t there lowers the excess by that much.
// It takes O(log) time, and one pass over the hot positions for each size and plan.
func (s *sweep) hotArea(t, from, to int32) float64 {
	a := &s.areas[s.class[t]]
	if a.swept != s.swept {
		a.swept = s.swept
		a.sums = append(a.sums[:0], 0)
		size, sum := s.sizes[s.class[t]], 0.0
		for _, k := range s.hot {
			sum += float64(min(size, s.load[k]-s.limit))
			a.sums = append(a.sums, sum)
		}
		s.count(len(s.hot))
	}
	i, j := s.hotBetween(from, to)
	return a.sums[j] - a.sums[i]
}

// hotBytes returns an upper bound on what holding t strictly between two positions
// adds to the excess.
func (s *sweep) hotBytes(t, from, to int32) float64 {
	i, j := s.hotBetween(from, to)
	return float64(s.size[t]) * float64(j-i)
}

func (s *sweep) hotBetween(from, to int32) (i, j int) {
	i, _ = slices.BinarySearch(s.hot, from+1)
	j, _ = slices.BinarySearch(s.hot, to)
	return i, max(i, j)
}
