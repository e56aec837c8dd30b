#include "block.h"

#include <stdlib.h>

#include "os.h"
#include "trace.h"

// HEADER is the distance from a header to the block's bytes.
#define HEADER ALIGNMENT

// LARGE blocks may have pages of their own: a page that is not full costs at most 3 %.
#define LARGE (128 << 10)

_Static_assert(sizeof(struct block) <= HEADER, "a header fits before its block");

struct block *block_new(uint64_t size, int pages) {
	struct block *b;
	uint64_t whole = size + HEADER + ALIGNMENT;
	if (pages && size >= LARGE) {
		if (!(b = os_map(whole)))
			return NULL;
		*b = (struct block){.base = b, .size = size, .mapped = whole};
		return b;
	}
	char *base = malloc(whole);
	if (!base)
		return NULL;
	b = (struct block *)(base + (ALIGNMENT - (uintptr_t)base % ALIGNMENT) % ALIGNMENT);
	*b = (struct block){.base = base, .size = size};
	return b;
}

void *block_bytes(struct block *b) { return (char *)b + HEADER; }

struct block *block_of(void *bytes) { return (struct block *)((char *)bytes - HEADER); }

void block_free(struct block *b) {
	if (b->mapped)
		os_unmap(b->base, b->mapped);
	else
		free(b->base);
}
