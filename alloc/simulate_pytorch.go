package alloc

// The constants of c10/cuda/CUDACachingAllocator.cpp, in bytes.
const (
	cudaBlock    = 512      // kMinBlockSize: all sizes are multiples of it
	cudaSmall    = 1 << 20  // kSmallSize: the largest small request
	cudaBuffer   = 2 << 20  // kSmallBuffer: a segment of small blocks
	cudaLarge    = 20 << 20 // kLargeBuffer: a segment that large requests share
	cudaMinLarge = 10 << 20 // kMinLargeAlloc: a request that has a segment of its own
	cudaRound    = 2 << 20  // kRoundLarge: such a segment is a multiple of it
)

// PyTorch simulates the caching allocator of PyTorch for CUDA in its default
// settings: no limit on splitting, no expandable segments, no rounding to
// powers of two. Requests of up to 1 MiB and larger ones never share a segment.
// The rest of a small block becomes a block from 512 bytes on, that of a large
// one if it is more than 1 MiB.
func PyTorch(p Problem) Simulation {
	round := func(size int64) int64 { return roundedUp(size, cudaBlock) }
	small := newPool(poolRules{
		round:   round,
		segment: func(int64) int64 { return cudaBuffer },
		split:   func(_, rest int64) bool { return rest >= cudaBlock },
	})
	large := newPool(poolRules{
		round: round,
		segment: func(size int64) int64 {
			if size < cudaMinLarge {
				return cudaLarge
			}
			return roundedUp(size, cudaRound)
		},
		split: func(_, rest int64) bool { return rest > cudaSmall },
	})
	return simulate(p, &cudaPools{small, large})
}

// cudaPools are the pool of small blocks, whose blocks have even numbers here,
// and that of large ones.
type cudaPools struct{ small, large *pool }

func (c *cudaPools) alloc(size int64) int32 {
	if size <= cudaSmall {
		return c.small.alloc(size) << 1
	}
	return c.large.alloc(size)<<1 | 1
}

func (c *cudaPools) free(b int32)        { c.pool(b).free(b >> 1) }
func (c *cudaPools) inUse(b int32) int64 { return c.pool(b).inUse(b >> 1) }
func (c *cudaPools) reserved() int64     { return atMost(c.small.reserved(), c.large.reserved()) }

func (c *cudaPools) pool(b int32) *pool {
	if b&1 == 0 {
		return c.small
	}
	return c.large
}
