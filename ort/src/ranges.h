// The ranges of an arena in which something lives: an ordered set, a skip list.
//
// An address is given out only after ranges_add has found nothing there, so this set is
// what keeps two blocks apart, whatever a plan says. All operations but ranges_gap take
// logarithmic time.
#ifndef ONNXMEM_RANGES_H
#define ONNXMEM_RANGES_H

#include <stdint.h>

#define RANGES_LEVELS 10

struct range {
	uint64_t start, end; // offsets in the arena; end is the first byte behind
	uint64_t run;        // serial number of the run that made the block
	uint32_t block;      // the block's number in that run
	uint32_t planned;    // its number in the run's plan; UINT32_MAX: none
	uint32_t under;      // of the same run: the number of the block that this one lies over, until that is freed; UINT32_MAX: none
	uint32_t levels;
	struct range *next[RANGES_LEVELS];
};

struct ranges {
	struct range head;    // before all ranges
	struct range *unused; // removed ranges, to be used again
	uint32_t random;
	uint32_t count;
};

void ranges_init(struct ranges *set);
void ranges_free(struct ranges *set);

// ranges_add adds [start, end), start < end, and returns it; NULL if something lives in
// it, or without memory for the entry.
struct range *ranges_add(struct ranges *set, uint64_t start, uint64_t end);

// ranges_at returns the range that begins at start, or NULL.
struct range *ranges_at(const struct ranges *set, uint64_t start);

void ranges_remove(struct ranges *set, struct range *r);

// ranges_gap returns the begin of the smallest gap below limit into which size bytes
// fit, of several the first; UINT64_MAX if there is none. It takes linear time, or looks
// at the first most gaps alone.
uint64_t ranges_gap(const struct ranges *set, uint64_t size, uint64_t limit, uint32_t most);

// ranges_top returns the end of the last range.
uint64_t ranges_top(const struct ranges *set);

#endif
