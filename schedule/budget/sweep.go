package budget

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// sweep evaluates plans of one line. Plans that follow each other differ little, so it keeps what it knows
// of the last one and changes that where the next one differs (instances.go).
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

	plan    recomputeSet
	step    []held    // step -> its own run
	again   [][]held  // slot -> the repeated runs in it
	who     [][]int32 // slot -> their nodes, ascending
	used    []int32   // the slots with repeated runs, ascending
	repeats int       // the number of repeated runs
	events  [][]event // buffer -> its accesses, ascending

	peak   int64
	at     int32   // the first position of the peak
	extra  int64   // nanoseconds of the repetitions
	excess float64 // the sum of load - limit over all positions above the limit

	// By position, of the last plan for which run was called with positions.
	listed recomputeSet
	under  int64   // limit then
	node   []int32 // position -> its node
	slot   []int32 // position -> its slot
	first  []int32 // slot -> its first position
	load   []int64 // position -> bytes
	hot    []int32 // the positions above the limit

	changes
	match *match.Matcher
	taken []match.Pair
	after []int64 // memory for needed
	only  []int32 // memory for runsOnlyFor
	areas []area
	swept int32   // how many plans were evaluated
	own   archive // the recorded plans of this line
}

// moment is a run in a plan: a slot, and the node that runs there. Runs are in the order of their moments,
// and keep them where other runs come or go.
type moment int64

func newMoment(slot, node int32) moment { return moment(slot)<<32 | moment(node) }

func (m moment) slot() int32 { return int32(m >> 32) }
func (m moment) node() int32 { return int32(m) }

// event is an access to a buffer: 2 * its moment, + 1 if it is made there.
type event int64

func (e event) moment() moment { return moment(e >> 1) }
func (e event) makes() bool    { return e&1 == 1 }

// held says how a run changes the bytes that are held.
type held struct {
	begins int64 // bytes of the instances whose first moment it is, and what only this run needs
	ends   int64 // of those whose last moment it is
	saved  int64 // by in-place pairs
}

func newSweep(l *line, w *work) *sweep {
	s := &sweep{line: l, work: w, match: match.New(len(l.size)), areas: make([]area, len(l.sizes))}
	s.begin()
	return s
}

// run evaluates a plan. With positions it also sets what is known by position, which the search for
// candidates needs. O(positions), with a small constant, and O(instances x degree) for what differs from
// the last plan.
func (s *sweep) run(plan recomputeSet, positions bool) {
	s.change(plan)
	s.count(len(s.order) + s.repeats)
	switch {
	case len(s.order) == 0:
		s.standStill()
	case !positions:
		s.measure()
	case s.limit == s.under && s.first[len(s.order)] > 0 && slices.Equal(plan, s.listed):
		s.find()
	default:
		s.list()
	}
}

// fits reports whether a plan is within the limit. It leaves the peak open.
func (s *sweep) fits(plan recomputeSet) bool {
	s.change(plan)
	s.count(len(s.order) + s.repeats)
	if len(s.order) == 0 {
		s.standStill()
		return s.peak <= s.limit
	}
	var load int64
	from := int32(0)
	for k := 0; k <= len(s.used); k++ {
		runs := [2][]held{s.step[from:], nil}
		if k < len(s.used) {
			slot := s.used[k]
			runs[0], runs[1] = s.step[from:slot], s.again[slot]
			from = slot
		}
		for _, list := range runs {
			for i := range list {
				x := &list[i]
				if load += x.begins; load-x.saved > s.limit {
					return false
				}
				load -= x.ends
			}
		}
	}
	return true
}

// standStill evaluates a problem without nodes: the inputs are held at one step, although no node runs.
func (s *sweep) standStill() {
	s.peak, s.excess = 0, 0
	for _, size := range s.size {
		s.peak += size
	}
	s.excess = float64(max(0, s.peak-s.limit))
}

// measure finds the peak.
func (s *sweep) measure() {
	var load, peak int64
	var excess float64
	position, at, limit := int32(0), int32(0), s.limit
	from := int32(0)
	for k := 0; k <= len(s.used); k++ {
		runs := [2][]held{s.step[from:], nil} // to the next slot with repeated runs, and those
		if k < len(s.used) {
			slot := s.used[k]
			runs[0], runs[1] = s.step[from:slot], s.again[slot]
			from = slot
		}
		for _, list := range runs {
			for i := range list {
				x := &list[i]
				load += x.begins
				now := load - x.saved
				if now > peak {
					peak, at = now, position
				}
				if now > limit {
					excess += float64(now - limit)
				}
				load -= x.ends
				position++
			}
		}
	}
	s.peak, s.at, s.excess = peak, at, excess
}

// list is measure, and sets what is known by position.
func (s *sweep) list() {
	n := len(s.step) + s.repeats
	s.node, s.slot, s.load = slices.Grow(s.node[:0], n)[:n], slices.Grow(s.slot[:0], n)[:n], slices.Grow(s.load[:0], n)[:n]
	var load int64
	k, from := int32(0), int32(0)
	for u := 0; u <= len(s.used); u++ {
		to := int32(len(s.step))
		if u < len(s.used) {
			to = s.used[u]
		}
		for i := range s.step[from:to] {
			x, slot := &s.step[int(from)+i], from+int32(i)
			s.first[slot], s.node[k], s.slot[k] = k, slot, slot
			load += x.begins
			s.load[k] = load - x.saved
			load -= x.ends
			k++
		}
		if u == len(s.used) {
			break
		}
		s.first[to] = k
		for i, node := range s.who[to] {
			x := &s.again[to][i]
			s.node[k], s.slot[k] = node, to
			load += x.begins
			s.load[k] = load - x.saved
			load -= x.ends
			k++
		}
		x := &s.step[to]
		s.node[k], s.slot[k] = to, to
		load += x.begins
		s.load[k] = load - x.saved
		load -= x.ends
		k++
		from = to + 1
	}
	s.first[len(s.step)] = k
	s.swept++
	s.listed, s.under = append(s.listed[:0], s.plan...), s.limit
	s.hot = s.hot[:0]
	s.find()
	for k, load := range s.load {
		if load > s.limit {
			s.hot = append(s.hot, int32(k))
		}
	}
}

// find finds the peak in what is known by position.
func (s *sweep) find() {
	s.peak, s.at, s.excess = 0, 0, 0
	for k, load := range s.load {
		if load > s.peak {
			s.peak, s.at = load, int32(k)
		}
		if load > s.limit {
			s.excess += float64(load - s.limit)
		}
	}
}

// place returns the position of a moment.
func (s *sweep) place(m moment) int32 {
	slot, node := m.slot(), m.node()
	from, to := s.first[slot], s.first[slot+1]-1
	if node == slot {
		return to
	}
	k, _ := slices.BinarySearch(s.node[from:to], node)
	return from + int32(k)
}

// momentAt returns the moment of a position, or one after all moments.
func (s *sweep) momentAt(position int32) moment {
	if int(position) == len(s.node) {
		return newMoment(int32(len(s.order)), 0)
	}
	return newMoment(s.slot[position], s.node[position])
}

// around returns the last event of a buffer before a moment and the first at it or after it; -1
// stands for none.
func (s *sweep) around(t int32, m moment) (before, after event) {
	events := s.events[t]
	i, _ := slices.BinarySearch(events, event(m)<<1)
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
