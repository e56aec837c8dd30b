package alloc

// settle draws the consequences of changes in these sections. It is false if
// one of them cannot be filled within the capacity; failed then says why.
//
// Floor + rem is the load and what is wasted. Laying a buffer on its floor
// wastes nothing, so only the waste needs an explanation: why. It is enough to
// visit each section once, for a floor rises here no further than the least
// offset of all that it could push up; but seams do push up, and then what they
// push is visited again.
func (x *exact) settle(changed hull) bool {
	for {
		for c := changed.lo; c < changed.hi; c++ {
			if x.rem[c] > 0 && !x.settleOne(c) {
				return false
			}
		}
		if x.off.seams {
			return true
		}
		var ok bool
		if changed, ok = x.settleSeams(changed); !ok {
			return false
		}
		if changed.hi == 0 {
			return true
		}
	}
}

func (x *exact) settleOne(c int32) bool {
	unplaced := x.members[c][:x.unplaced[c]]
	x.work += int64(len(unplaced))
	low, high := int64(never), int64(0)
	for _, b := range unplaced {
		low, high = min(low, x.least[b]), max(high, x.least[b])
	}
	if low > x.floor[c] {
		x.raise(c, low, x.blame(c))
	}
	switch {
	case x.floor[c]+x.rem[c] > x.capacity:
		x.failed = x.why[c]
	case high+x.rem[c] > x.capacity && !x.off.heads && !x.stacks(unplaced, x.floor[c], x.rem[c], high):
		x.failed = x.blame(c)
	default:
		return true
	}
	return false
}

// blame returns the hull of the reasons for the least offsets in a section.
func (x *exact) blame(c int32) hull {
	why := x.why[c]
	for _, b := range x.members[c][:x.unplaced[c]] {
		why = why.join(x.reason(x.witness[b]))
	}
	return why
}

// stacks says that a stack of these buffers from the floor up ends within the
// capacity. They are jobs on one machine, their least offsets the release dates:
// in the order of those the last is done as soon as it can be. What counts is
// the idle time alone, and it is found without sorting: a few rounds, each of
// which takes all that are released by the end of the round before. Half the
// time of the whole search went into the sort.
func (x *exact) stacks(unplaced []int32, floor, rem, high int64) bool {
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
		default: // idle until the next
			floor += next - end
			end = next
		}
	}
	return false
}
