package zones

import (
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// graph is a problem with its precedence in both directions, and what each node reads and makes.
// The bytes that a node would write over a parameter are a tensor, too, with the other readers
// as its own.
type graph struct {
	n             int
	before, after [][]int32
	above, below  []set // by node: what runs before it in every order, and behind it
	tensors       []tensor
	written       []tensor  // over parameters: readers may run before the maker
	made, read    [][]int32 // by node: tensors
	always        int64     // bytes that are live in every state
	first         int64     // bytes that are live at the first step alone: of inputs that nobody reads
	trans         []int64   // by node: its work, and what it makes
	atOnce        [][]tensor
	pairs         [][]pair
}

type tensor struct {
	bytes   int64
	maker   int32
	readers []int32
	output  bool
}

// pair saves its bytes if no other reader is left of the tensor that is written over.
type pair struct {
	model.Pair
	bytes  int64
	others []int32
}

// newGraph leaves out tensors of fewer bytes than least: the loads without them are lower.
func newGraph(p *model.Problem, least int64) *graph {
	n := len(p.Before)
	g := &graph{n: n, before: make([][]int32, n), after: make([][]int32, n), made: make([][]int32, n), read: make([][]int32, n), trans: slices.Clone(p.Work), atOnce: make([][]tensor, n), pairs: make([][]pair, n)}
	for v, list := range p.Before {
		g.before[v] = slices.Compact(slices.Sorted(slices.Values(list)))
		for _, w := range g.before[v] {
			g.after[w] = append(g.after[w], int32(v))
		}
	}
	add := func(x tensor) {
		if x.maker < 0 && x.output {
			g.always += x.bytes
			return
		}
		id := int32(len(g.tensors))
		g.tensors = append(g.tensors, x)
		if x.maker >= 0 {
			g.made[x.maker] = append(g.made[x.maker], id)
		}
		for _, r := range x.readers {
			g.read[r] = append(g.read[r], id)
		}
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Bytes < least || t.Bytes == 0 {
			continue
		}
		readers := slices.Compact(slices.Sorted(slices.Values(t.Readers)))
		readers = slices.DeleteFunc(readers, func(r int32) bool { return r == t.Maker })
		if t.Maker >= 0 {
			g.trans[t.Maker] += t.Bytes
		}
		if t.Maker < 0 && len(t.Readers) == 0 && !t.Output {
			g.first += t.Bytes
		}
		if t.Output || len(readers) > 0 {
			add(tensor{t.Bytes, t.Maker, readers, t.Output})
		}
	}
	for _, w := range p.Written {
		if w.Bytes < least || len(w.Others) == 0 {
			continue
		}
		others := slices.Compact(slices.Sorted(slices.Values(w.Others)))
		if w.AtOnce {
			g.atOnce[w.Maker] = append(g.atOnce[w.Maker], tensor{bytes: w.Bytes, maker: -1, readers: others})
		}
		if w.Later {
			g.written = append(g.written, tensor{w.Bytes, w.Maker, others, false})
		}
	}
	for v := range p.Pairs {
		for _, x := range p.Pairs[v] {
			if over := &p.Tensors[x.Over]; over.Bytes >= least && over.Bytes > 0 {
				g.pairs[v] = append(g.pairs[v], pair{x, over.Bytes, slices.DeleteFunc(slices.Clone(over.Readers), func(r int32) bool { return int(r) == v })})
			}
		}
	}
	return g
}

// close computes above and below. The nodes are numbered so that each runs behind what it needs.
func (g *graph) close() {
	g.above, g.below = make([]set, g.n), make([]set, g.n)
	for v := range g.n {
		g.above[v], g.below[v] = newSet(g.n), newSet(g.n)
	}
	for v := range g.n {
		for _, w := range g.before[v] {
			g.above[v].or(g.above[w])
			g.above[v].add(w)
		}
	}
	for v := g.n - 1; v >= 0; v-- {
		for _, w := range g.after[v] {
			g.below[v].or(g.below[w])
			g.below[v].add(w)
		}
	}
}

// set is a set of nodes.
type set []uint64

func newSet(n int) set         { return make(set, (n+63)/64) }
func (s set) has(v int32) bool { return s[v>>6]>>(v&63)&1 == 1 }
func (s set) add(v int32)      { s[v>>6] |= 1 << (v & 63) }
func (s set) remove(v int32)   { s[v>>6] &^= 1 << (v & 63) }
func (s set) or(t set) {
	for i := range s {
		s[i] |= t[i]
	}
}

func (s set) and(t set) {
	for i := range s {
		s[i] &= t[i]
	}
}

func (s set) minus(t set) {
	for i := range s {
		s[i] &^= t[i]
	}
}

func (s set) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s set) within(t set) bool {
	for i := range s {
		if s[i]&^t[i] != 0 {
			return false
		}
	}
	return true
}
