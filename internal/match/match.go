// Package match chooses among the in-place pairs of a node.
package match

// Pair is an in-place pair: Node writes tensor Result over tensor Over, and the
// two count once at its step.
type Pair struct {
	Node, Result, Over int32
}

// Matcher finds largest matchings among the in-place pairs of one node. It is
// kept between calls for its memory alone.
type Matcher struct {
	start  []int32 // group -> its first pair; the pairs of one result are a group
	holder []int32 // tensor -> 1 + the group that takes it
	seen   []int32 // tensor -> the search that last met it
	search int32
	pairs  []Pair
}

// New returns a matcher for pairs of so many tensors.
func New(tensors int) *Matcher {
	return &Matcher{holder: make([]int32, tensors), seen: make([]int32, tensors)}
}

// Largest appends to dst a largest set of the pairs in which no result and no
// tensor stands twice, and returns it. The pairs, all of one node, ascend by
// Result, then by Over. Since the two tensors of a pair have one size, the set
// with the most pairs of each size is the one that saves the most bytes, and
// one search serves all sizes.
//
// Ties: each result in turn takes the smallest tensor that no one has; an
// earlier one moves over only if the later would go without. Augmenting paths:
// O(results x pairs) at worst, O(pairs) where results do not compete.
func (m *Matcher) Largest(dst, pairs []Pair) []Pair {
	if len(pairs) <= 1 {
		return append(dst, pairs...)
	}
	m.pairs, m.start = pairs, m.start[:0]
	for i := range pairs {
		if i == 0 || pairs[i].Result != pairs[i-1].Result {
			m.start = append(m.start, int32(i))
		}
	}
	groups := len(m.start)
	m.start = append(m.start, int32(len(pairs)))
	m.search++
	for g := range groups {
		// What a failed search has seen leads nowhere until the matching changes.
		if m.augment(int32(g)) {
			m.search++
		}
	}
	for g := range groups {
		for _, pair := range m.group(int32(g)) {
			if m.holder[pair.Over] == int32(g)+1 {
				dst = append(dst, pair)
			}
		}
	}
	for _, pair := range pairs {
		m.holder[pair.Over] = 0
	}
	return dst
}

func (m *Matcher) group(g int32) []Pair { return m.pairs[m.start[g]:m.start[g+1]] }

// augment finds a tensor for a group, moving others where it must.
func (m *Matcher) augment(g int32) bool {
	for _, pair := range m.group(g) {
		if m.holder[pair.Over] == 0 {
			m.holder[pair.Over] = g + 1
			return true
		}
	}
	for _, pair := range m.group(g) {
		if m.seen[pair.Over] == m.search {
			continue
		}
		m.seen[pair.Over] = m.search
		if m.augment(m.holder[pair.Over] - 1) {
			m.holder[pair.Over] = g + 1
			return true
		}
	}
	return false
}
