package verify

import "math/bits"

// ranks is a set of small integers that answers "the next one" and "the one
// before" in a few steps: bit i of a level says that word i of the level below
// is not empty.
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

// before gives the largest member that is smaller than i, -1 if there is none.
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

// after gives the smallest member that is larger than i, -1 if there is none.
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
