package alloc

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// exact decides whether a problem fits into a capacity. It places buffers bottom up
// over the sections, depth first. Each section has a floor: all its unplaced buffers
// lie on the floor or above. Nothing is placed below a floor any more, so a
// subproblem is given by the floors and the set of unplaced buffers; the path to it
// does not matter. This is why the search may split a subproblem, remember that it
// failed, and jump back over decisions that did not cause a failure:
//
//	exact_branch.go     branching: which buffer lies lowest in one section
//	exact_propagate.go  propagation: floors that rise, and dead ends, within a section
//	                    and between neighbouring ones
//	exact_table.go      the table of known failures
//	exact_portfolio.go  the search orders, tried round robin
//
// The package comment follows it through a small example.
//
// All ranges of sections (hull) and of bytes are half-open. A buffer is
// identified by its index in ids.
type exact struct {
	ids        []int
	lo, hi     []int32
	size       []int64
	align      []int64
	width      []float64 // the steps of the lifetime
	base       []int64   // the fixed offset, or 0
	pinned     []bool    // its offset must be base
	hint       []int64   // tried first; below 0: none
	ending     []uint8   // its bit in ends of the boundary at hi; 0: none
	starting   []uint8   // its bit in begins of the boundary at lo; 0: none
	neighbours [][]int32 // the buffers that share a section with it, smallest first
	twin       []int32   // the previous identical buffer, or -1
	load       []int64   // by section
	rounds     bool      // some offset may need rounding up to an alignment
	off        rules
	orders     portfolio // as it begins
	capacity   int64
	latest     []int64 // the highest offset within the capacity

	// The state. undo restores it from the trail.
	floor      []int64 // by section: its unplaced buffers lie here or above
	rem        []int64 // by section: total bytes of its unplaced buffers
	why        []hull  // by section: the sections whose decisions explain its waste
	members    [][]int32
	unplaced   []int32    // by section: how many members are unplaced; they stand first
	slot       [][]int32  // by buffer and section from lo: its place in members
	crossing   []int32    // by section: how many unplaced buffers are also in the next one
	starts     []uint64   // by section: xor of the hashes of the unplaced buffers that begin in it
	boundaries []boundary // by section: the boundary between it and the next
	least      []int64    // the lowest offset that the floors allow
	source     []int32    // the section, or the number of sections + the boundary, that set least
	placed     []bool
	offset     []int64
	trail      []change

	// The search.
	rank       []int32
	lowest     bool // branch only in the niches with the lowest floor
	fit        bool // try first the buffer that fits a niche best
	failed     hull // the sections whose decisions explain the last failure
	table      []failure
	candidates []int32 // a stack that all depths share
	parts      []hull  // a stack, too
	nodes      int64
	limit      int64 // of nodes, for the current configuration
	work       int64 // members visited
	budget     int64 // of work
	ctx        context.Context
	second     *exact // runs in parallel once the search takes long
}

// rules switches off one inference rule each. Tests use it to measure their worth.
type rules struct{ heads, table, backjumps, splits, twins, forced, boundaries bool }

// hull is the sections [lo, hi).
type hull struct{ lo, hi int32 }

func (a hull) join(b hull) hull { return hull{min(a.lo, b.lo), max(a.hi, b.hi)} }

func (a hull) meets(b hull) bool { return a.lo < b.hi && b.lo < a.hi }

// outcome is the result of a search.
type outcome int8

const (
	gaveUp outcome = iota // a limit was reached
	fits
	fails // proven
)

// change is an entry of the trail: a change that undo can revert.
type change struct {
	kind changeKind
	at   int32
	was  int64
	hull hull
}

type changeKind int8

const (
	floorRose changeKind = iota
	leastRose            // the old source is hull.lo
	bufferLaid
)

func newExact(p Problem, s prepared) *exact {
	n := len(s.ids)
	x := &exact{
		ids: s.ids, load: s.loads(), ctx: context.Background(), orders: wholePortfolio,
		lo: make([]int32, n), hi: make([]int32, n), size: make([]int64, n), align: make([]int64, n),
		width: make([]float64, n), base: make([]int64, n), pinned: make([]bool, n), hint: make([]int64, n), neighbours: make([][]int32, n),
		twin: make([]int32, n), latest: make([]int64, n), slot: make([][]int32, n),
		least: make([]int64, n), source: make([]int32, n), placed: make([]bool, n), offset: make([]int64, n), rank: make([]int32, n),
		floor: make([]int64, s.sections), why: make([]hull, s.sections), members: make([][]int32, s.sections),
		boundaries: make([]boundary, s.sections), ending: make([]uint8, n), starting: make([]uint8, n),
		unplaced: make([]int32, s.sections), crossing: make([]int32, s.sections), starts: make([]uint64, s.sections),
	}
	x.rem = slices.Clone(x.load)
	for c := range x.why {
		x.why[c] = hull{int32(c), int32(c) + 1}
	}
	x.rounds = s.rounds()
	for k, i := range s.ids {
		b := int32(k)
		x.lo[b], x.hi[b], x.size[b], x.align[b] = s.lo[i], s.hi[i], s.size[i], s.align[i]
		x.width[b] = float64(duration(p.Buffers[i])) + 1
		x.hint[b] = -1
		if hint := p.Buffers[i].Hint; hint != nil {
			x.hint[b] = *hint
		}
		if fixed := p.Buffers[i].Fixed; fixed != nil {
			x.base[b], x.pinned[b] = *fixed, true
		}
		x.least[b], x.source[b] = x.base[b], x.lo[b]
		x.starts[x.lo[b]] ^= hashOf(b)
		for c := x.lo[b]; c < x.hi[b]; c++ {
			x.slot[b] = append(x.slot[b], int32(len(x.members[c])))
			x.members[c] = append(x.members[c], b)
			x.unplaced[c]++
			if c+1 < x.hi[b] {
				x.crossing[c]++
			}
		}
	}
	x.findNeighbours()
	x.findBoundaries()
	bits := 10
	for bits < 18 && 1<<bits < 256*n {
		bits++
	}
	x.table = make([]failure, 1<<bits)
	return x
}

// clone returns a search of the same problem with its own state. No buffer may be
// placed at this time.
func (x *exact) clone() *exact {
	y := *x
	y.latest, y.floor, y.rem, y.why = slices.Clone(x.latest), slices.Clone(x.floor), slices.Clone(x.rem), slices.Clone(x.why)
	y.members, y.slot = cloneAll(x.members), cloneAll(x.slot)
	y.unplaced, y.crossing, y.starts, y.boundaries = slices.Clone(x.unplaced), slices.Clone(x.crossing), slices.Clone(x.starts), slices.Clone(x.boundaries)
	y.least, y.source, y.placed, y.offset = slices.Clone(x.least), slices.Clone(x.source), slices.Clone(x.placed), slices.Clone(x.offset)
	y.rank, y.table = slices.Clone(x.rank), make([]failure, len(x.table))
	y.trail, y.candidates, y.parts = nil, nil, nil
	y.nodes, y.work = 0, 0
	return &y
}

func cloneAll(rows [][]int32) [][]int32 {
	all := make([][]int32, len(rows))
	for k, row := range rows {
		all[k] = slices.Clone(row)
	}
	return all
}

// findNeighbours fills neighbours and twin, in time linear in the number of neighbours. Those of
// a buffer are live in its first section, or begin in a later one of its sections.
func (x *exact) findNeighbours() {
	n := int32(len(x.ids))
	bySize, byStart := make([]int32, n), make([]int32, n)
	for b := range n {
		bySize[b], byStart[b] = b, b
	}
	slices.SortFunc(bySize, func(i, j int32) int {
		return cmp.Or(cmp.Compare(x.size[i], x.size[j]), cmp.Compare(i, j))
	})
	slices.SortFunc(byStart, func(i, j int32) int {
		return cmp.Or(cmp.Compare(x.lo[i], x.lo[j]), cmp.Compare(i, j))
	})
	begun := make([]int32, len(x.members)+1) // by section: how many buffers begin before it
	for _, lo := range x.lo {
		begun[lo+1]++
	}
	for c := range x.members {
		begun[c+1] += begun[c]
	}
	later := func(b int32) []int32 { return byStart[begun[x.lo[b]+1]:begun[x.hi[b]]] }
	for b := range n {
		x.neighbours[b] = make([]int32, 0, len(x.members[x.lo[b]])-1+len(later(b)))
	}
	for _, b := range bySize {
		for _, m := range x.members[x.lo[b]] {
			if m != b {
				x.neighbours[m] = append(x.neighbours[m], b)
			}
		}
		for _, m := range later(b) {
			x.neighbours[m] = append(x.neighbours[m], b)
		}
	}
	x.findTwins()
}

func (x *exact) findTwins() {
	type key struct {
		lo, hi            int32
		size, align, base int64
		pinned            bool
	}
	last := map[key]int32{}
	for b := range int32(len(x.ids)) {
		k := key{x.lo[b], x.hi[b], x.size[b], x.align[b], x.base[b], x.pinned[b]}
		x.twin[b] = -1
		if t, ok := last[k]; ok {
			x.twin[b] = t
		}
		last[k] = b
	}
}

// setCapacity sets the capacity to decide. No buffer may be placed at this time.
func (x *exact) setCapacity(capacity int64) {
	x.capacity = capacity
	for b := range x.latest {
		x.latest[b] = capacity - x.size[b]
		if x.pinned[b] {
			x.latest[b] = min(x.latest[b], x.base[b])
		}
	}
}

// begin propagates the capacity before the first decision. It returns false if the
// problem fails without any.
func (x *exact) begin() bool {
	for b, least := range x.least {
		if least > x.latest[b] {
			return false
		}
	}
	return x.propagate(hull{0, int32(len(x.floor))})
}

// run searches once in the current order and within the limits, and restores the
// state. If the problem fits, found is the offsets.
func (x *exact) run() (out outcome, found []int64) {
	out = fails
	if x.begin() {
		out = x.solve(hull{0, int32(len(x.floor))})
	}
	if out == fits {
		found = slices.Clone(x.offset)
	}
	x.undo(0)
	x.candidates, x.parts = x.candidates[:0], x.parts[:0]
	return out, found
}

// lay places b at an offset that is the floor of all its sections, and
// propagates. It returns false on a dead end.
func (x *exact) lay(b int32, off int64) bool {
	x.trail = append(x.trail, change{kind: bufferLaid, at: b, was: off})
	x.placed[b], x.offset[b] = true, off
	x.togglePlaced(b)
	x.starts[x.lo[b]] ^= hashOf(b)
	top := off + x.size[b]
	for k, c := 0, x.lo[b]; c < x.hi[b]; k, c = k+1, c+1 {
		x.floor[c] = top
		x.rem[c] -= x.size[b]
		x.crossing[c]--
		x.unplaced[c]--
		in, from, to := x.members[c], x.slot[b][k], x.unplaced[c]
		other := in[to]
		in[from], in[to] = other, b
		x.slot[other][c-x.lo[other]] = from
		x.slot[b][k] = to
	}
	x.crossing[x.hi[b]-1]++ // crossing of its last section never counted b
	changed := hull{x.lo[b], x.hi[b]}
	for _, m := range x.neighbours[b] {
		if x.placed[m] || x.least[m] >= top {
			continue
		}
		if !x.lift(m, top, max(x.lo[b], x.lo[m])) {
			return false
		}
		changed = changed.join(hull{x.lo[m], x.hi[m]})
	}
	return x.propagate(changed)
}

// lift raises the least offset of an unplaced buffer to a floor. It returns false
// if the buffer then passes the capacity.
func (x *exact) lift(b int32, floor int64, source int32) bool {
	x.trail = append(x.trail, change{leastRose, b, x.least[b], hull{lo: x.source[b]}})
	if x.rounds {
		floor = roundUp(floor, x.align[b])
	}
	x.least[b], x.source[b] = floor, source
	if floor > x.latest[b] {
		x.failed = x.reason(source)
		return false
	}
	return true
}

// raise lifts the floor of a section; why explains the bytes that this wastes.
func (x *exact) raise(c int32, floor int64, why hull) {
	x.trail = append(x.trail, change{floorRose, c, x.floor[c], x.why[c]})
	x.floor[c], x.why[c] = floor, why
}

// undo reverts the changes of the trail from the given length on.
func (x *exact) undo(length int) {
	for len(x.trail) > length {
		u := &x.trail[len(x.trail)-1]
		x.trail = x.trail[:len(x.trail)-1]
		switch u.kind {
		case floorRose:
			x.floor[u.at], x.why[u.at] = u.was, u.hull
		case leastRose:
			x.least[u.at], x.source[u.at] = u.was, u.hull.lo
		case bufferLaid:
			b := u.at
			x.placed[b] = false
			x.togglePlaced(b)
			x.starts[x.lo[b]] ^= hashOf(b)
			for c := x.lo[b]; c < x.hi[b]; c++ {
				x.floor[c] = u.was
				x.rem[c] += x.size[b]
				x.unplaced[c]++
				x.crossing[c]++
			}
			x.crossing[x.hi[b]-1]--
		}
	}
}

// never is an offset above any that can occur.
const never = math.MaxInt64 / 2
