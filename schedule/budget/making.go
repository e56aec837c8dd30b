package budget

import (
	"slices"
)

// making is a buffer to be made anew in a slot.
type making uint64

func newMaking(slot, buffer int32) making { return making(slot)<<32 | making(uint32(buffer)) }
func (m making) slot() int32              { return int32(m >> 32) }
func (m making) buffer() int32            { return int32(uint32(m)) }

// makings is a set of them, ascending: by slot, then by buffer. This is what a
// plan is; what it keeps follows from it. Any set whose members stand in slots
// where they may (line.until) is a valid plan: the first instance of a buffer is
// always there.
type makings []making

// add puts a making into the set and reports whether it was not there.
func (s *makings) add(m making) bool {
	i, found := slices.BinarySearch(*s, m)
	if !found {
		*s = slices.Insert(*s, i, m)
	}
	return !found
}

func (s *makings) remove(m making) {
	if i, found := slices.BinarySearch(*s, m); found {
		*s = slices.Delete(*s, i, i+1)
	}
}

// later returns the first making of a buffer in a slot after this one.
func (s makings) later(m making) (making, bool) {
	i, _ := slices.BinarySearch(s, newMaking(m.slot()+1, 0))
	for _, x := range s[i:] {
		if x.buffer() == m.buffer() {
			return x, true
		}
	}
	return 0, false
}

// unroll returns the nodes of a plan as they run.
func (l *line) unroll(s makings) []int {
	steps := make([]int, 0, len(l.order)+len(s))
	var slot []int32
	for i, v := range l.order {
		slot = slot[:0]
		for len(s) > 0 && s[0].slot() == int32(i) {
			l.unit(s[0].buffer(), int32(i), func(j int32) { slot = append(slot, j) })
			s = s[1:]
		}
		slices.Sort(slot)
		for _, j := range slices.Compact(slot) {
			steps = append(steps, int(l.order[j]))
		}
		steps = append(steps, int(v))
	}
	return steps
}
