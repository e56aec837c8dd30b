// Arenas in the host's memory: addresses are reserved once, and become usable as blocks
// reach them, so that an arena grows where it is.
#ifndef ONNXMEM_HOST_H
#define ONNXMEM_HOST_H

#include "arena.h"

// host_new adds an arena to a list; it has room for size bytes, and for as many more as can
// be had at no cost. NULL if the system refuses.
struct arena *host_new(struct arena **list, uint64_t size);

// host_free takes an arena from its list, and gives everything back to the system.
void host_free(struct arena **list, struct arena *a);

// host_take is arena_take, of a size that is rounded up to ALIGNMENT.
struct range *host_take(struct arena *a, uint64_t offset, uint64_t size);

// host_find takes a place for a block that no plan knows, and returns its range: the
// smallest gap that blocks have had before, else the lowest one. NULL as arena_take.
struct range *host_find(struct arena *a, uint64_t size);

// host_discard gives the memory from an offset on back to the system, but for what lives.
void host_discard(struct arena *a, uint64_t from);

#endif
