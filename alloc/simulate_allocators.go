package alloc

import (
	"math"

	"github.com/onnxmem/onnxmem/internal/units"
)

// The constants of c10/cuda/CUDACachingAllocator.cpp, in bytes.
const (
	cudaBlock    = 512      // kMinBlockSize: all sizes are multiples of it
	cudaSmall    = 1 << 20  // kSmallSize: the largest small request
	cudaBuffer   = 2 << 20  // kSmallBuffer: a segment of small blocks, and a page of an expandable one
	cudaLarge    = 20 << 20 // kLargeBuffer: a segment that large requests share, and a page of an expandable one
	cudaMinLarge = 10 << 20 // kMinLargeAlloc: a request that has a segment of its own
	cudaRound    = 2 << 20  // kRoundLarge: such a segment is a multiple of it
)

// PyTorch simulates the caching allocator of PyTorch for CUDA with its default
// settings: no limit on splitting, no expandable segments, no rounding to powers of
// two. Requests of up to 1 MiB never share a segment with larger ones. The rest of a
// small block becomes a block if it is at least 512 bytes, the rest of a large one
// if it is more than 1 MiB.
func PyTorch(p Problem) Simulation {
	round := func(size int64) int64 { return roundUpSaturating(size, cudaBlock) }
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
			return roundUpSaturating(size, cudaRound)
		},
		split: func(_, rest int64) bool { return rest > cudaSmall },
	})
	return simulate(p, &cudaPools{small, large})
}

// PyTorchExpandable simulates the caching allocator of PyTorch for CUDA with
// expandable_segments:True. Each of the two kinds of blocks has one range of
// addresses, which grows at its end by pages of 2 or 20 MiB; its end is used last, and
// a rest of 512 bytes becomes a block. Pages are given back only when the device has
// none left, which is not simulated.
func PyTorchExpandable(p Problem) Simulation {
	heap := func() *pool {
		return newPool(poolRules{
			round:   func(size int64) int64 { return roundUpSaturating(size, cudaBlock) },
			segment: asAsked,
			split:   always,
			initial: unlimited,
		})
	}
	return simulate(p, &cudaHeaps{cudaPools{heap(), heap()}})
}

// cudaHeaps is cudaPools whose pools are expandable segments.
type cudaHeaps struct{ cudaPools }

func (c *cudaHeaps) reserved() int64 {
	return units.Add(roundUpSaturating(c.small.reserved(), cudaBuffer), roundUpSaturating(c.large.reserved(), cudaLarge))
}

// cudaPools is the pools of small and of large blocks. Small blocks have even
// numbers here, large ones odd numbers.
type cudaPools struct{ small, large *pool }

func (c *cudaPools) alloc(size int64) int32 {
	if size <= cudaSmall {
		return c.small.alloc(size) << 1
	}
	return c.large.alloc(size)<<1 | 1
}

func (c *cudaPools) free(b int32)        { c.pool(b).free(b >> 1) }
func (c *cudaPools) inUse(b int32) int64 { return c.pool(b).inUse(b >> 1) }
func (c *cudaPools) reserved() int64     { return units.Add(c.small.reserved(), c.large.reserved()) }

func (c *cudaPools) pool(b int32) *pool {
	if b&1 == 0 {
		return c.small
	}
	return c.large
}

// The constants of bfc_allocator.h and bfc_arena.h, in bytes.
const (
	bfcChunk    = 256       // kMinAllocationSize: all sizes are multiples of it
	bfcDead     = 128 << 20 // the largest rest that may stay unused in a chunk
	bfcFirst    = 2 << 20   // TensorFlow's first region
	bfcFirstORT = 1 << 20   // ONNX Runtime's: initial_chunk_size_bytes
)

// TensorFlowBFC simulates TensorFlow's "best fit with coalescing" allocator with
// allow_growth; without that option, TensorFlow takes the whole device at once.
// Regions are never joined.
func TensorFlowBFC(p Problem) Simulation { return bfc(p, doubling(bfcFirst)) }

// ONNXRuntimeBFC simulates ONNX Runtime's arena with its default extend strategy,
// kNextPowerOfTwo.
func ONNXRuntimeBFC(p Problem) Simulation { return bfc(p, doubling(bfcFirstORT)) }

// ONNXRuntimeBFCExact simulates ONNX Runtime's arena with the extend strategy
// kSameAsRequested, which ONNX Runtime recommends for training.
func ONNXRuntimeBFCExact(p Problem) Simulation { return bfc(p, asAsked) }

// bfc takes the smallest chunk that fits, and splits it if it is at least twice the
// request or the rest is at least 128 MiB. The bins of the original only speed up
// the search for that chunk: they ascend, and each is ordered by size and address.
func bfc(p Problem, segment func(int64) int64) Simulation {
	return simulate(p, newPool(poolRules{
		round:   func(size int64) int64 { return roundUpSaturating(size, bfcChunk) },
		segment: segment,
		split:   func(size, rest int64) bool { return rest >= size || rest >= bfcDead },
	}))
}

// doubling returns the sizes of successive regions. The size doubles until the
// request fits; if it fits at once, the size doubles afterwards.
func doubling(next int64) func(int64) int64 {
	return func(size int64) int64 {
		if size <= next {
			region := next
			next = units.Add(next, next)
			return region
		}
		for next < size && next < math.MaxInt64 {
			next = units.Add(next, next)
		}
		return next
	}
}

// cnmemGranularity is CNMEM_GRANULARITY of cnmem.cpp, in bytes: all sizes are
// multiples of it.
const cnmemGranularity = 512

// CnMem simulates NVIDIA's cnmem as frameworks use it: one pool is set aside at the
// start, here without an end. Reserved is the end of the highest byte in use, which
// is the size of the pool that would have been enough. SmartPool (Zhang et al. 2019,
// table I) compares itself with this footprint. The smallest free block that fits is
// always split.
func CnMem(p Problem) Simulation { return cnmem(p, unlimited) }

// CnMemGrow simulates cnmem without a pool set aside: if no block fits, it takes one
// of the size asked for from the device. Blocks of different origin are never
// joined.
func CnMemGrow(p Problem) Simulation { return cnmem(p, 0) }

func cnmem(p Problem, initial int64) Simulation {
	return simulate(p, newPool(poolRules{
		round:   func(size int64) int64 { return roundUpSaturating(size, cnmemGranularity) },
		segment: asAsked,
		split:   always,
		initial: initial,
	}))
}

// mallocUnit is the alignment that malloc keeps on 64-bit systems, in bytes.
const mallocUnit = 16

// MallocFirstFit simulates a plain heap: each request takes the lowest hole where it
// fits. If there is none, the heap grows at its top, by the bytes that the last hole
// lacks. Blocks have no headers, which favours the heap.
func MallocFirstFit(p Problem) Simulation { return malloc(p, true) }

// MallocBestFit simulates the same heap, but each request takes the smallest hole
// where it fits, the lowest of equal ones.
func MallocBestFit(p Problem) Simulation { return malloc(p, false) }

func malloc(p Problem, lowest bool) Simulation {
	return simulate(p, newPool(poolRules{
		round:   func(size int64) int64 { return roundUpSaturating(size, mallocUnit) },
		segment: asAsked,
		split:   always,
		lowest:  lowest,
		joined:  true,
	}))
}

// NoReuse gives each buffer bytes of its own, exactly its size, and never reuses
// them. It reserves the sum of the sizes.
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
