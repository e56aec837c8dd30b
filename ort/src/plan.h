// A plan: where each block of a recorded run lies in the arena.
#ifndef ONNXMEM_PLAN_H
#define ONNXMEM_PLAN_H

#include "trace.h"

// OUTSIDE stands for the offset of a block that is not in the arena.
#define OUTSIDE UINT64_MAX

struct placed {
	uint64_t size, offset;
	uint32_t over; // the block that it is written over, which is live then; NEVER: none
	uint32_t by;   // the block that is written over it; NEVER: none

	// Of a planned model: positions among the events of the blocks that are not TINY.
	uint32_t begin, end;
};

struct plan {
	struct plan *next; // less recently used
	uint64_t serial;
	uint64_t key; // which inputs it is for
	struct placed *blocks;
	uint32_t count;
	uint64_t arena_bytes, live_peak_bytes, lower_bound_bytes, output_bytes, scratch_bytes;
	struct trace trace; // the run it was made from; of a table of version 1: no blocks
	uint64_t hash;      // of that run
	int packed;         // 0: placed by best fit
	int loaded;         // it comes from a table
	int enforced;       // the places are those of a planned model
	int merged;         // the sizes are the largest of several runs with the same events
	int dropped;        // the session does not have it any more
	int users;          // runs in flight
	struct moved *move; // what plan_moved takes; NULL: nothing
};

// plan_make takes the trace and places its blocks by best fit, in the order of the
// stream: for the runs until a better placement is known. Blocks that outlive the run
// stay outside unless with_outputs. NULL without memory; the trace is then as it was.
struct plan *plan_make(struct trace *t, uint64_t key, int with_outputs);

// plan_load reads a table as `onnxmem pack --to replay` writes it. Of version 2, blocks
// that outlive the run stay outside unless with_outputs. NULL on errors, with the reason
// in error.
struct plan *plan_load(const char *text, uint64_t key, int with_outputs, char *error, size_t room);

// plan_move notes other offsets for the blocks of a plan; plan_moved takes them, once no
// run is in flight: a run keeps the places with which it began. plan_move returns 0
// without memory.
int plan_move(struct plan *p, const uint64_t *offsets, uint64_t arena_bytes, uint64_t lower_bound_bytes);
void plan_moved(struct plan *p);

void plan_free(struct plan *p);

// NEARBY is how many blocks ahead and behind walk_next looks.
#define NEARBY 16

// FARTHEST bounds how far ahead it looks after many misses, for the sake of time.
#define FARTHEST 1024

// A walk over a plan, by the sizes of the allocations of a run. Its rule is that of package
// internal/replay in Go, written down in docs/design/replaying.md; testdata/replay/cases.txt
// holds both to it.
struct walk {
	unsigned char *taken; // for each block, whether it was allocated
	uint32_t last;        // behind the block that was found ahead last
	uint32_t missed;      // allocations in a row that are no block of the plan
};

// walk_init begins a walk; it returns 0 without memory.
int walk_init(struct walk *w, const struct plan *p);

// walk_to moves a walk to a block: it is the next.
void walk_to(struct walk *w, uint32_t block);

// walk_next returns the block of the plan that the next allocation is: the first one ahead
// of its size, else the nearest one behind that was not allocated yet, since branches leave
// blocks out and threads change places. NEVER if there is none. Ahead, it looks two blocks farther
// for each allocation that was missed in a row, to at most FARTHEST.
uint32_t walk_next(struct walk *w, const struct plan *p, uint64_t size);

void walk_free(struct walk *w);

#endif
