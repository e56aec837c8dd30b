package alloc

import (
	"math"

	"github.com/onnxmem/onnxmem/internal/units"
)

// pool is the common part of the allocators of deep learning frameworks. It takes
// segments from the device and cuts them into blocks. A request takes the first free
// block, in the order of freeBlocks, that is large enough; if the rule allows a
// split, only its lower end. A freed block is joined with its free neighbours in the
// segment. No segment goes back to the device. O(log n) per request.
type pool struct {
	poolRules
	blocks    []block
	unused    []int32 // indices of blocks that can be reused
	available *freeBlocks
	end       int64 // of the last segment
	last      int32 // the last block of the last segment, or noBlock
	taken     int64 // bytes taken from the device
	high      int64 // the highest end of a block in use so far
}

// poolRules is the rules in which these allocators differ.
type poolRules struct {
	round   func(size int64) int64      // the bytes that a request takes
	segment func(size int64) int64      // the bytes to take from the device if no block fits
	split   func(size, rest int64) bool // whether the rest becomes a block
	lowest  bool                        // take the lowest block that fits, not the smallest; ties go to the lowest
	joined  bool                        // a segment continues the previous one
	initial int64                       // bytes set aside at the start; if not 0, reserved returns the highest end in use
}

// block is a piece of a segment.
type block struct {
	addr, size int64
	prev, next int32 // its neighbours in the segment, or noBlock
	free       bool
}

const noBlock = -1

func newPool(r poolRules) *pool {
	p := &pool{poolRules: r, available: newFreeBlocks(r.lowest), last: noBlock}
	if r.initial > 0 {
		p.release(p.grow(r.initial))
	}
	return p
}

func (p *pool) alloc(size int64) int32 {
	size = p.round(size)
	b := p.available.first(size)
	if b < 0 {
		b = p.grow(size)
	} else {
		p.available.remove(b)
	}
	p.blocks[b].free = false
	if rest := p.blocks[b].size - size; rest > 0 && p.split(size, rest) {
		p.cut(b, size)
	}
	p.high = max(p.high, units.Add(p.blocks[b].addr, p.blocks[b].size))
	return b
}

// grow takes a segment from the device and returns its only block. If segments are
// joined and the last block is free, it grows and returns that block.
func (p *pool) grow(size int64) int32 {
	if p.joined && p.last >= 0 && p.blocks[p.last].free {
		b := p.last
		p.available.remove(b)
		more := p.segment(size - p.blocks[b].size)
		p.blocks[b].size = units.Add(p.blocks[b].size, more)
		p.end, p.taken = units.Add(p.end, more), units.Add(p.taken, more)
		return b
	}
	bytes := p.segment(size)
	b := p.add(block{addr: p.end, size: bytes, prev: noBlock, next: noBlock})
	if p.joined && p.last >= 0 {
		p.blocks[b].prev = p.last
		p.blocks[p.last].next = b
	}
	p.end, p.taken, p.last = units.Add(p.end, bytes), units.Add(p.taken, bytes), b
	return b
}

// cut shortens block b to size bytes and makes a free block of the rest.
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
		p.available.remove(next)
		p.join(b, next)
	}
	if prev := p.blocks[b].prev; prev >= 0 && p.blocks[prev].free {
		p.available.remove(prev)
		p.join(prev, b)
		b = prev
	}
	p.release(b)
}

// join joins block b to its neighbour a.
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

// release adds a block to the free ones.
func (p *pool) release(b int32) {
	p.blocks[b].free = true
	p.available.add(b, p.blocks[b].size, p.blocks[b].addr)
}

// add adds a block and returns its index.
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
	if p.initial > 0 {
		return p.high
	}
	return p.taken
}

// always splits every block that is larger than the request.
func always(_, _ int64) bool { return true }

// asAsked takes a segment of the size of the request.
func asAsked(size int64) int64 { return size }

// unlimited is the size of a pool that is never too small.
const unlimited = math.MaxInt64

// freeBlocks is a set of free blocks, ordered by size and then by address, or by
// address alone. It answers which is the first block of at least a given size. It is
// a treap whose tree nodes know the largest size below them. A block has the same
// index in the pool and in nodes, so changes need no memory. Each call takes
// O(log n), expected over priorities that are the same in every run.
type freeBlocks struct {
	lowest bool // ordered by address alone
	nodes  []treapNode
	root   int32
}

type treapNode struct {
	size, addr, largest int64 // largest: in the subtree
	priority            uint64
	left, right         int32
}

func newFreeBlocks(lowest bool) *freeBlocks { return &freeBlocks{lowest: lowest, root: noBlock} }

// first returns the first block of at least size bytes, or noBlock.
func (f *freeBlocks) first(size int64) int32 {
	if f.largest(f.root) < size {
		return noBlock
	}
	at := f.root
	for {
		x := &f.nodes[at]
		switch {
		case f.largest(x.left) >= size:
			at = x.left
		case x.size >= size:
			return at
		default:
			at = x.right
		}
	}
}

// add adds a block that is not in the set.
func (f *freeBlocks) add(b int32, size, addr int64) {
	for int(b) >= len(f.nodes) {
		f.nodes = append(f.nodes, treapNode{priority: mix(uint64(len(f.nodes)) + 1)})
	}
	x := &f.nodes[b]
	x.size, x.addr, x.largest = size, addr, size
	x.left, x.right = noBlock, noBlock
	before, after := f.split(f.root, b)
	f.root = f.merge(f.merge(before, b), after)
}

// remove removes a block that is in the set.
func (f *freeBlocks) remove(b int32) { f.root = f.removeFrom(f.root, b) }

func (f *freeBlocks) removeFrom(at, b int32) int32 {
	x := &f.nodes[at]
	if at == b {
		return f.merge(x.left, x.right)
	}
	if f.less(b, at) {
		x.left = f.removeFrom(x.left, b)
	} else {
		x.right = f.removeFrom(x.right, b)
	}
	f.update(at)
	return at
}

// split splits a tree into the blocks before b and the blocks after it.
func (f *freeBlocks) split(at, b int32) (before, after int32) {
	if at < 0 {
		return noBlock, noBlock
	}
	x := &f.nodes[at]
	if f.less(at, b) {
		x.right, after = f.split(x.right, b)
		f.update(at)
		return at, after
	}
	before, x.left = f.split(x.left, b)
	f.update(at)
	return before, at
}

// merge joins two trees. All blocks of a come before all blocks of b.
func (f *freeBlocks) merge(a, b int32) int32 {
	switch {
	case a < 0:
		return b
	case b < 0:
		return a
	case f.nodes[a].priority > f.nodes[b].priority:
		f.nodes[a].right = f.merge(f.nodes[a].right, b)
		f.update(a)
		return a
	}
	f.nodes[b].left = f.merge(a, f.nodes[b].left)
	f.update(b)
	return b
}

// less is the order of the set. Addresses are equal only beyond the largest int64,
// where they go by block.
func (f *freeBlocks) less(a, b int32) bool {
	x, y := &f.nodes[a], &f.nodes[b]
	switch {
	case !f.lowest && x.size != y.size:
		return x.size < y.size
	case x.addr != y.addr:
		return x.addr < y.addr
	}
	return a < b
}

// update computes the largest size of a subtree from its halves.
func (f *freeBlocks) update(at int32) {
	x := &f.nodes[at]
	x.largest = max(x.size, f.largest(x.left), f.largest(x.right))
}

// largest returns the largest size in a subtree, or -1 if it is empty.
func (f *freeBlocks) largest(at int32) int64 {
	if at < 0 {
		return -1
	}
	return f.nodes[at].largest
}
