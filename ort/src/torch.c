#ifdef __linux__
#include "onnxmem_torch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena.h"
#include "driver.h"
#include "follow.h"
#include "os.h"
#include "recording.h"

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

// Another stream that uses a block.
struct use {
	struct use *next;
	const void *bytes;
	void *stream;
};

// What a block outside of arenas is, in range.under.
enum { RECORDED, MISS, CAPTURED };

// Iterations of one kind, such as those with inputs of one shape.
struct kind {
	struct kind *next; // less recently used
	uint64_t key;
	struct recording recording;
	int woken;                   // somebody knows that it is due
	struct follower now, coming; // the plan, and the one that takes its place where it begins
	uint32_t in_round;           // allocations since the iteration began
	uint32_t round_allocations;  // in an iteration of the plan that came last
	int deviated;                // this iteration leaves the plan
	uint32_t deviations;         // iterations in a row that do
	uint32_t patience;           // how many there may be
};

struct stream {
	struct stream *next;
	int device;
	void *handle;
	struct ranges outside; // by address
	struct arena *arena;   // that of the plan; NULL: none yet
	struct arena *arenas;  // with retired ones
	struct use *uses;

	uint64_t marks;     // the last mark that it has seen; 0: none
	struct kind *kinds; // that of this iteration is the first
	struct history history;
	uint32_t missed; // misses in a row
	uint64_t live_bytes, fallback_bytes;
	struct onnxmem_torch_memory memory;
};

// The lock guards all that follows. It is held while the driver makes an arena, and not
// while it makes a block.
static os_lock lock = OS_LOCK_INIT;
static struct stream *streams;
static uint64_t recordings;        // that were begun
static uint64_t taken, taken_peak; // from the driver
static uint64_t marks, kind_now;   // how many there were, and the kind of the last
static int notify = -1;

static atomic_flag said = ATOMIC_FLAG_INIT; // that there was no memory

static uint64_t rounded(uint64_t size) { return (size + ROUNDED - 1) / ROUNDED * ROUNDED; }

// record begins to record a kind of iterations.
static void record(struct stream *s, struct kind *k) { recording_begin(&k->recording, ++recordings, s->marks > 0, k->patience / LASTING); }

// wake says that a stream is due.
static void wake(void) {
	char byte = 0;
	// A full pipe has woken its reader already.
	if (notify >= 0 && write(notify, &byte, 1) < 0)
		return;
}

// --- what is taken from the driver

static void take(struct stream *s, uint64_t size) {
	s->memory.driver_bytes += size;
	if (s->memory.driver_bytes > s->memory.driver_peak_bytes)
		s->memory.driver_peak_bytes = s->memory.driver_bytes;
	if ((taken += size) > taken_peak)
		taken_peak = taken;
}

static void give(struct stream *s, uint64_t size) {
	s->memory.driver_bytes -= size;
	taken -= size;
}

static void arena_give(struct stream *s, struct arena *a) {
	driver_free(s->device, a->base);
	give(s, a->size);
	if (s->arena == a)
		s->arena = NULL;
	arena_remove(&s->arenas, a);
}

// trim gives the arenas of a device in which nothing lives back; -1: of all devices.
static void trim(int device) {
	for (struct stream *s = streams; s; s = s->next)
		if (s->arena && !s->arena->live.count && (device < 0 || s->device == device))
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
	take(s, size);
	return 1;
}

// --- kinds of iterations

static struct kind *kind_of(struct stream *s, uint64_t key) {
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
	struct kind *k = kind_of(s, key);
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

// mark begins an iteration of a stream, with its first allocation.
static void mark(struct stream *s) {
	int first = !s->marks;
	s->marks = marks;
	if (first) {
		// A period that was found may begin elsewhere.
		follower_free(&s->kinds->now);
		follower_free(&s->kinds->coming);
		s->kinds->key = kind_now;
		s->kinds->in_round = 0;
		record(s, s->kinds);
	}
	struct kind *k = kind_use(s, kind_now);
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

// place returns the address that the plan has for a stream's next block, or NULL and what
// it shall be outside.
static void *place(struct stream *s, uint64_t size, uint32_t number, uint32_t *what) {
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

// --- what PyTorch calls

static struct stream *stream_of(int device, const void *handle) {
	struct stream *s = streams;
	while (s && (s->device != device || s->handle != handle))
		s = s->next;
	return s;
}

// stream_new adds a stream behind the others, or returns NULL.
static struct stream *stream_new(int device, void *handle) {
	struct stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->device = device;
	s->handle = handle;
	ranges_init(&s->outside);
	if (!kind_new(s, kind_now)) {
		free(s);
		return NULL;
	}
	struct stream **at = &streams;
	while (*at)
		at = &(*at)->next;
	return *at = s;
}

// outside takes a block from the driver, and returns NULL if there is no memory.
static void *outside(struct stream *s, uint64_t size, uint32_t what, uint64_t recording, uint32_t number) {
	void *bytes = driver_alloc(s->device, size);
	os_acquire(&lock);
	if (!bytes) {
		trim(s->device);
		bytes = driver_alloc(s->device, size);
	}
	uint64_t address = (uintptr_t)bytes;
	struct range *r = bytes ? ranges_add(&s->outside, address, address + size) : NULL;
	if (r) {
		r->run = recording;
		r->block = number;
		r->under = what;
		take(s, size);
		if (what == CAPTURED)
			s->memory.captured_bytes += size;
		else
			s->memory.outside_bytes += size;
		s->fallback_bytes += what == MISS ? size : 0;
		if (s->fallback_bytes > s->memory.fallback_bytes)
			s->memory.fallback_bytes = s->fallback_bytes;
	}
	os_release(&lock);
	if (bytes && !r)
		driver_free(s->device, bytes);
	return r ? bytes : NULL;
}

void *onnxmem_torch_malloc(size_t size, int device, void *handle) {
	if (!size)
		return NULL;
	void *bytes = NULL;
	uint32_t what = CAPTURED, number = NEVER;
	uint64_t recording = 0;
	int captured = driver_captures(handle);
	os_acquire(&lock);
	struct stream *s = stream_of(device, handle);
	if (!s)
		s = stream_new(device, handle);
	if (s && size <= LARGEST && !captured) {
		if (s->marks != marks)
			mark(s);
		struct recording *r = &s->kinds->recording;
		number = recording_alloc(r, size, s->marks > 0);
		recording = r->number;
		if (r->due != NOT_DUE && !s->kinds->woken)
			wake();
		s->kinds->woken = r->due != NOT_DUE;
		bytes = place(s, size, number, &what);
	}
	os_release(&lock);
	if (!bytes && s && size <= LARGEST)
		bytes = outside(s, size, what, recording, number);
	if (!bytes && !atomic_flag_test_and_set(&said))
		fprintf(stderr, "onnxmem_torch: cuda:%d: no memory for %zu bytes\n", device, size);
	return bytes;
}

// find returns the range of a block, and the stream and the arena (NULL: outside) in which
// it lives; NULL if it is none of ours.
static struct range *find(const void *bytes, struct stream **owner, struct arena **a) {
	for (struct stream *s = streams; s; s = s->next) {
		*owner = s;
		*a = arena_with(s->arenas, bytes);
		struct range *r = *a ? arena_at(*a, bytes) : ranges_at(&s->outside, (uintptr_t)bytes);
		if (r || *a)
			return r;
	}
	return NULL;
}

// await makes a stream wait for all others that use a block; 0 if it cannot, so that the
// block must not be used again. The lock is held.
static int await(struct stream *s, const void *bytes) {
	int ok = 1;
	for (struct use **at = &s->uses, *u; (u = *at);) {
		if (u->bytes != bytes) {
			at = &u->next;
			continue;
		}
		ok &= !driver_captures(s->handle) && !driver_captures(u->stream) && driver_follow(s->device, s->handle, u->stream);
		*at = u->next;
		free(u);
	}
	return ok;
}

void onnxmem_torch_free(void *bytes, size_t size, int device, void *handle) {
	(void)size;
	(void)device;
	(void)handle; // the block knows its stream
	struct stream *s;
	struct arena *a;
	os_acquire(&lock);
	struct range *r = bytes ? find(bytes, &s, &a) : NULL;
	if (!r || !await(s, bytes)) {
		os_release(&lock);
		return;
	}
	for (struct kind *k = s->kinds; k; k = k->next)
		if (r->run && r->run == k->recording.number)
			trace_end(&k->recording.trace, r->block);
	uint64_t bytes_size = r->end - r->start;
	if (a) {
		s->live_bytes -= a->retired ? 0 : rounded(bytes_size);
		ranges_remove(&a->live, r);
		if (a->retired && !a->live.count)
			arena_give(s, a);
		os_release(&lock);
		return;
	}
	uint32_t what = r->under;
	ranges_remove(&s->outside, r);
	if (what != CAPTURED) {
		give(s, bytes_size);
		s->memory.outside_bytes -= bytes_size;
		s->fallback_bytes -= what == MISS ? bytes_size : 0;
	}
	device = s->device;
	os_release(&lock);
	// A graph uses its blocks whenever it runs, so they are kept.
	if (what != CAPTURED)
		driver_free(device, bytes);
}

void onnxmem_torch_record_stream(void *bytes, void *handle) {
	struct stream *s;
	struct arena *a;
	os_acquire(&lock);
	struct range *r = bytes ? find(bytes, &s, &a) : NULL;
	struct use *u = r && s->handle != handle ? s->uses : NULL;
	while (u && (u->bytes != bytes || u->stream != handle))
		u = u->next;
	if (r && s->handle != handle && !u) {
		if ((u = malloc(sizeof *u))) {
			*u = (struct use){s->uses, bytes, handle};
			s->uses = u;
		} else {
			driver_follow(s->device, s->handle, handle); // for what it was given so far
		}
	}
	os_release(&lock);
}

void *onnxmem_torch_base(void *bytes, size_t *size) {
	struct stream *s;
	struct arena *a;
	os_acquire(&lock);
	struct range *r = find(bytes, &s, &a);
	void *base = r && a ? a->base : bytes;
	if (r && size)
		*size = a ? a->size : r->end - r->start;
	os_release(&lock);
	return base;
}

void onnxmem_torch_trim(void) {
	os_acquire(&lock);
	trim(-1);
	os_release(&lock);
}

// --- what the module calls

static void before_fork(void) { os_acquire(&lock); }

static void after_fork(void) { os_release(&lock); }

int onnxmem_torch_open(const char *library, char *error, size_t room) {
	static int opened;
	if (opened)
		return 1;
	if (!driver_open(library, error, room))
		return 0;
	opened = 1;
	os_stay(); // PyTorch calls it until the process ends
	os_at_fork(before_fork, after_fork, after_fork);
	return 1;
}

void onnxmem_torch_mark(uint64_t kind) {
	os_acquire(&lock);
	marks++;
	kind_now = kind;
	os_release(&lock);
}

static struct stream *nth(uint32_t i) {
	struct stream *s = streams;
	while (s && i--)
		s = s->next;
	return s;
}

uint32_t onnxmem_torch_streams(void) {
	uint32_t count = 0;
	os_acquire(&lock);
	for (struct stream *s = streams; s; s = s->next)
		count++;
	os_release(&lock);
	return count;
}

int onnxmem_torch_stream(uint32_t i, int *device, uint64_t *stream, struct onnxmem_torch_memory *m) {
	os_acquire(&lock);
	struct stream *s = nth(i);
	if (s) {
		*device = s->device;
		*stream = (uintptr_t)s->handle;
		*m = s->memory;
		m->arena_bytes = s->arena ? s->arena->size : 0;
		const struct plan *p = s->kinds->now.plan;
		m->plan_bytes = p ? p->arena_bytes : 0;
		m->lower_bound_bytes = p ? p->lower_bound_bytes : 0;
	}
	os_release(&lock);
	return s != NULL;
}

uint64_t onnxmem_torch_peak(void) {
	os_acquire(&lock);
	uint64_t peak = taken_peak;
	os_release(&lock);
	return peak;
}

void onnxmem_torch_notify(int file) {
	os_acquire(&lock);
	notify = file;
	os_release(&lock);
}

int64_t onnxmem_torch_due(uint64_t *kind, int *last) {
	int64_t found = -1, i = 0;
	os_acquire(&lock);
	for (struct stream *s = streams; s && found < 0; s = s->next, i++) {
		for (struct kind *k = s->kinds; k && found < 0; k = k->next) {
			if (k->recording.due == NOT_DUE)
				continue;
			found = i;
			*kind = k->key;
			*last = k->recording.due == DUE_LAST;
		}
	}
	os_release(&lock);
	return found;
}

void onnxmem_torch_recorded(uint32_t stream, uint64_t kind, uint64_t *sizes, uint32_t *begins, uint32_t *ends, uint32_t *blocks, uint32_t *marks_at, uint32_t *marks) {
	static const struct recording none;
	os_acquire(&lock);
	struct stream *s = nth(stream);
	struct kind *k = s ? kind_of(s, kind) : NULL;
	const struct recording *r = k ? &k->recording : &none;
	for (uint32_t i = 0; i < r->trace.count && i < *blocks; i++) {
		sizes[i] = r->trace.blocks[i].size;
		begins[i] = r->trace.blocks[i].begin;
		ends[i] = r->trace.blocks[i].end;
	}
	for (uint32_t i = 0; i < r->marks_count && i < *marks; i++)
		marks_at[i] = r->marks[i];
	*blocks = r->trace.count;
	*marks = r->marks_count;
	os_release(&lock);
}

int onnxmem_torch_take(uint32_t stream, uint64_t kind, const char *table, uint32_t iterations, char *error, size_t room) {
	struct follower f = {0};
	struct plan *p = table ? plan_load(table, 1, 0, error, room) : NULL;
	const char *wrong = p ? follower_init(&f, p, iterations) : NULL;
	if (wrong)
		snprintf(error, room, "%s", wrong);
	int ok = !table || f.plan;
	os_acquire(&lock);
	struct stream *s = nth(stream);
	struct kind *k = s ? kind_of(s, kind) : NULL;
	if (k && f.plan) {
		follower_free(&k->coming);
		k->coming = f;
		k->round_allocations = f.plan->count / iterations;
		k->deviations = 0;
		f.plan = NULL;
	}
	if (k && (table || k->recording.due == DUE_LAST))
		recording_end(&k->recording);
	else if (k)
		k->recording.due = NOT_DUE;
	os_release(&lock);
	if (f.plan)
		follower_free(&f);
	return ok;
}
#endif
