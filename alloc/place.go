package alloc

// place lays the buffers of s.ids one by one, each into the gap that pick
// chooses among those that its live neighbours leave.
//
// A scan of all neighbours is quadratic where lifetimes are long; here the
// bytes that they take are kept as runs, each the union of many buffers: see
// [taken]. Let g be the most runs that are taken at one step. It takes
// O(n (√n + g log n)) time and O(n + g √n) memory, with g below a hundred in
// most networks; g can be n/2, where every second buffer of a deep stack has
// gone.
func place(s prepared, pick func(r runs, size, align int64) int64) Placement {
	a := Placement{Offsets: make([]int64, len(s.size))}
	t := newTaken(s.sections)
	for _, i := range s.ids {
		off := pick(t.during(s.lo[i], s.hi[i]), s.size[i], s.align[i])
		t.take(s.lo[i], s.hi[i], run{off, off + s.size[i]})
		a.Offsets[i] = off
		a.Arena = max(a.Arena, off+s.size[i])
	}
	return a
}

// smallestGap returns the offset of the gap with the least room that is still
// enough, the lowest at a tie; without any, the top. Room is what is left of
// the gap from the first aligned offset on.
func smallestGap(r runs, size, align int64) int64 {
	best, least, top := int64(-1), int64(0), int64(0)
	for _, x := range r {
		off := roundUp(top, align)
		if room := x.lo - off; room >= size && (best < 0 || room < least) {
			best, least = off, room
		}
		top = x.hi
	}
	if best < 0 {
		return roundUp(top, align)
	}
	return best
}

// lowestGap returns the lowest offset at which the buffer fits.
func lowestGap(r runs, size, align int64) int64 {
	off := int64(0)
	for _, x := range r {
		if x.lo-off >= size {
			break
		}
		off = roundUp(x.hi, align)
	}
	return off
}
