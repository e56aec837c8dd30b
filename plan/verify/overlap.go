package verify

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/plan"
)

// extent is a buffer as a rectangle of bytes and steps.
type extent struct {
	offset, end int64
	first, last int
	s           *scope
	list        []plan.Buffer
	k           int
}

// extents returns the buffers of a pool whose size is not 0.
func (s *scope) extents(list []plan.Buffer, pool string) []extent {
	n := 0
	for k := range list {
		if list[k].Pool == pool {
			n++
		}
	}
	all := make([]extent, 0, n)
	for k := range list {
		b, p := &list[k], &s.buffers[k]
		end := b.Offset + p.bytes
		if p.known && b.Pool == pool && p.bytes > 0 && b.Offset >= 0 && end > 0 {
			all = append(all, extent{b.Offset, end, p.first, p.last, s, list, k})
		}
	}
	return all
}

// checkOverlap checks one pool of the scope.
func (s *scope) checkOverlap(pool string) {
	s.v.overlap(s.extents(s.list, pool))
}

// overlapResident checks the resident buffers of all graphs: they are always live.
func (v *verifier) overlapResident() {
	for i := range v.resident {
		v.resident[i].first, v.resident[i].last = 0, 0
	}
	v.overlap(v.resident)
}

// overlap reports buffers that share bytes at some step. It visits the steps and
// keeps the live buffers sorted by offset: as long as none of them overlap, a new
// one is compared only with its two neighbours. A buffer that overlaps is
// reported and left out. It takes O(n log n) time for any list of buffers.
func (v *verifier) overlap(all []extent) {
	offsets := make([]int64, len(all))
	for i := range all {
		offsets[i] = all[i].offset
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets)

	begin, end := make([]int, len(all)), make([]int, len(all))
	for i := range all {
		begin[i], end[i] = i, i
	}
	slices.SortFunc(begin, func(x, y int) int { return cmp.Or(all[x].first-all[y].first, x-y) })
	slices.SortFunc(end, func(x, y int) int { return cmp.Or(all[x].last-all[y].last, x-y) })

	live := newRanks(len(offsets))
	holder := make([]int, len(offsets)) // by rank: 1 + the live buffer
	rank := func(i int) int {
		r, _ := slices.BinarySearch(offsets, all[i].offset)
		return r
	}
	gone := 0
	for _, i := range begin {
		for ; gone < len(end) && all[end[gone]].last < all[i].first; gone++ {
			if r := rank(end[gone]); holder[r] == 1+end[gone] {
				holder[r] = 0
				live.clear(r)
			}
		}
		r := rank(i)
		other := holder[r]
		if lower := live.before(r); other == 0 && lower >= 0 && all[holder[lower]-1].end > all[i].offset {
			other = holder[lower]
		}
		if upper := live.after(r); other == 0 && upper >= 0 && all[i].end > all[holder[upper]-1].offset {
			other = holder[upper]
		}
		if other != 0 {
			v.reportOverlap(&all[other-1], &all[i])
			continue
		}
		holder[r] = 1 + i
		live.set(r)
	}
}

func (v *verifier) reportOverlap(a, b *extent) {
	pool := a.list[a.k].Pool
	what := fmt.Sprintf("%s (pool %s, bytes %d-%d", a.label(), pool, a.offset, a.end-1)
	if pool == plan.Resident {
		v.fault(CodeOverlap, "%s) and %s (%d-%d) overlap", what, b.label(), b.offset, b.end-1)
		return
	}
	v.fault(CodeOverlap, "%s, steps %d-%d) and %s (%d-%d, steps %d-%d) overlap at step %d", what, a.first, a.last,
		strings.TrimPrefix(b.label(), b.s.where), b.offset, b.end-1, b.first, b.last, max(a.first, b.first))
}

func (x *extent) label() string { return x.s.where + x.s.label(x.list, x.k) }

// ranks is a set of small integers that finds the next and the previous member in
// a few steps: bit i of a level says that word i of the level below is not empty.
type ranks struct{ levels [][]uint64 }

func newRanks(n int) *ranks {
	r := &ranks{}
	for {
		n = (n + 63) / 64
		r.levels = append(r.levels, make([]uint64, max(n, 1)))
		if n <= 1 {
			return r
		}
	}
}

func (r *ranks) set(i int) {
	for _, words := range r.levels {
		words[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (r *ranks) clear(i int) {
	for _, words := range r.levels {
		words[i/64] &^= 1 << (i % 64)
		if words[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// before returns the largest member that is smaller than i, -1 if there is none.
func (r *ranks) before(i int) int {
	for at, words := range r.levels {
		if w := words[i/64] & (1<<(i%64) - 1); w != 0 {
			i = i/64*64 + 63 - bits.LeadingZeros64(w)
			for at--; at >= 0; at-- {
				i = i*64 + 63 - bits.LeadingZeros64(r.levels[at][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}

// after returns the smallest member that is larger than i, -1 if there is none.
func (r *ranks) after(i int) int {
	for at, words := range r.levels {
		if w := words[i/64] &^ (1<<(i%64) - 1) &^ (1 << (i % 64)); w != 0 {
			i = i/64*64 + bits.TrailingZeros64(w)
			for at--; at >= 0; at-- {
				i = i*64 + bits.TrailingZeros64(r.levels[at][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}
