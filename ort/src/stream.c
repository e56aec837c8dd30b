#ifdef __linux__
#include "stream.h"

#include <stdlib.h>

#include "driver.h"

// ROUNDED is what sizes are rounded up to in plans, as in PyTorch's own allocator.
#define ROUNDED 512

// LASTING is how many iterations in a row must leave a plan for a new recording; twice as
// many the next time, at most PATIENT.
#define LASTING 3
#define PATIENT 96

// LOST is after how many misses in a row a stream without marks may be anywhere in its plan.
#define LOST 32

// KINDS is how many kinds of iterations a stream keeps; the one not used for longest goes.
#define KINDS 16

static uint64_t recordings;        // that were begun
static uint64_t taken, taken_peak; // from the driver

static uint64_t rounded(uint64_t size) { return (size + ROUNDED - 1) / ROUNDED * ROUNDED; }

// record begins to record a kind of iterations.
static void record(struct stream *s, struct kind *k) {
	recording_begin(&k->recording, ++recordings, s->marks > 0, k->patience / LASTING);
	k->woken = 0;
}

// --- what is taken from the driver

void stream_take(struct stream *s, uint64_t size) {
	s->memory.driver_bytes += size;
	if (s->memory.driver_bytes > s->memory.driver_peak_bytes)
		s->memory.driver_peak_bytes = s->memory.driver_bytes;
	if ((taken += size) > taken_peak)
		taken_peak = taken;
}

void stream_give(struct stream *s, uint64_t size) {
	s->memory.driver_bytes -= size;
	taken -= size;
}

static void arena_give(struct stream *s, struct arena *a) {
	driver_free(s->device, a->base);
	stream_give(s, a->size);
	if (s->arena == a)
		s->arena = NULL;
	arena_remove(&s->arenas, a);
}

uint64_t stream_peak(void) { return taken_peak; }

void stream_trim(struct stream *s) {
	if (s->arena && !s->arena->live.count)
		arena_give(s, s->arena);
}

// arena_for gives a stream an arena for a plan and those of its other kinds. One in which
// something lives is kept until that is freed. It returns 0 if the device has no memory
// left.
static int arena_for(struct stream *s, const struct plan *p) {
	uint64_t size = p->arena_bytes;
	for (struct kind *k = s->kinds->next; k; k = k->next)
		if (k->now.plan && k->now.plan->arena_bytes > size)
			size = k->now.plan->arena_bytes;
	struct arena *a = s->arena;
	if (a && (a->size == size || (a->size > size && a->live.count)))
		return 1;
	if (a && !a->live.count) {
		arena_give(s, a);
		a = NULL;
	}
	void *base = driver_alloc(s->device, size);
	struct arena *made = base ? arena_add(&s->arenas, base, size) : NULL;
	if (!made) {
		if (base)
			driver_free(s->device, base);
		return 0;
	}
	if (a)
		a->retired = 1;
	s->arena = made;
	s->live_bytes = 0;
	stream_take(s, size);
	return 1;
}

// --- kinds of iterations

struct kind *stream_kind(struct stream *s, uint64_t key) {
	struct kind *k = s->kinds;
	while (k && k->key != key)
		k = k->next;
	return k;
}

static void kind_free(struct kind *k) {
	recording_end(&k->recording);
	follower_free(&k->now);
	follower_free(&k->coming);
	free(k);
}

// kind_new adds a kind of iterations, which is recorded. NULL without memory.
static struct kind *kind_new(struct stream *s, uint64_t key) {
	struct kind *k = calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->key = key;
	k->patience = LASTING;
	k->next = s->kinds;
	s->kinds = k;
	record(s, k);
	uint32_t count = 1;
	while (k->next && count++ < KINDS)
		k = k->next;
	for (struct kind *old = k->next, *next; old; old = next) {
		next = old->next;
		kind_free(old);
	}
	k->next = NULL;
	return s->kinds;
}

// kind_use makes a kind that of this iteration, and returns it. Without memory for a new
// one, the kind stays.
static struct kind *kind_use(struct stream *s, uint64_t key) {
	struct kind *k = stream_kind(s, key);
	if (!k && !(k = kind_new(s, key)))
		return s->kinds;
	struct kind **at = &s->kinds;
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	k->next = s->kinds;
	return s->kinds = k;
}

// adopt lets a stream follow the plan that was coming, which begins now.
static void adopt(struct stream *s, struct kind *k) {
	follower_free(&k->now);
	k->now = k->coming;
	k->coming = (struct follower){0};
	s->missed = k->in_round = k->deviations = 0;
	s->memory.plans++;
	s->memory.live_peak_bytes = s->live_bytes;
}

// round_over counts iterations that leave the plan. After some in a row, they are recorded
// again.
static void round_over(struct stream *s, struct kind *k) {
	s->memory.iterations += k->now.plan != NULL;
	k->deviations = k->deviated ? k->deviations + 1 : 0;
	k->in_round = 0;
	k->deviated = 0;
	if (k->deviations < k->patience || k->recording.number)
		return;
	k->deviations = 0;
	k->patience = k->patience < PATIENT / 2 ? 2 * k->patience : PATIENT;
	follower_free(&k->coming);
	record(s, k);
}

void stream_mark(struct stream *s, uint64_t mark, uint64_t kind) {
	int first = !s->marks;
	s->marks = mark;
	if (first) {
		// A period that was found may begin elsewhere.
		follower_free(&s->kinds->now);
		follower_free(&s->kinds->coming);
		s->kinds->key = kind;
		s->kinds->in_round = 0;
		record(s, s->kinds);
	}
	struct kind *k = kind_use(s, kind);
	if (k->in_round)
		round_over(s, k);
	k->in_round = 0;
	follower_mark(&k->now);
	follower_mark(&k->coming);
	recording_mark(&k->recording);
}

// number_in_plan returns the block of the plan that an allocation is, or NEVER. Where a new
// plan begins, it takes the place of the other.
static uint32_t number_in_plan(struct stream *s, struct kind *k, uint64_t size) {
	int begins;
	if (k->coming.plan) {
		uint32_t i = follower_next(&k->coming, s->marks ? NULL : &s->history, size, &begins);
		if (begins && arena_for(s, k->coming.plan)) {
			adopt(s, k);
			return i;
		}
		if (begins)
			follower_free(&k->coming); // no memory for it: recorded again in a while
	}
	if (!k->now.plan)
		return NEVER;
	uint32_t i = follower_next(&k->now, s->marks ? NULL : &s->history, size, &begins);
	if (begins && !s->arena)
		arena_for(s, k->now.plan); // it was trimmed
	return i;
}

void *stream_place(struct stream *s, uint64_t size, uint32_t number, uint32_t *what) {
	struct kind *k = s->kinds;
	if (!s->marks && k->round_allocations && k->in_round >= k->round_allocations)
		round_over(s, k);
	k->in_round++;
	uint32_t i = number_in_plan(s, k, size);
	history_add(&s->history, size);
	struct range *r = NULL;
	if (i != NEVER && s->arena)
		r = arena_take(s->arena, k->now.plan->blocks[i].offset, size);
	if (r) {
		r->run = k->recording.number;
		r->block = number;
		s->missed = 0;
		s->memory.hits++;
		s->live_bytes += rounded(size);
		if (s->live_bytes > s->memory.live_peak_bytes)
			s->memory.live_peak_bytes = s->live_bytes;
		return s->arena->base + k->now.plan->blocks[i].offset;
	}
	k->deviated = 1;
	if (++s->missed == LOST && !s->marks)
		k->now.located = k->coming.located = 0;
	*what = k->now.plan ? MISS : RECORDED;
	s->memory.misses += k->now.plan != NULL;
	s->memory.recorded += k->now.plan == NULL;
	// An iteration without a plan does not use the arena: it would be taken besides.
	if (!k->now.plan && s->arena && !s->arena->live.count)
		arena_give(s, s->arena);
	return NULL;
}

void stream_leave(struct stream *s, struct arena *a, struct range *r) {
	if (!a->retired)
		s->live_bytes -= rounded(r->end - r->start);
	ranges_remove(&a->live, r);
	if (a->retired && !a->live.count)
		arena_give(s, a);
}

struct stream *stream_new(int device, void *handle, uint64_t kind) {
	struct stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->device = device;
	s->handle = handle;
	ranges_init(&s->outside);
	if (!kind_new(s, kind)) {
		free(s);
		return NULL;
	}
	return s;
}

#endif
