package alloc

// maxTree holds a number for each section and answers where the largest is. It is
// a segment tree of maxima with lazy additions. All calls but reset take O(log n).
type maxTree struct {
	leaves  int32   // a power of two; tree node x has halves 2x and 2x+1
	largest []int64 // by tree node, with the pending additions at the node and below
	pending []int64 // by tree node: to be added to all numbers below
}

func newMaxTree(n int) *maxTree {
	t := &maxTree{leaves: 1}
	for int(t.leaves) < n {
		t.leaves *= 2
	}
	t.largest = make([]int64, 2*t.leaves)
	t.pending = make([]int64, 2*t.leaves)
	return t
}

// reset sets all numbers. The leaves beyond the row are too small to be found.
func (t *maxTree) reset(row []int64) {
	clear(t.pending)
	copy(t.largest[t.leaves:], row)
	for k := int(t.leaves) + len(row); k < len(t.largest); k++ {
		t.largest[k] = -never
	}
	for k := t.leaves - 1; k > 0; k-- {
		t.largest[k] = max(t.largest[2*k], t.largest[2*k+1])
	}
}

// top returns the largest number of all.
func (t *maxTree) top() int64 { return t.largest[1] }

// add adds x to the numbers of [lo, hi).
func (t *maxTree) add(lo, hi int32, x int64) { t.addIn(1, 0, t.leaves, lo, hi, x) }

func (t *maxTree) addIn(node, from, to, lo, hi int32, x int64) {
	if hi <= from || to <= lo {
		return
	}
	if lo <= from && to <= hi {
		t.largest[node] += x
		t.pending[node] += x
		return
	}
	mid := (from + to) / 2
	t.addIn(2*node, from, mid, lo, hi, x)
	t.addIn(2*node+1, mid, to, lo, hi, x)
	t.largest[node] = max(t.largest[2*node], t.largest[2*node+1]) + t.pending[node]
}

// maxIn returns the largest number of [lo, hi).
func (t *maxTree) maxIn(lo, hi int32) int64 {
	x, _ := t.search(1, 0, t.leaves, lo, hi, 0, -2*never, -1)
	return x
}

// argmax returns where the largest number of [lo, hi) is, the leftmost of equal ones.
func (t *maxTree) argmax(lo, hi int32) int32 { return t.argmaxFrom(lo, hi, -2*never+1) }

// argmaxFrom is argmax if the largest number is at least x, else -1.
func (t *maxTree) argmaxFrom(lo, hi int32, x int64) int32 {
	_, node := t.search(1, 0, t.leaves, lo, hi, 0, x-1, -1)
	if node < 0 {
		return -1
	}
	for node < t.leaves {
		left := t.largest[2*node]+t.pending[node] == t.largest[node]
		node *= 2
		if !left {
			node++
		}
	}
	return node - t.leaves
}

// search returns the largest number of [lo, hi) that is above best, and the
// leftmost tree node that has it among those that cover the range; else best and
// found as they are. pending is the sum of the additions above the node.
func (t *maxTree) search(node, from, to, lo, hi int32, pending, best int64, found int32) (int64, int32) {
	if hi <= from || to <= lo || t.largest[node]+pending <= best {
		return best, found
	}
	if lo <= from && to <= hi {
		return t.largest[node] + pending, node
	}
	mid := (from + to) / 2
	pending += t.pending[node]
	best, found = t.search(2*node, from, mid, lo, hi, pending, best, found)
	return t.search(2*node+1, mid, to, lo, hi, pending, best, found)
}
