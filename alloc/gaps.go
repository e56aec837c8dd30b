package alloc

import (
	"cmp"
	"fmt"
	"slices"
)

// area is the bytes [from, to) of a buffer at the steps from first to last.
type area struct {
	first, last int
	from, to    int64
}

// areas returns the bytes that a buffer needs at each of its steps: all of them,
// except in its gaps.
func (p Problem) areas(i int) []area {
	b := &p.Buffers[i]
	all := area{b.First, b.Last, 0, p.size(i)}
	if len(b.Gaps) == 0 {
		return []area{all}
	}
	var list []area
	for _, g := range b.Gaps {
		if all.first < g.First {
			list = append(list, area{all.first, g.First - 1, 0, all.to})
		}
		if g.From < g.To {
			list = append(list, area{g.First, g.Last, g.From, g.To})
		}
		if g.Last == all.last {
			return list
		}
		all.first = g.Last + 1
	}
	return append(list, all)
}

// EachArea calls f with each area that buffer i needs: at the steps [first, last],
// its bytes [from, to). The size is rounded up. A buffer without gaps is one area.
func (p Problem) EachArea(i int, f func(first, last int, from, to int64)) {
	for _, x := range p.areas(i) {
		f(x.first, x.last, x.from, x.to)
	}
}

func (p Problem) hasGaps() bool {
	return slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return len(b.Gaps) > 0 })
}

// busiestStep returns the first step of the largest load, and that load. It counts
// the gaps. O(n log n).
func (p Problem) busiestStep() (step int, largest int64) {
	type event struct {
		step  int
		ends  bool // an end takes effect after the step
		bytes int64
	}
	var events []event
	for i := range p.Buffers {
		for _, x := range p.areas(i) {
			events = append(events, event{x.first, false, x.to - x.from}, event{x.last, true, x.from - x.to})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if c := cmp.Compare(a.step, b.step); c != 0 || a.ends == b.ends {
			return c
		}
		if a.ends {
			return 1
		}
		return -1
	})
	var load int64
	for _, e := range events {
		load += e.bytes
		if load > largest {
			step, largest = e.step, load
		}
	}
	return step, largest
}

// checkGaps returns an error if the gaps of a buffer are not ascending or not within
// its lifetime and its bytes.
func (p Problem) checkGaps(i int) error {
	b := &p.Buffers[i]
	for k, g := range b.Gaps {
		switch {
		case g.First > g.Last || g.First < b.First || g.Last > b.Last:
			return fmt.Errorf("%s: gap %d: expected steps within %d-%d, found %d-%d", p.name(i), k, b.First, b.Last, g.First, g.Last)
		case k > 0 && g.First <= b.Gaps[k-1].Last:
			return fmt.Errorf("%s: gap %d: expected steps after %d, the end of the previous gap, found %d-%d", p.name(i), k, b.Gaps[k-1].Last, g.First, g.Last)
		case g.From < 0 || g.To < g.From || g.To > b.Size:
			return fmt.Errorf("%s: gap %d: expected bytes within 0:%d, found %d:%d", p.name(i), k, b.Size, g.From, g.To)
		}
	}
	return nil
}

// checkFixed returns an error if two buffers with fixed offsets overlap.
func (p Problem) checkFixed() error {
	var fixed []placedArea
	for i, b := range p.Buffers {
		if b.Fixed != nil && b.Size > 0 {
			for _, x := range p.areas(i) {
				fixed = append(fixed, placedArea{area{x.first, x.last, *b.Fixed + x.from, *b.Fixed + x.to}, i})
			}
		}
	}
	i, j, found := firstOverlap(fixed)
	if !found {
		return nil
	}
	i, j = min(i, j), max(i, j)
	b, c := &p.Buffers[i], &p.Buffers[j]
	return fmt.Errorf("%s and %s: fixed offsets %d and %d: the buffers overlap at step %d", p.name(i), p.name(j), *b.Fixed, *c.Fixed, max(b.First, c.First))
}

// fixedTop returns the end of the highest buffer with a fixed offset.
func (p Problem) fixedTop() int64 {
	var top int64
	for i, b := range p.Buffers {
		if b.Fixed != nil && b.Size > 0 {
			top = max(top, *b.Fixed+p.size(i))
		}
	}
	return top
}
