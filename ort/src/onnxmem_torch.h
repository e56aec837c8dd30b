// onnxmem_torch: the memory of PyTorch on CUDA in packed arenas, one for each stream.
//
// PyTorch calls onnxmem_torch_malloc and onnxmem_torch_free as those of a
// CUDAPluggableAllocator. What a stream allocates and frees is recorded; once somebody has
// packed an iteration of it (onnxmem_torch_due, _recorded, _take), each block has a fixed
// offset in the stream's arena. Whatever deviates is taken from the driver.
//
// A block belongs to the stream for which it was allocated: its bytes are given to nobody
// else but to later blocks of that stream, which CUDA runs in order.
//
// All functions may be called from any thread. Linux only. docs/pytorch.md has more.
#ifndef ONNXMEM_TORCH_H
#define ONNXMEM_TORCH_H

#include "onnxmem_ort.h"

// What a stream has taken. Counts are those of all its allocations so far.
struct onnxmem_torch_memory {
	uint64_t arena_bytes;       // the arena
	uint64_t plan_bytes;        // what the plan of this iteration needs of it
	uint64_t lower_bound_bytes; // of the plan: no placement of its blocks needs less
	uint64_t live_peak_bytes;   // the most that lived in the arena at one time
	uint64_t outside_bytes;     // what lives outside of it: weights, states, misses
	uint64_t fallback_bytes;    // the most that misses took at one time
	uint64_t captured_bytes;    // of CUDA graphs: taken while the stream was captured, and kept
	uint64_t driver_bytes;      // all that is taken from the driver
	uint64_t driver_peak_bytes; // the most that was
	uint64_t hits;              // blocks at their places in the arena
	uint64_t misses;            // blocks that had a plan, and came from the driver
	uint64_t recorded;          // blocks of a stream without a plan
	uint64_t iterations;        // that were replayed
	uint64_t plans;             // that the stream has had
};

// onnxmem_torch_open opens NVIDIA's driver: before anything is allocated. NULL is
// libcuda.so.1, "" this program. It returns 0 on errors, with the reason in error.
ONNXMEM_API int onnxmem_torch_open(const char *library, char *error, size_t room);

// What PyTorch calls. onnxmem_torch_malloc returns NULL if the device has no memory left;
// the first time, it prints so.
ONNXMEM_API void *onnxmem_torch_malloc(size_t size, int device, void *stream);
ONNXMEM_API void onnxmem_torch_free(void *bytes, size_t size, int device, void *stream);

// onnxmem_torch_record_stream says that another stream uses a block, too: when it is
// freed, its own stream waits for what that one was given until then.
ONNXMEM_API void onnxmem_torch_record_stream(void *bytes, void *stream);

// onnxmem_torch_base returns the begin and the size of the driver's block in which an
// address lies.
ONNXMEM_API void *onnxmem_torch_base(void *bytes, size_t *size);

// onnxmem_torch_trim gives arenas in which nothing lives back to the driver.
ONNXMEM_API void onnxmem_torch_trim(void);

// onnxmem_torch_mark says that an iteration of a kind begins. Each kind has plans of its
// own, from mark to mark.
ONNXMEM_API void onnxmem_torch_mark(uint64_t kind);

// onnxmem_torch_streams returns the number of streams; onnxmem_torch_stream says what the
// i-th has taken. It returns 0 if there is none.
ONNXMEM_API uint32_t onnxmem_torch_streams(void);
ONNXMEM_API int onnxmem_torch_stream(uint32_t i, int *device, uint64_t *stream, struct onnxmem_torch_memory *m);

// onnxmem_torch_peak returns the most that was taken from the driver at one time, for all
// streams.
ONNXMEM_API uint64_t onnxmem_torch_peak(void);

// onnxmem_torch_notify names a file descriptor to which a byte is written when a stream is
// due; -1: none.
ONNXMEM_API void onnxmem_torch_notify(int file);

// onnxmem_torch_due returns a stream whose recording of a kind shall be packed, or -1.
// Until onnxmem_torch_take it stays due. last is 1 if it should have a plan now, whether or not
// its iterations are equal.
ONNXMEM_API int64_t onnxmem_torch_due(uint64_t *kind, int *last);

// onnxmem_torch_recorded copies what a stream has recorded, at most so many blocks and
// marks, and returns their numbers in *blocks and *marks: sizes, the positions of
// allocation and free in the stream of events (UINT32_MAX: not freed), and the positions
// before which iterations begin.
ONNXMEM_API void onnxmem_torch_recorded(uint32_t stream, uint64_t kind, uint64_t *sizes, uint32_t *begins, uint32_t *ends, uint32_t *blocks, uint32_t *marks_at, uint32_t *marks);

// onnxmem_torch_take gives a kind of a stream a table of `onnxmem pack --to replay` (version 1) for
// so many iterations; it takes effect where that begins. NULL: there is no repetition yet,
// so that recording goes on. It returns 0 on errors, with the reason in error.
ONNXMEM_API int onnxmem_torch_take(uint32_t stream, uint64_t kind, const char *table, uint32_t iterations, char *error, size_t room);

#endif
