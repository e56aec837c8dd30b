package kernel

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// A sort key holds an element in its high bits and the element's index in its low ones, so
// that a sort of keys as integers sorts elements, and keeps equal ones in order. It is many
// times faster than a sort of indices that calls a function to compare two elements.

// realKey maps numbers to integers of the same order: -0 equals 0, and NaN equals any other
// and is larger than all numbers.
func realKey(x float32) uint32 {
	if x != x {
		return math.MaxUint32
	}
	b := math.Float32bits(x + 0) // -0 becomes 0
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// sortKeys sorts keys, and polls if they are many.
func sortKeys(c *Invocation, keys []uint64) {
	if len(keys) <= work.PollEvery {
		slices.Sort(keys)
		return
	}
	m := c.Meter()
	slices.SortFunc(keys, func(a, b uint64) int {
		m.Add(8)
		if a < b {
			return -1
		}
		return 1 // keys are distinct
	})
}

// mostInserted is the most elements that topKeys keeps in order while it searches: from some
// more on, moving them takes longer than sorting them now and then.
const mostInserted = 64

// topKeys writes the keys of the k largest or smallest elements of a line of float32,
// in order, to the beginning of keys, which has a place for each element of the line. The
// low 32 bits of a key are the index in the line.
func topKeys(c *Invocation, keys []uint64, x []float32, step, k int, largest bool) {
	n := len(keys)
	sign, flip := float32(1), uint32(0) // the smallest of sign·x come first
	if largest {
		sign, flip = -1, math.MaxUint32
	}
	key := func(j int) uint64 { return uint64(realKey(x[j*step])^flip)<<32 | uint64(j) }
	if k > n/2 {
		for from, to := range c.Pieces(n) {
			for j := from; j < to; j++ {
				keys[j] = key(j)
			}
		}
		sortKeys(c, keys)
		return
	}
	if k == 0 {
		return
	}
	// An element is looked at if it comes before the limit or is NaN. It is kept if its
	// key is below the last: a later element that equals the limit is not.
	found, most := 0, k // keys, and their number at which all but k are given up
	if k > mostInserted {
		most = 2 * k
	}
	last, limit := uint64(math.MaxUint64), float32(math.NaN())
	for from, to := range c.Pieces(n) {
		for j, at := from, from*step; j < to; j, at = j+1, at+step {
			if sign*x[at] >= limit {
				continue
			}
			now := key(j)
			if now >= last {
				continue
			}
			if most == k { // insertion
				if found < k {
					found++
				}
				at := sort.Search(found-1, func(i int) bool { return keys[i] > now })
				copy(keys[at+1:found], keys[at:])
				keys[at] = now
			} else {
				keys[found] = now
				if found++; found < most {
					continue
				}
				sortKeys(c, keys[:found])
				found = k
			}
			if found == k {
				last = keys[k-1]
				limit = sign * x[int(uint32(last))*step]
			}
		}
	}
	if most > k {
		sortKeys(c, keys[:found])
	}
}

// elementKeys writes the sort keys of all elements of a tensor of integers or float32, and
// returns how many of their low bits are the index. ok is false if an element does not fit
// beside it, or the type has no such keys.
func elementKeys(c *Invocation, keys []uint64, t *Tensor) (low int, ok bool) {
	low = bits.Len(uint(max(len(keys)-1, 0)))
	if t.Type == graph.Float32 {
		if low > 32 {
			return 0, false
		}
		x := data[float32](t)
		for from, to := range c.Pieces(len(keys)) {
			for i := from; i < to; i++ {
				keys[i] = uint64(realKey(x[i]))<<low | uint64(i)
			}
		}
		return low, true
	}
	get, ok := form.IntReader(t.Type)
	if !ok || t.Type == graph.Uint64 || len(keys) == 0 {
		return 0, false
	}
	least, most := get(t.At, 0), get(t.At, 0)
	for from, to := range c.Pieces(len(keys)) {
		for i := from; i < to; i++ {
			v := get(t.At, i)
			least, most = min(least, v), max(most, v)
		}
	}
	if bits.Len64(uint64(most)-uint64(least)) > 64-low {
		return 0, false
	}
	for from, to := range c.Pieces(len(keys)) {
		for i := from; i < to; i++ {
			keys[i] = (uint64(get(t.At, i))-uint64(least))<<low | uint64(i)
		}
	}
	return low, true
}
