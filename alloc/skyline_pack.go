package alloc

// packer packs all buffers bottom up, once per call of pack and in the order of
// given weights. On the lowest plateau it takes the section under the most
// pressure, and there the buffer with the highest weight that fits within the
// plateau.
//
// The pressure of a section is its top plus the bytes of its unplaced buffers: the
// height at which it will end if no more bytes are wasted. So placing a buffer
// changes no pressure, and wasting bytes raises it. A section without unplaced
// buffers is a wall: its top is infinite. O(n (log n + √n)) per call.
type packer struct {
	s        prepared
	loads    []int64 // by section
	counts   []int64 // by section: minus the number of its buffers
	index    *index
	pressure *maxTree
	unplaced *maxTree // by section: minus the number of its unplaced buffers
}

// stepWork is the work of a step beside its queries, in visited tree nodes.
const stepWork = 32

func newPacker(s prepared) *packer {
	p := &packer{s: s, loads: s.loads(), index: newIndex(s)}
	counts := make([]int64, s.sections+1)
	for _, i := range s.ids {
		counts[s.lo[i]]--
		counts[s.hi[i]]++
	}
	for c := range s.sections {
		counts[c+1] += counts[c]
	}
	p.counts = counts[:s.sections]
	p.pressure, p.unplaced = newMaxTree(s.sections), newMaxTree(s.sections)
	return p
}

// pack returns a placement within the limit. It returns false as soon as the
// arena is sure to pass the limit, the tree nodes visited by all calls reach the
// budget, or stop is closed. Without usePressure, every section of the lowest
// plateau is as good as another.
func (p *packer) pack(weights []float64, usePressure bool, limit int64, budget int, stop <-chan struct{}) (Placement, bool) {
	order := byWeight(weights)
	p.index.reset(order)
	p.pressure.reset(p.loads)
	p.unplaced.reset(p.counts)
	tops := newSkyline(int32(p.s.sections))
	a := Placement{Offsets: make([]int64, len(p.s.size))}
	for done := range order {
		if done%(1<<12) == 0 && closed(stop) {
			return Placement{}, false
		}
		rank := int32(-1)
		var at plateau
		for {
			if p.index.work > budget {
				return Placement{}, false
			}
			p.index.work += stepWork
			at = tops.lowest()
			if !usePressure {
				if rank = p.index.firstWithin(at.lo, at.hi); rank >= 0 {
					break
				}
				tops.raise(at)
				continue
			}
			c := p.pressure.argmax(at.lo, at.hi)
			if rank = p.index.firstAcross(at.lo, c, at.hi); rank >= 0 {
				break
			}
			if !p.waste(tops, at, c, limit) {
				return Placement{}, false
			}
		}
		p.index.remove(rank)
		i := p.s.ids[order[rank]]
		off := roundUp(at.height, p.s.align[i])
		top := off + p.s.size[i]
		if top > limit {
			return Placement{}, false
		}
		a.Offsets[i] = off
		a.Arena = max(a.Arena, top)
		p.place(tops, at, plateau{p.s.lo[i], p.s.hi[i], top}, off-at.height)
	}
	return a, true
}

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waste raises section c of the plateau, or the whole plateau if no buffer fits
// within it, to its lower neighbour. It returns false if the section must then
// pass the limit.
func (p *packer) waste(tops *skyline, at plateau, c int32, limit int64) bool {
	x := at
	if p.index.firstWithin(at.lo, at.hi) >= 0 {
		x = plateau{c, c + 1, at.height}
	}
	x.height = tops.lowerNeighbour(at)
	p.pressure.add(x.lo, x.hi, x.height-at.height)
	if p.pressure.top() > limit {
		return false
	}
	tops.place(at, x)
	return true
}

// place puts the top of a buffer on a plateau, and walls on its sections that have
// no unplaced buffers left.
func (p *packer) place(tops *skyline, on, x plateau, wasted int64) {
	if wasted > 0 {
		p.pressure.add(x.lo, x.hi, wasted)
	}
	p.unplaced.add(x.lo, x.hi, 1)
	var walls []int32
	for c := p.unplaced.argmaxFrom(x.lo, x.hi, 0); c >= 0; c = p.unplaced.argmaxFrom(x.lo, x.hi, 0) {
		p.unplaced.add(c, c+1, -never)
		p.pressure.add(c, c+1, -never)
		walls = append(walls, c)
	}
	tops.cut(on, x.lo, x.hi)
	for _, c := range walls {
		if x.lo < c {
			tops.put(plateau{x.lo, c, x.height})
		}
		tops.put(plateau{c, c + 1, never})
		x.lo = c + 1
	}
	if x.lo < x.hi {
		tops.put(x)
	}
}

// byWeight returns the places in weights, the highest weight first.
func byWeight(weights []float64) []int32 {
	order := make([]int32, len(weights))
	for b := range order {
		order[b] = int32(b)
	}
	sortBy(order, func(b int32) uint64 { return ^keyOfFloat(weights[b]) })
	return order
}
