// What a run allocated and freed, in order.
#ifndef ONNXMEM_TRACE_H
#define ONNXMEM_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define NEVER UINT32_MAX

// ALIGNMENT of all blocks: ONNX Runtime's kernels expect it, and plans are made with it.
#define ALIGNMENT 64

// TINY blocks, such as numbers and shapes, may come in a run or not where all else is as
// before: kernels and versions differ in them.
#define TINY 256

// LARGEST size that is given out; sums of a few sizes cannot overflow.
#define LARGEST ((uint64_t)1 << 47)

// aligned rounds a size up. Sizes are below 2^47, so this does not overflow.
static inline uint64_t aligned(uint64_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// One block. begin and end are positions in the stream of events.
struct traced {
	uint64_t size;
	uint32_t begin;
	uint32_t end;     // NEVER: it outlives the run, as outputs do
	uint32_t planned; // while the run is in flight: its number in the plan; NEVER: none
};

struct trace {
	struct traced *blocks;
	uint32_t count, room;
	uint32_t events; // allocations and frees
	int broken;      // memory for an entry was lacking, or there are too many
};

void trace_free(struct trace *t);

// trace_alloc appends a block and returns its number; NEVER if it cannot be noted.
uint32_t trace_alloc(struct trace *t, uint64_t size);

// trace_end notes that a block was freed.
void trace_end(struct trace *t, uint32_t block);

// trace_hash is equal for streams with equal sizes in the same order.
uint64_t trace_hash(const struct trace *t);

// trace_alike reports whether two streams have the same events, whatever the sizes.
int trace_alike(const struct trace *t, const struct trace *other);

// trace_events returns the blocks in the order of the stream's events: the number of a
// block where it is allocated, and ~number where it is freed. free() it; NULL without
// memory.
int64_t *trace_events(const struct trace *t);

// trace_peak returns the largest sum of live sizes, each rounded up. Blocks that
// outlive the run count only with_outputs.
uint64_t trace_peak(const struct trace *t, int with_outputs);

#endif
