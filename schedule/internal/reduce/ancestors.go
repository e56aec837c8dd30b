package reduce

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// ancestors are the sets of ancestors of the nodes of an order, each with the node itself.
//
// A contraction asks hundreds of times for each node whether it comes before another. It
// finds the sets once, since its rules leave them as they are:
//
//   - forward, w into u: the ancestors of w are u and those of u, so a node after w comes
//     after u too, and the merged node has the ancestors of u;
//   - backward, u into w: the ancestors of u are some of w's, and what comes after u is w or
//     comes after w;
//   - siblings have the same ancestors and come before the same nodes;
//   - an idle node that is taken out stands between no two others.
//
// A node that is delayed gains ancestors. They are ancestors of all its successors already,
// so no other set grows.
type ancestors struct {
	words int      // of a set; 0: there are no sets
	bits  []uint64 // place -> the places of the node and its ancestors
}

// maxSets is the most nodes of which the sets of all ancestors are made: they take V²/8
// bytes.
const maxSets = 6000

// ancestorsOf returns the sets of the nodes of an order, in the memory of bits if that
// suffices. O(E V / 64).
func ancestorsOf(order, place []int32, preds func(v int32) []int32, bits []uint64) ancestors {
	a := ancestors{words: (len(order) + 63) / 64}
	a.bits = indexed.Zeroed(bits, len(order)*a.words)
	for i, v := range order {
		set := a.of(int32(i))
		set[i/64] |= 1 << (i % 64)
		for _, p := range preds(v) {
			for k, x := range a.of(place[p])[:place[p]/64+1] { // no ancestor has a larger place
				set[k] |= x
			}
		}
	}
	return a
}

// of returns the set of the node at a place.
func (a ancestors) of(place int32) []uint64 {
	return a.bits[int(place)*a.words : int(place+1)*a.words]
}

// add adds the set at one place to the set at another.
func (a ancestors) add(from, to int32) {
	if a.words == 0 {
		return
	}
	set := a.of(to)
	for k, x := range a.of(from) {
		set[k] |= x
	}
}

// has reports whether the node at place u is the one at place v or an ancestor of it.
func (a ancestors) has(u, v int32) bool {
	return a.bits[int(v)*a.words+int(u/64)]>>(u%64)&1 == 1
}

// findAncestors finds the sets of the nodes that are left, by their places, if these are not
// too many.
func (c *contraction) findAncestors() {
	if len(c.listing) <= maxSets {
		c.sets = ancestorsOf(c.listing, c.place, func(v int32) []int32 { return c.preds[v] }, c.sets.bits)
	}
}

// precedes reports whether u is v or an ancestor of v. Without sets it may say no if the
// answer takes long to find; all rules hold if it does.
func (c *contraction) precedes(u, v int32) bool {
	switch {
	case u == v:
		return true
	case c.place[u] > c.place[v]:
		return false
	case c.sets.words > 0:
		return c.sets.has(c.place[u], c.place[v])
	}
	return c.near.precedes(u, v, c.place, c.preds)
}

// nearby looks for an ancestor among the nearest ones.
type nearby struct {
	seen   []int32 // node -> the search that last met it
	search int32
	stack  []int32
}

// maxNearby is how many ancestors are looked at.
const maxNearby = 64

// precedes reports whether u is found among the ancestors of v. Only those of a place above
// that of u can lead to u.
func (s *nearby) precedes(u, v int32, place []int32, preds [][]int32) bool {
	stack := s.begin(v, len(place))
	defer func() { s.stack = stack }()
	for visits := 0; len(stack) > 0 && visits < maxNearby; {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, p := range preds[x] {
			if p == u {
				return true
			}
			if place[p] > place[u] && s.seen[p] != s.search {
				s.seen[p] = s.search
				stack = append(stack, p)
				visits++
			}
		}
	}
	return false
}

// begin begins a search from v.
func (s *nearby) begin(v int32, nodes int) []int32 {
	if s.seen == nil {
		s.seen = make([]int32, nodes)
	}
	s.search++
	return append(s.stack[:0], v)
}

// reachesReader reports whether a reader of t is found among the nearest nodes after w. Many nodes
// read a tensor such as the learning rate, too many for a search from each of them.
func (s *nearby) reachesReader(w, t int32, succs, reads [][]int32) bool {
	queue := s.begin(w, len(succs))
	defer func() { s.stack = queue }()
	for i := 0; i < len(queue) && len(queue) <= maxNearby; i++ {
		for _, x := range succs[queue[i]] {
			if s.seen[x] == s.search {
				continue
			}
			if slices.Contains(reads[x], t) {
				return true
			}
			s.seen[x] = s.search
			queue = append(queue, x)
		}
	}
	return false
}
