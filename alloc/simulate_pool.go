package alloc

import "math"

// pool is what the allocators of deep learning frameworks have in common:
// segments that the device gave, cut into blocks. A request takes the first
// free block in the order of the free ones that is large enough, its lower end
// if the rest is worth a block of its own; a freed block joins its free
// neighbours of the same segment. Nothing goes back to the device. O(log n) a
// request.
type pool struct {
	poolRules
	blocks []block
	unused []int32 // of blocks
	holes  *holes
	end    int64 // where the last segment ends
	last   int32 // the last block of the last segment, or none
	taken  int64 // bytes that the device gave
	high   int64 // where the highest block that was ever in use ends
}

// poolRules is what allocators differ in.
type poolRules struct {
	round   func(size int64) int64      // the bytes that a request takes
	segment func(size int64) int64      // the bytes to ask the device for, where no block fits
	split   func(size, rest int64) bool // whether the rest becomes a block
	lowest  bool                        // of the blocks that fit, the lowest; else the smallest, lowest at a tie
	joined  bool                        // a segment is the sequel of the one before
	within  int64                       // bytes set aside at first; then reserved is the highest byte in use
}

// block is a piece of a segment.
type block struct {
	addr, size int64
	prev, next int32 // its neighbours in the segment, or noBlock
	free       bool
}

const noBlock = -1

func newPool(r poolRules) *pool {
	p := &pool{poolRules: r, holes: newHoles(r.lowest), last: noBlock}
	if r.within > 0 {
		p.release(p.grow(r.within))
	}
	return p
}

func (p *pool) alloc(size int64) int32 {
	size = p.round(size)
	b := p.holes.first(size)
	if b < 0 {
		b = p.grow(size)
	} else {
		p.holes.remove(b)
	}
	p.blocks[b].free = false
	if rest := p.blocks[b].size - size; rest > 0 && p.split(size, rest) {
		p.cut(b, size)
	}
	p.high = max(p.high, atMost(p.blocks[b].addr, p.blocks[b].size))
	return b
}

// grow takes a segment from the device and returns its only block, or the last
// block of the heap, grown.
func (p *pool) grow(size int64) int32 {
	if p.joined && p.last >= 0 && p.blocks[p.last].free {
		b := p.last
		p.holes.remove(b)
		more := p.segment(size - p.blocks[b].size)
		p.blocks[b].size = atMost(p.blocks[b].size, more)
		p.end, p.taken = atMost(p.end, more), atMost(p.taken, more)
		return b
	}
	bytes := p.segment(size)
	b := p.add(block{addr: p.end, size: bytes, prev: noBlock, next: noBlock})
	if p.joined && p.last >= 0 {
		p.blocks[b].prev = p.last
		p.blocks[p.last].next = b
	}
	p.end, p.taken, p.last = atMost(p.end, bytes), atMost(p.taken, bytes), b
	return b
}

// cut makes a free block of what block b holds above size bytes.
func (p *pool) cut(b int32, size int64) {
	at := p.blocks[b]
	rest := p.add(block{addr: at.addr + size, size: at.size - size, prev: b, next: at.next})
	if at.next >= 0 {
		p.blocks[at.next].prev = rest
	} else if p.last == b {
		p.last = rest
	}
	p.blocks[b].size, p.blocks[b].next = size, rest
	p.release(rest)
}

func (p *pool) free(b int32) {
	if next := p.blocks[b].next; next >= 0 && p.blocks[next].free {
		p.holes.remove(next)
		p.join(b, next)
	}
	if prev := p.blocks[b].prev; prev >= 0 && p.blocks[prev].free {
		p.holes.remove(prev)
		p.join(prev, b)
		b = prev
	}
	p.release(b)
}

// join makes one block of two neighbours.
func (p *pool) join(a, b int32) {
	p.blocks[a].size += p.blocks[b].size
	p.blocks[a].next = p.blocks[b].next
	if next := p.blocks[b].next; next >= 0 {
		p.blocks[next].prev = a
	} else if p.last == b {
		p.last = a
	}
	p.unused = append(p.unused, b)
}

// release enters a block among the free ones.
func (p *pool) release(b int32) {
	p.blocks[b].free = true
	p.holes.add(b, p.blocks[b].size, p.blocks[b].addr)
}

// add returns the index of a new block.
func (p *pool) add(x block) int32 {
	if k := len(p.unused) - 1; k >= 0 {
		b := p.unused[k]
		p.unused = p.unused[:k]
		p.blocks[b] = x
		return b
	}
	p.blocks = append(p.blocks, x)
	return int32(len(p.blocks) - 1)
}

func (p *pool) inUse(b int32) int64 { return p.blocks[b].size }

func (p *pool) reserved() int64 {
	if p.within > 0 {
		return p.high
	}
	return p.taken
}

// always splits what is larger than asked for.
func always(_, _ int64) bool { return true }

// asAsked takes from the device what the request needs.
func asAsked(size int64) int64 { return size }

// unlimited is a pool that is never too small.
const unlimited = math.MaxInt64
