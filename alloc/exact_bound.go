package alloc

// head is an unplaced buffer of a section: it lies at least or above.
type head struct{ least, size int64 }

// settle draws the consequences of changes in these sections. It is false if
// one of them cannot be filled within the capacity; failed then says why.
//
// Floor + rem is the load and what is wasted. Laying a buffer on its floor
// wastes nothing, so only the waste needs an explanation: why. It is enough to
// visit each section once, for a floor rises here no further than the least
// offset of all that it could push up.
func (x *exact) settle(changed hull) bool {
	for c := changed.lo; c < changed.hi; c++ {
		if x.rem[c] > 0 && !x.settleOne(c) {
			return false
		}
	}
	return true
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
	case high+x.rem[c] > x.capacity && !x.off.heads && x.stack(unplaced) > x.capacity:
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
		why = why.join(x.why[x.witness[b]])
	}
	return why
}

// stack returns the least height at which a stack of these buffers ends. They
// are jobs on one machine, their least offsets the release dates: by the order
// of those, none is done later than it must be.
func (x *exact) stack(unplaced []int32) int64 {
	heads := x.heads[:0]
	for _, b := range unplaced {
		h := head{x.least[b], x.size[b]}
		k := len(heads)
		heads = append(heads, h)
		for ; k > 0 && heads[k-1].least > h.least; k-- {
			heads[k] = heads[k-1]
		}
		heads[k] = h
	}
	x.heads = heads
	var top int64
	for _, h := range heads {
		top = max(top, h.least) + h.size
	}
	return top
}
