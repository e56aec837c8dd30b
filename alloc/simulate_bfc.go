package alloc

import "math"

// The constants of bfc_allocator.h and bfc_arena.h, in bytes.
const (
	bfcChunk    = 256       // kMinAllocationSize: all sizes are multiples of it
	bfcDead     = 128 << 20 // the largest rest that may stay unused in a chunk
	bfcFirst    = 2 << 20   // TensorFlow's first region
	bfcFirstORT = 1 << 20   // ONNX Runtime's: initial_chunk_size_bytes
)

// TensorFlowBFC simulates TensorFlow's allocator "best fit with coalescing",
// with allow_growth; without, it takes the whole device at once. Its regions are
// not joined.
func TensorFlowBFC(p Problem) Simulation { return bfc(p, doubling(bfcFirst)) }

// ONNXRuntimeBFC simulates ONNX Runtime's arena with the extend strategy that
// is the default, kNextPowerOfTwo.
func ONNXRuntimeBFC(p Problem) Simulation { return bfc(p, doubling(bfcFirstORT)) }

// ONNXRuntimeBFCExact simulates ONNX Runtime's arena with the extend strategy
// kSameAsRequested, which it recommends for training.
func ONNXRuntimeBFCExact(p Problem) Simulation { return bfc(p, asAsked) }

// bfc takes the smallest chunk that fits, and splits it if it is at least twice
// the request or the rest is at least 128 MiB. The bins of the original speed up
// the search for that chunk and do not change its outcome, as they ascend and
// each is ordered by size and address.
func bfc(p Problem, segment func(int64) int64) Simulation {
	return simulate(p, newPool(poolRules{
		round:   func(size int64) int64 { return roundedUp(size, bfcChunk) },
		segment: segment,
		split:   func(size, rest int64) bool { return rest >= size || rest >= bfcDead },
	}))
}

// doubling returns the sizes of a row of regions: the next one doubles until
// the request fits, or if it did at once, afterwards.
func doubling(next int64) func(int64) int64 {
	return func(size int64) int64 {
		if size <= next {
			region := next
			next = atMost(next, next)
			return region
		}
		for next < size && next < math.MaxInt64 {
			next = atMost(next, next)
		}
		return next
	}
}
