package alloc

import "slices"

// run is a range of bytes [lo, hi).
type run struct{ lo, hi int64 }

// runs is a set of bytes: ascending runs that do not touch.
type runs []run

// add puts a run into the set. O(log g) and a move of what lies above.
func (r *runs) add(x run) {
	from := r.firstUpTo(x.lo)
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

// firstUpTo returns the index of the first run that ends at lo or above.
func (r runs) firstUpTo(lo int64) int {
	from, to := 0, len(r)
	for from < to {
		if mid := (from + to) / 2; r[mid].hi < lo {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// extend appends a run that does not begin below the last one.
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
	for _, x := range append(a, b...) {
		dst.extend(x)
	}
	return dst
}
