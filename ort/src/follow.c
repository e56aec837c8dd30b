#include "follow.h"

#include <string.h>

void history_add(struct history *h, uint64_t size) { h->sizes[h->count++ % KNOWN] = size; }

const char *follower_init(struct follower *f, struct plan *p, uint32_t rounds) {
	*f = (struct follower){.plan = p, .rounds = rounds};
	const char *wrong = NULL;
	if (!p->count || !rounds || p->count % rounds)
		wrong = "expected equally many blocks in each iteration";
	else if (!walk_init(&f->walk, p))
		wrong = "no memory";
	if (wrong)
		follower_free(f);
	return wrong;
}

void follower_free(struct follower *f) {
	walk_free(&f->walk);
	plan_free(f->plan);
	*f = (struct follower){0};
}

// restart begins the plan again.
static void restart(struct follower *f) {
	memset(f->walk.taken, 0, f->plan->count);
	walk_to(&f->walk, 0);
	f->round = 0;
	f->located = f->fresh = 1;
}

void follower_mark(struct follower *f) {
	if (!f->plan)
		return;
	if (!f->located || f->round + 1 == f->rounds) {
		restart(f);
		return;
	}
	f->round++;
	walk_to(&f->walk, f->plan->count / f->rounds * f->round);
}

// locate finds where a stream is in a plan: behind the sizes of its last KNOWN allocations,
// if they stand once in an iteration.
static void locate(struct follower *f, const struct history *h) {
	uint32_t n = f->plan->count, known = n < KNOWN ? n : KNOWN, at = NEVER;
	if (h->count < known)
		return;
	for (uint32_t p = 0; p < n; p++) {
		uint32_t k = 0;
		while (k < known && h->sizes[(h->count - 1 - k) % KNOWN] == f->plan->blocks[(p + 2 * n - 1 - k) % n].size)
			k++;
		if (k < known)
			continue;
		if (at == NEVER)
			at = p;
		else if ((p - at) % (n / f->rounds))
			return; // it may be at either
	}
	if (at == NEVER)
		return;
	restart(f);
	memset(f->walk.taken, 1, at);
	walk_to(&f->walk, at);
	f->fresh = at == 0;
}

// may_begin reports whether a stream that is near the end of a plan, with an allocation
// that is not there, has begun it again.
static int may_begin(const struct follower *f, uint64_t size) {
	const struct plan *p = f->plan;
	if (f->walk.last + NEARBY <= p->count)
		return 0;
	uint32_t i = 0;
	while (i < NEARBY && i < p->count && p->blocks[i].size != size)
		i++;
	return i < NEARBY && i < p->count;
}

uint32_t follower_next(struct follower *f, const struct history *h, uint64_t size, int *begins) {
	*begins = 0;
	if (!f->located && h)
		locate(f, h);
	if (!f->located)
		return NEVER;
	if (h && f->walk.last == f->plan->count)
		restart(f);
	uint32_t i = walk_next(&f->walk, f->plan, size);
	if (i == NEVER && h && may_begin(f, size)) {
		restart(f);
		i = walk_next(&f->walk, f->plan, size);
	}
	*begins = i != NEVER && f->fresh;
	f->fresh &= i == NEVER;
	return i;
}
