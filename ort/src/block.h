// Blocks that lie outside of arenas: each has a header before its bytes.
#ifndef ONNXMEM_BLOCK_H
#define ONNXMEM_BLOCK_H

#include "onnxmem_ort.h"

enum kind {
	UNKNOWN,  // of no session
	WEIGHT,   // taken while a session was made
	RECORDED, // of a run without a plan, and small, or the arena is another run's
	OUTPUT,   // outside by plan
	FALLBACK, // a miss
	TINY_BLOCK, // of a run in the plan of a model that does not have it
};

struct block {
	void *base; // what malloc returned
	uint64_t size;
	onnxmem_session *session;
	uint64_t run; // serial number of the run
	uint32_t number;
	enum kind kind;
};

// block_new returns a block without a session, or NULL.
struct block *block_new(uint64_t size);

// block_bytes is the address that a caller has; block_of is the way back.
void *block_bytes(struct block *b);
struct block *block_of(void *bytes);

void block_free(struct block *b);

#endif
