// Blocks that lie outside of arenas: each has a header before its bytes.
#ifndef ONNXMEM_BLOCK_H
#define ONNXMEM_BLOCK_H

#include "onnxmem_ort.h"

enum kind {
	UNKNOWN,  // of no session
	WEIGHT,   // taken while a session was made
	RECORDED, // of a run without a plan
	OUTPUT,   // outside by plan
	FALLBACK, // a miss
};

struct block {
	void *base; // what malloc or os_map returned
	uint64_t size;
	uint64_t mapped; // bytes of os_map; 0: malloc
	onnxmem_session *session;
	uint64_t run; // serial number of the run
	uint32_t number;
	enum kind kind;
};

// block_new returns a block without a session, or NULL. With pages, a large one gets
// pages of its own, which the system has back when it is freed: malloc would keep some
// of what a recorded run took.
struct block *block_new(uint64_t size, int pages);

// block_bytes is the address that a caller has; block_of is the way back.
void *block_bytes(struct block *b);
struct block *block_of(void *bytes);

void block_free(struct block *b);

#endif
