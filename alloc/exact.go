package alloc

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// exact decides whether a problem fits into a capacity. It lays buffers bottom
// up over the sections, depth first. What is laid below a floor is settled for
// good, so what remains to be solved depends on the floors and on the set of
// the unplaced buffers alone, not on how the search came there. That is what
// lets it split, remember failures and skip decisions that explain nothing:
//
//	exact_branch.go   what to lay next: the lowest buffer of one section
//	exact_bound.go    what follows from it: floors that rise, and dead ends
//	exact_seam.go     what follows where some buffers end and others begin
//	exact_table.go    failures that it has met before
//	exact_arms.go     the orders in which to try, round robin
//
// Two half-open ranges are used throughout: of sections, as a hull, and of
// bytes. Buffers go by their place in ids.
type exact struct {
	ids      []int
	lo, hi   []int32
	size     []int64
	align    []int64
	width    []float64 // steps of the lifetime
	base     []int64   // no offset is lower: the fixed one, or 0
	pinned   []bool    // its offset is base
	hint     []int64   // tried first; below 0: none
	ending   []uint8   // its bit in the seam where it ends, and
	starting []uint8   // in that where it begins; 0: none
	meets    [][]int32 // those live together with it, the smallest size first
	twin     []int32   // the one before that is the same in all, or -1
	load     []int64   // by section
	rounds   bool      // some offset may need rounding up to an alignment
	off      rules
	capacity int64
	latest   []int64 // no offset is higher, in this capacity

	// The state, which undo restores from the trail.
	floor    []int64 // by section: all that is unplaced lies here or above
	rem      []int64 // by section: bytes of the unplaced
	why      []hull  // by section: decisions outside do not explain its waste
	members  [][]int32
	unplaced []int32   // by section: how many of members, at their front
	slot     [][]int32 // by buffer and section from lo: its place in members
	crossing []int32   // by section: unplaced that are in the next one, too
	starts   []uint64  // by section: the hashes of the unplaced that begin in it
	seams    []seam    // by section: between it and the next
	least    []int64   // no offset is lower, by the floors
	witness  []int32   // what says so: a section by its floor, or a seam
	placed   []bool
	offset   []int64
	trail    []change

	// The search.
	rank   []int32
	lowest bool // branch only where the floor is lowest
	fit    bool // try first what fits a valley best
	failed hull // explains the last failure
	table  []failure
	cands  []int32 // a stack, shared by all depths
	parts  []hull  // likewise
	nodes  int64
	limit  int64 // of nodes, of the arm
	work   int64 // members looked at
	budget int64 // of work
	ctx    context.Context
	second *exact // runs beside it when it takes long
}

// rules switches inference off, one by one, for tests that measure its worth.
type rules struct{ heads, table, jumps, splits, twins, forced, seams bool }

// hull is the sections [lo, hi).
type hull struct{ lo, hi int32 }

func (a hull) join(b hull) hull { return hull{min(a.lo, b.lo), max(a.hi, b.hi)} }

func (a hull) meets(b hull) bool { return a.lo < b.hi && b.lo < a.hi }

// outcome is what a search says.
type outcome int8

const (
	gaveUp outcome = iota // the limit was met
	fits
	fails // proven
)

// change is what undo takes back.
type change struct {
	kind changeKind
	at   int32
	was  int64
	hull hull
}

type changeKind int8

const (
	floorRose changeKind = iota
	leastRose            // the old witness is hull.lo
	bufferLaid
)

func newExact(p Problem, s prepared) *exact {
	n := len(s.ids)
	x := &exact{
		ids: s.ids, load: s.loads(), ctx: context.Background(),
		lo: make([]int32, n), hi: make([]int32, n), size: make([]int64, n), align: make([]int64, n),
		width: make([]float64, n), base: make([]int64, n), pinned: make([]bool, n), hint: make([]int64, n), meets: make([][]int32, n),
		twin: make([]int32, n), latest: make([]int64, n), slot: make([][]int32, n),
		least: make([]int64, n), witness: make([]int32, n), placed: make([]bool, n), offset: make([]int64, n), rank: make([]int32, n),
		floor: make([]int64, s.sections), why: make([]hull, s.sections), members: make([][]int32, s.sections),
		seams: make([]seam, s.sections), ending: make([]uint8, n), starting: make([]uint8, n),
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
		x.least[b], x.witness[b] = x.base[b], x.lo[b]
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
	x.link()
	x.sew()
	bits := 10
	for bits < 18 && 1<<bits < 256*n {
		bits++
	}
	x.table = make([]failure, 1<<bits)
	return x
}

// clone returns a search of the same problem with a state of its own. Nothing
// must be placed.
func (x *exact) clone() *exact {
	y := *x
	y.latest, y.floor, y.rem, y.why = slices.Clone(x.latest), slices.Clone(x.floor), slices.Clone(x.rem), slices.Clone(x.why)
	y.members, y.slot = cloneAll(x.members), cloneAll(x.slot)
	y.unplaced, y.crossing, y.starts, y.seams = slices.Clone(x.unplaced), slices.Clone(x.crossing), slices.Clone(x.starts), slices.Clone(x.seams)
	y.least, y.witness, y.placed, y.offset = slices.Clone(x.least), slices.Clone(x.witness), slices.Clone(x.placed), slices.Clone(x.offset)
	y.rank, y.table = slices.Clone(x.rank), make([]failure, len(x.table))
	y.trail, y.cands, y.parts = nil, nil, nil
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

// link finds what is live together, and what is the same.
func (x *exact) link() {
	seen := make([]int32, len(x.ids)) // by the buffer b last asked for, plus 1
	type key struct {
		lo, hi            int32
		size, align, base int64
		pinned            bool
	}
	last := map[key]int32{}
	for b := range int32(len(x.ids)) {
		seen[b] = b + 1
		for c := x.lo[b]; c < x.hi[b]; c++ {
			for _, m := range x.members[c] {
				if seen[m] != b+1 {
					seen[m] = b + 1
					x.meets[b] = append(x.meets[b], m)
				}
			}
		}
		slices.SortFunc(x.meets[b], func(i, j int32) int {
			return cmp.Or(cmp.Compare(x.size[i], x.size[j]), cmp.Compare(i, j))
		})
		k := key{x.lo[b], x.hi[b], x.size[b], x.align[b], x.base[b], x.pinned[b]}
		x.twin[b] = -1
		if t, ok := last[k]; ok {
			x.twin[b] = t
		}
		last[k] = b
	}
}

// setCapacity begins another question. Nothing must be placed.
func (x *exact) setCapacity(capacity int64) {
	x.capacity = capacity
	for b := range x.latest {
		x.latest[b] = capacity - x.size[b]
		if x.pinned[b] {
			x.latest[b] = min(x.latest[b], x.base[b])
		}
	}
}

// begin draws what follows from the capacity alone, before any decision.
func (x *exact) begin() bool {
	for b, least := range x.least {
		if least > x.latest[b] {
			return false
		}
	}
	return x.settle(hull{0, int32(len(x.floor))})
}

// run searches once, in the order at hand, within the limits. The state is as
// before when it returns; where the problem fits, found holds the offsets.
func (x *exact) run() (out outcome, found []int64) {
	out = fails
	if x.begin() {
		out = x.solve(hull{0, int32(len(x.floor))})
	}
	if out == fits {
		found = slices.Clone(x.offset)
	}
	x.undo(0)
	x.cands, x.parts = x.cands[:0], x.parts[:0]
	return out, found
}

// lay puts b at an offset that is the floor of all its sections, and draws the
// consequences.
func (x *exact) lay(b int32, off int64) bool {
	x.trail = append(x.trail, change{kind: bufferLaid, at: b, was: off})
	x.placed[b], x.offset[b] = true, off
	x.flip(b)
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
	x.crossing[x.hi[b]-1]++ // b was never in the section after it
	changed := hull{x.lo[b], x.hi[b]}
	for _, m := range x.meets[b] {
		if x.placed[m] || x.least[m] >= top {
			continue
		}
		if !x.lift(m, top, max(x.lo[b], x.lo[m])) {
			return false
		}
		changed = changed.join(hull{x.lo[m], x.hi[m]})
	}
	return x.settle(changed)
}

// lift raises the least offset of an unplaced buffer to a floor.
func (x *exact) lift(b int32, floor int64, witness int32) bool {
	x.trail = append(x.trail, change{leastRose, b, x.least[b], hull{lo: x.witness[b]}})
	if x.rounds {
		floor = roundUp(floor, x.align[b])
	}
	x.least[b], x.witness[b] = floor, witness
	if floor > x.latest[b] {
		x.failed = x.reason(witness)
		return false
	}
	return true
}

// raise lifts a floor, which wastes what is between, for a reason.
func (x *exact) raise(c int32, floor int64, why hull) {
	x.trail = append(x.trail, change{floorRose, c, x.floor[c], x.why[c]})
	x.floor[c], x.why[c] = floor, why
}

// undo takes all changes back but the first few.
func (x *exact) undo(to int) {
	for len(x.trail) > to {
		u := &x.trail[len(x.trail)-1]
		x.trail = x.trail[:len(x.trail)-1]
		switch u.kind {
		case floorRose:
			x.floor[u.at], x.why[u.at] = u.was, u.hull
		case leastRose:
			x.least[u.at], x.witness[u.at] = u.was, u.hull.lo
		case bufferLaid:
			b := u.at
			x.placed[b] = false
			x.flip(b)
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

// never is an offset that nothing reaches.
const never = math.MaxInt64 / 2
