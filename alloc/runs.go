package alloc

import "slices"

// run is a range of bytes [lo, hi).
type run struct{ lo, hi int64 }

// runs is a set of bytes: ascending runs that do not touch.
type runs []run

// add puts a run into the set. O(log g) for g runs, and a move of those above.
func (r *runs) add(x run) {
	from := r.at(x.lo)
	to := from
	for to < len(*r) && (*r)[to].lo <= x.hi {
		x.lo = min(x.lo, (*r)[to].lo)
		x.hi = max(x.hi, (*r)[to].hi)
		to++
	}
	if to == from+1 {
		(*r)[from] = x
		return
	}
	*r = slices.Replace(*r, from, to, x)
}

// at returns the index of the first run that ends at off or above.
func (r runs) at(off int64) int {
	from, to := 0, len(r)
	for from < to {
		if mid := (from + to) / 2; r[mid].hi < off {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// top returns the end of the highest run.
func (r runs) top() int64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].hi
}

// extend puts in a run that does not begin below the last one.
func (r *runs) extend(x run) {
	if n := len(*r); n > 0 && x.lo <= (*r)[n-1].hi {
		(*r)[n-1].hi = max((*r)[n-1].hi, x.hi)
		return
	}
	*r = append(*r, x)
}

// union appends to dst, which is empty, the bytes of a and of b. O(a + b).
func union(dst, a, b runs) runs {
	for len(a) > 0 && len(b) > 0 {
		if a[0].lo <= b[0].lo {
			dst.extend(a[0])
			a = a[1:]
		} else {
			dst.extend(b[0])
			b = b[1:]
		}
	}
	for _, rest := range [2]runs{a, b} {
		for _, x := range rest {
			dst.extend(x)
		}
	}
	return dst
}

// gapsIn appends to dst the gaps of at least size bytes that the set leaves in
// each of the given gaps, which ascend.
func (r runs) gapsIn(dst, gaps []run, size int64) []run {
	i := 0
	for _, gap := range gaps {
		i += r[i:].at(gap.lo)
		off := gap.lo
		for ; i < len(r) && r[i].lo < gap.hi; i++ {
			if r[i].lo-off >= size {
				dst = append(dst, run{off, r[i].lo})
			}
			off = r[i].hi
			if off >= gap.hi {
				break // it may reach into the next gap
			}
		}
		if gap.hi-off >= size {
			dst = append(dst, run{off, gap.hi})
		}
	}
	return dst
}
