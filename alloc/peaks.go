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

// first returns where the largest number of [lo, hi) is, leftmost.
func (p *peaks) first(lo, hi int32) int32 {
	_, at := p.firstIn(1, 0, p.leaves, lo, hi, 0, -2*never, -1)
	return at
}

// firstAt returns where the largest number of [lo, hi) is if it is at least x,
// else -1.
func (p *peaks) firstAt(lo, hi int32, x int64) int32 {
	_, at := p.firstIn(1, 0, p.leaves, lo, hi, 0, x-1, -1)
	return at
}

func (p *peaks) firstIn(node, from, to, lo, hi int32, owed, best int64, at int32) (int64, int32) {
	if hi <= from || to <= lo || p.most[node]+owed <= best {
		return best, at
	}
	if to-from == 1 {
		return p.most[node] + owed, from
	}
	mid := (from + to) / 2
	owed += p.owed[node]
	best, at = p.firstIn(2*node, from, mid, lo, hi, owed, best, at)
	return p.firstIn(2*node+1, mid, to, lo, hi, owed, best, at)
}
