#include "ranges.h"

#include <stdlib.h>
#include <string.h>

void ranges_init(struct ranges *set) {
	memset(set, 0, sizeof *set);
	set->random = 2463534242u;
}

void ranges_free(struct ranges *set) {
	for (struct range *r = set->head.next[0], *next; r; r = next) {
		next = r->next[0];
		free(r);
	}
	for (struct range *r = set->unused, *next; r; r = next) {
		next = r->next[0];
		free(r);
	}
	ranges_init(set);
}

// before finds, on each level, the last range that begins before start.
static void before(const struct ranges *set, uint64_t start, struct range **last) {
	struct range *r = (struct range *)&set->head;
	for (int level = RANGES_LEVELS - 1; level >= 0; level--) {
		while (r->next[level] && r->next[level]->start < start)
			r = r->next[level];
		last[level] = r;
	}
}

// height draws the number of levels of a range: each is a quarter as likely as the one
// below it (Marsaglia's xorshift).
static uint32_t height(struct ranges *set) {
	uint32_t x = set->random;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	set->random = x;
	uint32_t levels = 1;
	while (levels < RANGES_LEVELS && (x & 3) == 0) {
		levels++;
		x >>= 2;
	}
	return levels;
}

struct range *ranges_add(struct ranges *set, uint64_t start, uint64_t end) {
	struct range *last[RANGES_LEVELS];
	before(set, start, last);
	struct range *next = last[0]->next[0];
	if ((last[0] != &set->head && last[0]->end > start) || (next && next->start < end))
		return NULL;
	struct range *r = set->unused;
	if (r)
		set->unused = r->next[0];
	else if (!(r = malloc(sizeof *r)))
		return NULL;
	r->start = start;
	r->end = end;
	r->under = r->planned = UINT32_MAX;
	r->levels = height(set);
	for (uint32_t level = 0; level < r->levels; level++) {
		r->next[level] = last[level]->next[level];
		last[level]->next[level] = r;
	}
	set->count++;
	return r;
}

struct range *ranges_at(const struct ranges *set, uint64_t start) {
	struct range *last[RANGES_LEVELS];
	before(set, start, last);
	struct range *r = last[0]->next[0];
	return r && r->start == start ? r : NULL;
}

void ranges_remove(struct ranges *set, struct range *r) {
	struct range *last[RANGES_LEVELS];
	before(set, r->start, last);
	for (uint32_t level = 0; level < r->levels; level++)
		last[level]->next[level] = r->next[level];
	r->next[0] = set->unused;
	set->unused = r;
	set->count--;
}

uint64_t ranges_gap(const struct ranges *set, uint64_t size, uint64_t limit, uint32_t most) {
	uint64_t best = UINT64_MAX, room = 0, end = 0;
	for (const struct range *r = set->head.next[0];; r = r->next[0]) {
		if (!most--)
			return best;
		uint64_t until = r && r->start < limit ? r->start : limit;
		if (until >= end && until - end >= size && (best == UINT64_MAX || until - end < room)) {
			best = end;
			room = until - end;
		}
		if (!r || r->end >= limit)
			return best;
		end = r->end;
	}
}

uint64_t ranges_top(const struct ranges *set) {
	const struct range *r = &set->head;
	for (int level = RANGES_LEVELS - 1; level >= 0; level--)
		while (r->next[level])
			r = r->next[level];
	return r == &set->head ? 0 : r->end;
}
