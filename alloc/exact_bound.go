package alloc

// propagate draws the consequences of changes in these sections. It returns
// false if one of them cannot be filled within the capacity; x.failed then
// explains why.
//
// In each section, floor + rem = load + wasted bytes. Placing a buffer on its
// floor wastes nothing, so x.why has to explain the waste alone. One visit per
// section is enough: propagateSection raises a floor only to the least offset of
// the section's unplaced buffers, which lifts none of them. propagateBoundaries
// does lift buffers, so their sections are visited again.
func (x *exact) propagate(changed hull) bool {
	for {
		for c := changed.lo; c < changed.hi; c++ {
			if x.rem[c] > 0 && !x.propagateSection(c) {
				return false
			}
		}
		if x.off.boundaries {
			return true
		}
		var ok bool
		if changed, ok = x.propagateBoundaries(changed); !ok {
			return false
		}
		if changed.hi == 0 {
			return true
		}
	}
}

// propagateSection raises the floor of a section to the least offset of its
// unplaced buffers. It returns false if they cannot be stacked within the capacity.
func (x *exact) propagateSection(c int32) bool {
	unplaced := x.members[c][:x.unplaced[c]]
	x.work += int64(len(unplaced))
	low, high := int64(never), int64(0)
	for _, b := range unplaced {
		low, high = min(low, x.least[b]), max(high, x.least[b])
	}
	if low > x.floor[c] {
		x.raise(c, low, x.explain(c))
	}
	switch {
	case x.floor[c]+x.rem[c] > x.capacity:
		x.failed = x.why[c]
	case high+x.rem[c] > x.capacity && !x.off.heads && !x.stackFits(unplaced, x.floor[c], x.rem[c], high):
		x.failed = x.explain(c)
	default:
		return true
	}
	return false
}

// explain returns the sections whose decisions explain the waste and the least
// offsets of a section.
func (x *exact) explain(c int32) hull {
	why := x.why[c]
	for _, b := range x.members[c][:x.unplaced[c]] {
		why = why.join(x.reason(x.source[b]))
	}
	return why
}

// stackFits reports whether these buffers, stacked from the floor upwards, can end
// within the capacity. They are jobs on one machine, and their least offsets are
// the release dates: the order of release minimizes the makespan. Only the idle
// time matters. A few rounds find it without a sort; each round adds the jobs that
// are released before the end of the previous round. Sorting took half the time
// of the whole search.
func (x *exact) stackFits(unplaced []int32, floor, rem, high int64) bool {
	end := floor
	for floor+rem <= x.capacity {
		done, next := floor, int64(never)
		for _, b := range unplaced {
			if x.least[b] <= end {
				done += x.size[b]
			} else {
				next = min(next, x.least[b])
			}
		}
		switch {
		case done >= high:
			return true
		case done > end:
			end = done
		default: // idle until the next release
			floor += next - end
			end = next
		}
	}
	return false
}
