// Package match works on in-place pairs (a result and a tensor that it may overwrite).
// A [Matcher] returns the pairs of one node that save the most bytes, each tensor used
// once. [Chains] returns the buffers that the pairs of all nodes form: tensors that
// overwrite each other one after another.
package match

// Pair is an in-place pair: Node writes tensor Result over tensor Over, and the
// two count once at its step.
type Pair struct {
	Node, Result, Over int32
}

// Matcher finds largest matchings among the in-place pairs of one node. It holds no
// state between calls except buffers for reuse.
type Matcher struct {
	start  []int32 // group -> its first pair; the pairs of one result are a group
	holder []int32 // tensor -> 1 + the group that takes it
	seen   []int32 // tensor -> the search that last visited it
	search int32
	pairs  []Pair
}

// New returns a matcher for pairs of the given number of tensors.
func New(tensors int) *Matcher {
	return &Matcher{holder: make([]int32, tensors), seen: make([]int32, tensors)}
}

// Largest appends to dst a largest set of the pairs in which no result and no
// overwritten tensor occurs twice, and returns it. The pairs, all of one node, ascend by
// Result, then by Over. Both tensors of a pair have the same size. So results of
// different sizes do not compete, a set of the most pairs has the most of each size,
// and it saves the most bytes.
//
// Ties: each result in turn takes the smallest tensor that is free; an earlier result
// moves to another tensor only if the later one would get none. Augmenting paths:
// O(results x pairs) at worst, O(pairs) if results do not compete.
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
		// Until the matching changes, no augmenting path leads through tensors that a
		// failed search has visited.
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

// augment finds a tensor for a group and moves other groups if it must.
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
