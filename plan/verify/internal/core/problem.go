package core

import "math"

// Problem is a graph in its planned order, without what its operators mean: node n runs at
// step n. Nodes and storages are named by their indices. It is the input of the core; what
// must be true of it is said in the package comment.
type Problem struct {
	Nodes    []Node
	Work     []int64 // by node: bytes that it needs while it runs, besides its storages
	Storages []Storage

	Inplace bool     // results may be written over operands, apart from updated values
	Updated []Update // of the parameters and states: each is updated by its last reader
	Chained []Update // of what lies in their buffers: storages one of which is written over the other

	Sums *Sums
	Poll func() // called now and then: it ends the work by a panic; nil: nothing does
}

// Node is a node, as far as memory is concerned.
type Node struct {
	After     []int32 // the makers of all that it reads, whatever its size
	Reads     []int32 // storages, once for each tensor that it reads
	Writes    []int32 // storages, once for each tensor that it makes
	Over      []Pair  // what it may write over what, if nobody reads that later
	Overwrite []int32 // the storages of all operands over which it may write something, if the sizes agree
}

// Pair is two storages of one size, one of which a node may write over the other.
type Pair struct{ Result, Over int32 }

// Update is a storage, and the one that takes its place: the new value of a parameter, or
// what is written over a value on the way to it.
type Update struct{ Old, New int32 }

// Storage is the memory of one tensor, or of several that are views of each other.
type Storage struct {
	Bytes    int64   // as placed: rounded up
	Maker    int32   // the node that writes it, or None
	Readers  []int32 // of any of its tensors; ascending, without duplicates
	Output   bool    // it holds its bytes until the last step
	Resident bool    // live at every step, in a pool of its own
	Outside  bool    // it belongs to an outer graph
	Update   bool    // a parameter, a state or its new value
	Host     bool    // a copy on the host, from step First to Last
	Parts    []int32 // the storages that hold its bytes; nil: it holds them itself

	First, Last int
}

// None is the index of no node and no storage.
const None = -1

// Sums adds sizes, and notes an overflow.
type Sums struct{ Overflow bool }

// Add adds two sizes that are not negative. A sum above 63 bits saturates.
func (s *Sums) Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		s.Overflow = true
		return math.MaxInt64
	}
	return a + b
}

// Counts reports whether storage i counts in loads.
func (p *Problem) Counts(i int32) bool {
	st := &p.Storages[i]
	return !st.Resident && !st.Outside && !st.Host
}

// End is the last step.
func (p *Problem) End() int { return max(len(p.Nodes)-1, 0) }

// Lifetime returns the steps at which a storage holds its bytes if node n runs at step
// pos[n]; nil: in the planned order, in which alone a copy on the host has a lifetime.
func (p *Problem) Lifetime(i int32, pos []int) (first, last int) {
	at := func(n int32) int {
		if pos == nil {
			return int(n)
		}
		return pos[n]
	}
	st := &p.Storages[i]
	switch {
	case st.Resident:
		return 0, p.End()
	case st.Host:
		return st.First, st.Last
	case st.Maker >= 0:
		first = at(st.Maker)
	}
	last = first
	for _, n := range st.Readers {
		last = max(last, at(n))
	}
	if st.Output {
		last = p.End()
	}
	return first, last
}

// PartsOf returns the storages that hold the bytes of storage i: its parts, or itself.
func (p *Problem) PartsOf(i int32) []int32 {
	if parts := p.Storages[i].Parts; parts != nil {
		return parts
	}
	return []int32{i}
}

func (p *Problem) poll() {
	if p.Poll != nil {
		p.Poll()
	}
}

// Identity is the planned order.
func (p *Problem) Identity() []int32 {
	order := make([]int32, len(p.Nodes))
	for i := range order {
		order[i] = int32(i)
	}
	return order
}
