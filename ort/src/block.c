#include "block.h"

#include <stdlib.h>

#include "trace.h"

// HEADER is the distance from a header to the block's bytes.
#define HEADER ALIGNMENT

_Static_assert(sizeof(struct block) <= HEADER, "a header fits before its block");

struct block *block_new(uint64_t size) {
	char *base = malloc(size + HEADER + ALIGNMENT);
	if (!base)
		return NULL;
	struct block *b = (struct block *)(base + (ALIGNMENT - (uintptr_t)base % ALIGNMENT) % ALIGNMENT);
	*b = (struct block){.base = base, .size = size};
	return b;
}

void *block_bytes(struct block *b) { return (char *)b + HEADER; }

struct block *block_of(void *bytes) { return (struct block *)((char *)bytes - HEADER); }

void block_free(struct block *b) { free(b->base); }
