package alloc

// mallocUnit is the alignment that malloc keeps on 64-bit systems, in bytes.
const mallocUnit = 16

// MallocFirstFit simulates a plain heap: each request takes the lowest hole in
// which it fits, else the heap grows at its top, by what the last hole lacks.
// Blocks have no headers, which is to the heap's favour.
func MallocFirstFit(p Problem) Simulation { return malloc(p, true) }

// MallocBestFit is the same heap, but each request takes the smallest hole in
// which it fits, the lowest of equal ones.
func MallocBestFit(p Problem) Simulation { return malloc(p, false) }

func malloc(p Problem, lowest bool) Simulation {
	return simulate(p, newPool(poolRules{
		round:   func(size int64) int64 { return roundedUp(size, mallocUnit) },
		segment: asAsked,
		split:   always,
		lowest:  lowest,
		joined:  true,
	}))
}

// NoReuse gives each buffer bytes of its own, of its very size, and never uses
// them again. What it reserves is the sum of the sizes.
func NoReuse(p Problem) Simulation { return simulate(p, &noReuse{}) }

type noReuse struct {
	sizes []int64 // by block
	taken int64
}

func (m *noReuse) alloc(size int64) int32 {
	m.sizes = append(m.sizes, size)
	m.taken += size
	return int32(len(m.sizes) - 1)
}

func (m *noReuse) free(int32)          {}
func (m *noReuse) inUse(b int32) int64 { return m.sizes[b] }
func (m *noReuse) reserved() int64     { return m.taken }
