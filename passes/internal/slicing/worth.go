package slicing

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/ops"
)

// Most windows are not worth a look. If a window begins with nodes that run whole before its
// slices, and another one begins behind these, then both have the same regions. The nodes need as
// much in the first window as outside of the second one. So a window is looked at if nodes up to
// the next start of a window run in slices, or may.

// later returns the next node behind one at which a window may begin.
func (s *Search) later(from int) int {
	i, _ := slices.BinarySearch(s.starts, from+1)
	if i == len(s.starts) {
		return len(s.g.Nodes)
	}
	return s.starts[i]
}

// worth returns along which axes of what a node makes the regions of the window [from, to] are
// looked at: a bit for each axis.
func (s *Search) worth(from, to int) uint64 {
	if s.all {
		return math.MaxUint64
	}
	list, known := s.looks[to]
	if !known {
		list = s.worthTo(to)
		if s.looks == nil {
			s.looks = map[int][]uint64{}
		}
		s.looks[to] = list
	}
	return list[to-from]
}

// worthTo returns that for all windows that end at a node, by the number of nodes before it that
// they have. Which nodes a seed needs in slices does not depend on the start of the window.
func (s *Search) worthTo(to int) []uint64 {
	first := max(to-s.Reach+1, 0)
	inSlices := make([]uint64, to-first+1)
	if n := s.g.Nodes[to]; len(n.Outputs) > 0 && n.Outputs[0] >= 0 && s.owner(to) >= 0 {
		for axis, d := range s.shape(n.Outputs[0]) {
			if d < 2 || s.Program.cut(to, axis) == nil {
				continue
			}
			r := &Region{Start: first, End: to, Seed: to, Axis: axis, p: s.Program, class: make([]class, to-first+1), cuts: make([]*ops.Cut, to-first+1)}
			r.backwards(to, axis)
			for i, c := range r.class {
				if c == inside {
					inSlices[to-first-i] |= 1 << axis
				}
			}
		}
	}
	list, some := make([]uint64, to-first+1), uint64(0) // some: nodes up to the next start may run in slices
	for v := to; v >= first; v-- {
		if _, start := slices.BinarySearch(s.starts, v+1); start {
			some = 0
		}
		if some |= inSlices[to-v]; s.mayBeAbsorbed(v, to) || s.Sums && s.attention(v) != nil {
			some = math.MaxUint64
		}
		list[to-v] = some
	}
	return list
}

// mayBeAbsorbed reports whether a region that ends at a node may take in a node that its seed does
// not need in slices ([Region.absorb]).
func (p *Program) mayBeAbsorbed(v, to int) bool {
	n, read := p.g.Nodes[v], false
	for _, t := range n.Outputs {
		if t < 0 {
			continue
		}
		x := p.g.Tensors[t]
		if x.Output || p.Keep[x.Name] || len(x.Readers) > 0 && int(slices.Max(x.Readers)) > to {
			return false
		}
		read = read || len(x.Readers) > 0
	}
	return read && p.grows(n)
}
