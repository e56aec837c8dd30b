package alloc

// peaks is a row of numbers, by section, that answers where the largest is: a
// tree of maxima with pending additions. All in O(log n).
type peaks struct {
	leaves int32   // a power of two; tree node x has halves 2x and 2x+1
	most   []int64 // with what is pending at the node and below
	owed   []int64 // added to all below
}

func newPeaks(n int) *peaks {
	p := &peaks{leaves: 1}
	for int(p.leaves) < n {
		p.leaves *= 2
	}
	p.most = make([]int64, 2*p.leaves)
	p.owed = make([]int64, 2*p.leaves)
	return p
}

// reset sets all numbers; those beyond are very small.
func (p *peaks) reset(row []int64) {
	clear(p.owed)
	copy(p.most[p.leaves:], row)
	for k := int(p.leaves) + len(row); k < len(p.most); k++ {
		p.most[k] = -never
	}
	for k := p.leaves - 1; k > 0; k-- {
		p.most[k] = max(p.most[2*k], p.most[2*k+1])
	}
}

// top returns the largest of all.
func (p *peaks) top() int64 { return p.most[1] }

// add adds to the numbers of [lo, hi).
func (p *peaks) add(lo, hi int32, x int64) { p.addIn(1, 0, p.leaves, lo, hi, x) }

func (p *peaks) addIn(node, from, to, lo, hi int32, x int64) {
	if hi <= from || to <= lo {
		return
	}
	if lo <= from && to <= hi {
		p.most[node] += x
		p.owed[node] += x
		return
	}
	mid := (from + to) / 2
	p.addIn(2*node, from, mid, lo, hi, x)
	p.addIn(2*node+1, mid, to, lo, hi, x)
	p.most[node] = max(p.most[2*node], p.most[2*node+1]) + p.owed[node]
}

// largest returns the largest number of [lo, hi).
func (p *peaks) largest(lo, hi int32) int64 {
	most, _ := p.mostIn(1, 0, p.leaves, lo, hi, 0, -2*never, -1)
	return most
}

// first returns where the largest number of [lo, hi) is, leftmost.
func (p *peaks) first(lo, hi int32) int32 { return p.firstAt(lo, hi, -2*never+1) }

// firstAt returns where the largest number of [lo, hi) is if it is at least x,
// else -1.
func (p *peaks) firstAt(lo, hi int32, x int64) int32 {
	_, node := p.mostIn(1, 0, p.leaves, lo, hi, 0, x-1, -1)
	if node < 0 {
		return -1
	}
	for node < p.leaves {
		left := p.most[2*node]+p.owed[node] == p.most[node]
		node *= 2
		if !left {
			node++
		}
	}
	return node - p.leaves
}

// mostIn returns the largest number of [lo, hi) above best, and of the tree
// nodes that cover the span the leftmost that has it.
func (p *peaks) mostIn(node, from, to, lo, hi int32, owed, best int64, at int32) (int64, int32) {
	if hi <= from || to <= lo || p.most[node]+owed <= best {
		return best, at
	}
	if lo <= from && to <= hi {
		return p.most[node] + owed, node
	}
	mid := (from + to) / 2
	owed += p.owed[node]
	best, at = p.mostIn(2*node, from, mid, lo, hi, owed, best, at)
	return p.mostIn(2*node+1, mid, to, lo, hi, owed, best, at)
}
