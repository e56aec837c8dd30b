package replay

import (
	"math"
	"slices"
)

// Live is what is in use of an arena: ranges that share no byte. A place is given out only if
// it is vacant, so a run that leaves its plan costs memory and is never wrong.
type Live struct{ ranges []span } // by offset

type span struct{ from, to int64 }

// Len returns the number of ranges in use.
func (l *Live) Len() int { return len(l.ranges) }

// End returns the end of the last range, in bytes.
func (l *Live) End() int64 {
	if len(l.ranges) == 0 {
		return 0
	}
	return l.ranges[len(l.ranges)-1].to
}

// Take puts [offset, offset+size) into use if none of its bytes is, and reports whether it did.
// size is at least 1.
func (l *Live) Take(offset, size int64) bool {
	i := l.search(offset)
	if i > 0 && l.ranges[i-1].to > offset || i < len(l.ranges) && l.ranges[i].from < offset+size {
		return false
	}
	l.ranges = slices.Insert(l.ranges, i, span{offset, offset + size})
	return true
}

// Free ends the use of the range that begins at an offset, and reports whether there is one.
func (l *Live) Free(offset int64) bool {
	i := l.search(offset)
	if i == len(l.ranges) || l.ranges[i].from != offset {
		return false
	}
	l.ranges = slices.Delete(l.ranges, i, i+1)
	return true
}

// Clear ends all use.
func (l *Live) Clear() { l.ranges = l.ranges[:0] }

// search returns the number of the first range from an offset on.
func (l *Live) search(offset int64) int {
	i, _ := slices.BinarySearchFunc(l.ranges, offset, func(s span, offset int64) int { return int(min(max(s.from-offset, -1), 1)) })
	return i
}

// Hole returns the offset of the smallest range of an arena of so many bytes where nothing
// is in use and size bytes fit, the lowest of equal ones; false if there is none.
func (l *Live) Hole(size, arena int64) (offset int64, found bool) {
	least, from := int64(math.MaxInt64), int64(0)
	try := func(to int64) {
		if room := to - from; room >= size && room < least {
			offset, found, least = from, true, room
		}
	}
	for _, s := range l.ranges {
		try(s.from)
		from = s.to
	}
	try(arena)
	return offset, found
}
