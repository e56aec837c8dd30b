package alloc

import "slices"

// prepared is a valid problem in the form that the strategies use: sizes are
// rounded up, buffers of 0 bytes are left out, and sections replace steps.
//
// A section is a maximal set of buffers that are live together. In the order of
// time there are at most n sections, whatever the number of steps. The four buffers
// of the package comment have two:
//
//	step      0 1 2 3
//	section    0   1      {a, b, c} and {c, d}
//
// {a, b} at step 0 is a part of {a, b, c}. Each buffer is in the sections [lo, hi).
// Two buffers are live together if and only if they share a section.
type prepared struct {
	ids         []int   // the buffers of more than 0 bytes, ascending
	lo, hi      []int32 // by buffer, as are the next two
	size, align []int64
	fixed       map[int]int64
	sections    int
	work        int // Problem.work
}

func prepare(p Problem) prepared {
	n := len(p.Buffers)
	s := prepared{
		lo:    make([]int32, n),
		hi:    make([]int32, n),
		size:  make([]int64, n),
		align: make([]int64, n),
		work:  p.work,
	}
	for i := range p.Buffers {
		s.size[i], s.align[i] = p.size(i), p.align(i)
		if s.size[i] > 0 {
			s.ids = append(s.ids, i)
			if off := p.Buffers[i].Fixed; off != nil {
				if s.fixed == nil {
					s.fixed = map[int]int64{}
				}
				s.fixed[i] = *off
			}
		}
	}
	s.findSections(p)
	return s
}

// findSections sweeps over the starts and ends of the lifetimes; at one step, starts
// come first. The first end after a start closes a section.
func (s *prepared) findSections(p Problem) {
	starts, ends := slices.Clone(s.ids), slices.Clone(s.ids)
	sortBy(starts, func(i int) uint64 { return keyOf(p.Buffers[i].First) })
	sortBy(ends, func(i int) uint64 { return keyOf(p.Buffers[i].Last) })
	open := false
	for _, e := range ends {
		for len(starts) > 0 && p.Buffers[starts[0]].First <= p.Buffers[e].Last {
			if !open {
				open = true
				s.sections++
			}
			s.lo[starts[0]] = int32(s.sections - 1)
			starts = starts[1:]
		}
		open = false
		s.hi[e] = int32(s.sections)
	}
}

// loads returns the total size of each section.
func (s prepared) loads() []int64 {
	change := make([]int64, s.sections+1)
	for _, i := range s.ids {
		change[s.lo[i]] += s.size[i]
		change[s.hi[i]] -= s.size[i]
	}
	for c := range s.sections {
		change[c+1] += change[c]
	}
	return change[:s.sections]
}

// granularity returns the largest number of bytes that divides all sizes and fixed
// offsets. It divides all offsets and heights of the exact search, too, unless an
// alignment that does not divide it rounds one up (see rounds).
func (s prepared) granularity() int64 {
	var g int64
	for _, i := range s.ids {
		g = gcd(g, s.size[i])
		g = gcd(g, s.fixed[i])
	}
	return g
}

// rounds reports whether some offset may need rounding up to an alignment.
func (s prepared) rounds() bool {
	g := s.granularity()
	return slices.ContainsFunc(s.ids, func(i int) bool { return g%s.align[i] != 0 })
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
