// An arena: the bytes in which a plan has its places, and what lives in them. Whose
// memory that is, the host's or a GPU's, is its maker's business: nothing here reads it.
#ifndef ONNXMEM_ARENA_H
#define ONNXMEM_ARENA_H

#include "ranges.h"

struct arena {
	struct arena *next;
	char *base;
	uint64_t size;
	struct ranges live;
	int retired; // no run uses it any more: it goes with the last block in it

	// Of the host's: bytes from the base that are usable, and that may have memory.
	uint64_t usable, touched;
};

// arena_add puts an arena of size bytes at base into a list; NULL without memory for the
// entry.
struct arena *arena_add(struct arena **list, void *base, uint64_t size);

// arena_remove takes an arena from its list and frees the entry. The bytes at its base
// are the caller's again.
void arena_remove(struct arena **list, struct arena *a);

// arena_with returns the arena in which an address lies, or NULL.
struct arena *arena_with(struct arena *list, const void *bytes);

// arena_take notes that a block lives at an offset, and returns its range. NULL if
// something lives there, the block would end behind the arena, or there is no memory for
// the entry: then the place must not be given out.
struct range *arena_take(struct arena *a, uint64_t offset, uint64_t size);

// arena_at returns the range that begins at an address in an arena, or NULL.
struct range *arena_at(struct arena *a, const void *bytes);

#endif
