package alloc

// holes is a set of free blocks in an order, by size and then by address or by
// address alone, that answers which is the first of at least a size: a treap
// whose tree nodes know the largest size below them. The node of a block has
// the block's index, so that a set needs no memory of its own for each change.
// O(log n) a call, expected over priorities that are the same in every run.
type holes struct {
	lowest bool // by address alone
	nodes  []holeNode
	root   int32
}

type holeNode struct {
	size, addr, most int64
	priority         uint64
	left, right      int32
}

func newHoles(lowest bool) *holes { return &holes{lowest: lowest, root: noBlock} }

// first returns the first block of at least size bytes, or noBlock.
func (h *holes) first(size int64) int32 {
	if h.most(h.root) < size {
		return noBlock
	}
	at := h.root
	for {
		x := &h.nodes[at]
		switch {
		case h.most(x.left) >= size:
			at = x.left
		case x.size >= size:
			return at
		default:
			at = x.right
		}
	}
}

// add enters a block that is not in the set.
func (h *holes) add(b int32, size, addr int64) {
	for int(b) >= len(h.nodes) {
		h.nodes = append(h.nodes, holeNode{priority: mix(uint64(len(h.nodes)) + 1)})
	}
	x := &h.nodes[b]
	x.size, x.addr, x.most = size, addr, size
	x.left, x.right = noBlock, noBlock
	before, after := h.split(h.root, b)
	h.root = h.merge(h.merge(before, b), after)
}

// remove takes out a block that is in the set.
func (h *holes) remove(b int32) { h.root = h.without(h.root, b) }

func (h *holes) without(at, b int32) int32 {
	x := &h.nodes[at]
	if at == b {
		return h.merge(x.left, x.right)
	}
	if h.less(b, at) {
		x.left = h.without(x.left, b)
	} else {
		x.right = h.without(x.right, b)
	}
	h.pull(at)
	return at
}

// split parts a tree into the blocks before b and those after it.
func (h *holes) split(at, b int32) (before, after int32) {
	if at < 0 {
		return noBlock, noBlock
	}
	x := &h.nodes[at]
	if h.less(at, b) {
		x.right, after = h.split(x.right, b)
		h.pull(at)
		return at, after
	}
	before, x.left = h.split(x.left, b)
	h.pull(at)
	return before, at
}

// merge makes one tree of two, all of the first before all of the second.
func (h *holes) merge(a, b int32) int32 {
	switch {
	case a < 0:
		return b
	case b < 0:
		return a
	case h.nodes[a].priority > h.nodes[b].priority:
		h.nodes[a].right = h.merge(h.nodes[a].right, b)
		h.pull(a)
		return a
	}
	h.nodes[b].left = h.merge(a, h.nodes[b].left)
	h.pull(b)
	return b
}

// less is the order of the set. Addresses differ, but for those past the
// largest int64: these go by block.
func (h *holes) less(a, b int32) bool {
	x, y := &h.nodes[a], &h.nodes[b]
	switch {
	case !h.lowest && x.size != y.size:
		return x.size < y.size
	case x.addr != y.addr:
		return x.addr < y.addr
	}
	return a < b
}

func (h *holes) pull(at int32) {
	x := &h.nodes[at]
	x.most = max(x.size, h.most(x.left), h.most(x.right))
}

// most returns the largest size in a tree.
func (h *holes) most(at int32) int64 {
	if at < 0 {
		return -1
	}
	return h.nodes[at].most
}
