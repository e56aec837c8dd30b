package alloc

import "slices"

// prepared is a valid problem as the strategies see it: sizes rounded up, the
// buffers of 0 bytes left out, and sections for steps.
//
// A section is a set of buffers that are live together and that no larger such
// set contains. In the order of time they number at most n, whatever the
// number of steps: the four buffers of the package comment make two,
//
//	step      0 1 2 3
//	section    0   1      {a, b, c} and {c, d}
//
// for the first step's {a, b} is part of the second's. Each buffer is in the
// sections [lo, hi); two are live together if and only if they share one.
type prepared struct {
	ids         []int   // of the buffers that have a size, ascending
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
	s.cut(p)
	return s
}

// cut finds the sections: each is closed by the first end after a start, where
// a buffer ends after all that start at its last step.
func (s *prepared) cut(p Problem) {
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

// loads returns the bytes that each section needs.
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

// grain divides all offsets and all heights that the exact search can meet, but
// for what alignment adds where it does not divide the grain.
func (s prepared) grain() int64 {
	var g int64
	for _, i := range s.ids {
		g = gcd(g, s.size[i])
		g = gcd(g, s.fixed[i])
	}
	return g
}

// rounds says that some offset may need rounding up to an alignment.
func (s prepared) rounds() bool {
	grain := s.grain()
	return slices.ContainsFunc(s.ids, func(i int) bool { return grain%s.align[i] != 0 })
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
