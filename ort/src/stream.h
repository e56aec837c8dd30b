// One stream of a device: its arena, what it records, and the plans that it follows.
//
// The functions change only the stream, and call the driver for its arena. Their caller
// holds the lock, and takes blocks outside of the arena from the driver itself.
#ifndef ONNXMEM_STREAM_H
#define ONNXMEM_STREAM_H

#include "arena.h"
#include "follow.h"
#include "onnxmem_torch.h"
#include "recording.h"

// Another stream that uses a block.
struct use {
	struct use *next;
	const void *bytes;
	void *stream;
};

// What a block outside of arenas is, in range.under.
enum { RECORDED, MISS, CAPTURED };

// Iterations of one kind, such as those with inputs of one shape.
struct kind {
	struct kind *next; // less recently used
	uint64_t key;
	struct recording recording;
	int woken;                   // somebody knows that it is due
	struct follower now, coming; // the plan, and the one that takes its place where it begins
	uint32_t in_round;           // allocations since the iteration began
	uint32_t round_allocations;  // in an iteration of the plan that came last
	int deviated;                // this iteration leaves the plan
	uint32_t deviations;         // iterations in a row that do
	uint32_t patience;           // how many there may be
};

struct stream {
	struct stream *next;
	int device;
	void *handle;
	struct ranges outside; // by address
	struct arena *arena;   // that of the plan; NULL: none yet
	struct arena *arenas;  // with retired ones
	struct use *uses;

	uint64_t marks;     // the last mark that it has seen; 0: none
	struct kind *kinds; // that of this iteration is the first
	struct history history;
	uint32_t missed; // misses in a row
	uint64_t live_bytes, fallback_bytes;
	struct onnxmem_torch_memory memory;
};

// stream_new returns a stream whose iterations are of a kind; NULL without memory.
struct stream *stream_new(int device, void *handle, uint64_t kind);

// stream_kind returns a kind of a stream's iterations, or NULL.
struct kind *stream_kind(struct stream *s, uint64_t key);

// stream_mark begins an iteration of a kind, with the stream's next allocation. mark is the
// number of the mark, from 1.
void stream_mark(struct stream *s, uint64_t mark, uint64_t kind);

// stream_place returns the address that the plan has for a stream's next block, or NULL and
// what it shall be outside. number is that of the block in the recording.
void *stream_place(struct stream *s, uint64_t size, uint32_t number, uint32_t *what);

// stream_leave takes a block out of one of the stream's arenas.
void stream_leave(struct stream *s, struct arena *a, struct range *r);

// stream_trim gives the arena back to the driver if nothing lives in it.
void stream_trim(struct stream *s);

// stream_take and stream_give count what is taken from the driver; stream_peak returns the
// most that was taken at one time, for all streams.
void stream_take(struct stream *s, uint64_t size);
void stream_give(struct stream *s, uint64_t size);
uint64_t stream_peak(void);

#endif
