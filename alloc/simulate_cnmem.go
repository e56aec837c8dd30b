package alloc

// cnmemGranularity is CNMEM_GRANULARITY of cnmem.cpp: all sizes are multiples
// of so many bytes.
const cnmemGranularity = 512

// CnMem simulates NVIDIA's pool cnmem as frameworks ran it: one pool set aside
// at the start, here without an end. Reserved is the highest byte that was in
// use, the pool that would have sufficed; it is the footprint that SmartPool
// (Zhang et al. 2019, table I) compares itself with. The smallest free block
// that fits is split whatever the rest.
func CnMem(p Problem) Simulation { return cnmem(p, unlimited) }

// CnMemGrow simulates cnmem without a pool set aside: where no block fits the
// device gives one of the size asked for. Blocks of different origin never join.
func CnMemGrow(p Problem) Simulation { return cnmem(p, 0) }

func cnmem(p Problem, within int64) Simulation {
	return simulate(p, newPool(poolRules{
		round:   func(size int64) int64 { return roundedUp(size, cnmemGranularity) },
		segment: asAsked,
		split:   always,
		within:  within,
	}))
}
