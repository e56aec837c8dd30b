// Package replay is the rule by which the runs of a program get the places that were planned
// from an earlier run of it: docs/design/replaying.md. Package alloc simulates it, and the
// sessions of vm follow it. The C core of onnxmem-ort has the same rule in ort/src/plan.c;
// testdata/replay/cases.txt holds all three to it.
//
//   - [Walk.Find] says which planned block a request is.
//   - [Live] says whether its place is free.
//   - [Merge] plans for two runs at once.
package replay

import "slices"

// Nearby is the number of blocks ahead and behind among which [Walk.Find] looks for blocks
// that are known by their sizes, which others may have, too.
const Nearby = 16

// farthest bounds how far ahead it looks after many misses, for the sake of time.
const farthest = 1024

// Block is a block of a run, or of the plan that was made from it.
type Block[K comparable] struct {
	Key    K     // by which a later run knows it: its name, its size, or nothing, if its number alone counts
	Size   int64 // bytes
	Last   int   // the number, in the run, of the last block that was allocated before this one was freed
	Stays  bool  // it was not freed in its run, and has no place unless its caller gives it one
	Offset int64 // in the arena, in bytes; of a plan
}

// Plan is a list of blocks in the order of their allocation.
type Plan[K comparable] struct {
	Blocks []Block[K]
	of     map[K][]int // the numbers of the blocks of each key, ascending
}

// NewPlan returns a plan of blocks.
func NewPlan[K comparable](blocks []Block[K]) *Plan[K] {
	p := &Plan[K]{blocks, map[K][]int{}}
	for i := range blocks {
		p.of[blocks[i].Key] = append(p.of[blocks[i].Key], i)
	}
	return p
}

// Walk follows a plan through one run.
type Walk[K comparable] struct {
	plan   *Plan[K]
	nearby int
	next   int    // behind the last block that was found ahead
	taken  []bool // by block
	missed int    // requests in a row that are no block of the plan
}

// NewWalk begins a run. nearby is the number of blocks ahead and behind among which Find
// looks; 0: among all.
func NewWalk[K comparable](p *Plan[K], nearby int) *Walk[K] {
	if nearby == 0 {
		nearby = len(p.Blocks)
	}
	return &Walk[K]{plan: p, nearby: nearby, taken: make([]bool, len(p.Blocks))}
}

// Reset begins another run.
func (w *Walk[K]) Reset() {
	clear(w.taken)
	w.next, w.missed = 0, 0
}

// Next returns the number of the block behind the last one that was found ahead.
func (w *Walk[K]) Next() int { return w.next }

// Find returns the number of the planned block that the next request of the run is, or -1:
// the first one ahead with its key, else the nearest one behind that the run has not asked
// for yet, since branches leave blocks out and threads change places.
//
// Ahead, Find looks two blocks farther for each request that was missed in a row, to at most
// 1024: of what the run left out, one block is behind it for each request.
func (w *Walk[K]) Find(key K) int {
	list := w.plan.of[key]
	k, _ := slices.BinarySearch(list, w.next)
	if k < len(list) && list[k]-w.next < min(w.nearby+2*w.missed, max(w.nearby, farthest)) {
		w.next = list[k] + 1
		return w.take(list[k])
	}
	for k--; k >= 0 && w.next-list[k] <= w.nearby; k-- {
		if !w.taken[list[k]] {
			return w.take(list[k])
		}
	}
	w.missed++
	return -1
}

// FindSmaller does so for a request of so many bytes that Find has not found: it is the next
// block, if that is not smaller, or has no place in any case. For callers that do not know
// the shapes of a run before it begins: smaller ones have other sizes in the same order.
func (w *Walk[K]) FindSmaller(bytes int64) int {
	if w.next == len(w.plan.Blocks) || !w.plan.Blocks[w.next].Stays && w.plan.Blocks[w.next].Size < bytes {
		return -1
	}
	w.next++
	return w.take(w.next - 1)
}

func (w *Walk[K]) take(i int) int {
	w.taken[i] = true
	w.missed = 0
	return i
}
