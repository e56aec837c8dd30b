// Following a plan from one iteration to the next: which of its blocks an allocation is.
#ifndef ONNXMEM_FOLLOW_H
#define ONNXMEM_FOLLOW_H

#include "plan.h"

// KNOWN is how many sizes in a row tell where in its plan a stream is.
#define KNOWN 64

// The sizes of a stream's last allocations, in a ring.
struct history {
	uint64_t sizes[KNOWN];
	uint32_t count;
};

void history_add(struct history *h, uint64_t size);

struct follower {
	struct plan *plan; // NULL: none
	struct walk walk;
	uint32_t rounds; // iterations in the plan
	uint32_t round;  // the one that the stream is in, if there are marks
	int located;     // the stream's position in the plan is known
	int fresh;       // the plan's next block is its first
};

// follower_init takes a plan of so many iterations; NULL, or what is wrong with it: then
// the plan is freed.
const char *follower_init(struct follower *f, struct plan *p, uint32_t rounds);

void follower_free(struct follower *f);

// follower_mark takes a mark: the next iteration begins.
void follower_mark(struct follower *f);

// follower_next returns the block of the plan that an allocation is, or NEVER, and says
// whether the plan begins with it. Without marks, the position is found by the sizes
// before; with marks, history is NULL.
uint32_t follower_next(struct follower *f, const struct history *h, uint64_t size, int *begins);

#endif
