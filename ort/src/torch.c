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

// Another stream that uses a block.
struct use {
	struct use *next;
	const void *bytes;
	void *stream;
};

// What a block outside of arenas is, in range.under.
enum { RECORDED, MISS, CAPTURED };

struct stream {
	struct stream *next;
	int device;
	void *handle;
	struct ranges outside; // by address
	struct arena *arena;   // that of the plan; NULL: none yet
	struct arena *arenas;  // with retired ones
	struct use *uses;

	struct recording recording;
	struct follower now, coming; // the plan, and the one that takes its place where it begins
	struct history history;
	uint32_t missed;            // misses in a row
	uint32_t in_round;          // allocations since this iteration began
	uint32_t round_allocations; // in an iteration of the plan that came last
	int deviated;               // this iteration leaves the plan
	uint32_t deviations;        // iterations in a row that do
	uint32_t patience;          // how many there may be
	uint64_t live_bytes, fallback_bytes;
	struct onnxmem_torch_memory memory;
};

// The lock guards all that follows. It is held while the driver makes an arena, and not
// while it makes a block.
static os_lock lock = OS_LOCK_INIT;
static struct stream *streams;
static uint64_t recordings; // that were begun
static uint64_t taken, taken_peak; // from the driver
static int marked;                 // iterations have marks
static int notify = -1;

static atomic_flag said = ATOMIC_FLAG_INIT; // that there was no memory

static uint64_t rounded(uint64_t size) { return (size + ROUNDED - 1) / ROUNDED * ROUNDED; }

// record begins to record a stream.
static void record(struct stream *s) { recording_begin(&s->recording, ++recordings, marked, s->patience / LASTING); }

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

// arena_for gives a stream an arena of at least size bytes. One in which something lives
// is kept until that is freed. It returns 0 if the device has no memory left.
static int arena_for(struct stream *s, uint64_t size) {
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

// adopt lets a stream follow the plan that was coming, which begins now.
static void adopt(struct stream *s) {
	follower_free(&s->now);
	s->now = s->coming;
	s->coming = (struct follower){0};
	s->missed = s->in_round = s->deviations = 0;
	s->memory.plans++;
	s->memory.plan_bytes = s->now.plan->arena_bytes;
	s->memory.lower_bound_bytes = s->now.plan->lower_bound_bytes;
	s->memory.live_peak_bytes = s->live_bytes;
}

// round_over counts iterations that leave the plan. After some in a row, the stream is
// recorded again.
static void round_over(struct stream *s) {
	s->memory.iterations += s->now.plan != NULL;
	s->deviations = s->deviated ? s->deviations + 1 : 0;
	s->in_round = 0;
	s->deviated = 0;
	if (s->deviations < s->patience || s->recording.number)
		return;
	s->deviations = 0;
	s->patience = s->patience < PATIENT / 2 ? 2 * s->patience : PATIENT;
	follower_free(&s->coming);
	record(s);
}

// number_in_plan returns the block of the stream's plan that an allocation is, or NEVER.
// Where a new plan begins, the stream takes it.
static uint32_t number_in_plan(struct stream *s, uint64_t size) {
	int begins;
	if (s->coming.plan) {
		uint32_t i = follower_next(&s->coming, marked ? NULL : &s->history, size, &begins);
		if (begins && arena_for(s, s->coming.plan->arena_bytes)) {
			adopt(s);
			return i;
		}
		if (begins)
			follower_free(&s->coming); // no memory for it: recorded again in a while
	}
	if (!s->now.plan)
		return NEVER;
	uint32_t i = follower_next(&s->now, marked ? NULL : &s->history, size, &begins);
	if (begins && !s->arena)
		arena_for(s, s->now.plan->arena_bytes); // it was trimmed
	return i;
}

// place returns the address that the plan of a stream has for its next block, or NULL and
// what kind of block shall be outside.
static void *place(struct stream *s, uint64_t size, uint32_t number, uint32_t *kind) {
	if (!marked && s->round_allocations && s->in_round >= s->round_allocations)
		round_over(s);
	s->in_round++;
	uint32_t i = number_in_plan(s, size);
	history_add(&s->history, size);
	struct range *r = NULL;
	if (i != NEVER && s->arena)
		r = arena_take(s->arena, s->now.plan->blocks[i].offset, size);
	if (r) {
		r->run = s->recording.number;
		r->block = number;
		s->missed = 0;
		s->memory.hits++;
		s->live_bytes += rounded(size);
		if (s->live_bytes > s->memory.live_peak_bytes)
			s->memory.live_peak_bytes = s->live_bytes;
		return s->arena->base + s->now.plan->blocks[i].offset;
	}
	s->deviated = 1;
	if (++s->missed == LOST && !marked)
		s->now.located = s->coming.located = 0;
	*kind = s->now.plan ? MISS : RECORDED;
	s->memory.misses += s->now.plan != NULL;
	s->memory.recorded += s->now.plan == NULL;
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
	s->patience = LASTING;
	ranges_init(&s->outside);
	record(s);
	struct stream **at = &streams;
	while (*at)
		at = &(*at)->next;
	return *at = s;
}

// outside takes a block from the driver, and returns NULL if there is no memory.
static void *outside(struct stream *s, uint64_t size, uint32_t kind, uint64_t recording, uint32_t number) {
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
		r->under = kind;
		take(s, size);
		if (kind == CAPTURED)
			s->memory.captured_bytes += size;
		else
			s->memory.outside_bytes += size;
		s->fallback_bytes += kind == MISS ? size : 0;
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
	uint32_t kind = CAPTURED, number = NEVER;
	uint64_t recording = 0;
	int captured = driver_captures(handle);
	os_acquire(&lock);
	struct stream *s = stream_of(device, handle);
	if (!s)
		s = stream_new(device, handle);
	if (s && size <= LARGEST && !captured) {
		enum due before = s->recording.due;
		number = recording_alloc(&s->recording, size, marked);
		recording = s->recording.number;
		if (s->recording.due != NOT_DUE && before == NOT_DUE)
			wake();
		bytes = place(s, size, number, &kind);
	}
	os_release(&lock);
	if (!bytes && s && size <= LARGEST)
		bytes = outside(s, size, kind, recording, number);
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
	if (r->run && r->run == s->recording.number)
		trace_end(&s->recording.trace, r->block);
	uint64_t bytes_size = r->end - r->start;
	if (a) {
		s->live_bytes -= a->retired ? 0 : rounded(bytes_size);
		ranges_remove(&a->live, r);
		if (a->retired && !a->live.count)
			arena_give(s, a);
		os_release(&lock);
		return;
	}
	uint32_t kind = r->under;
	ranges_remove(&s->outside, r);
	if (kind != CAPTURED) {
		give(s, bytes_size);
		s->memory.outside_bytes -= bytes_size;
		s->fallback_bytes -= kind == MISS ? bytes_size : 0;
	}
	device = s->device;
	os_release(&lock);
	// A graph uses its blocks whenever it runs, so they are kept.
	if (kind != CAPTURED)
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

void onnxmem_torch_mark(void) {
	os_acquire(&lock);
	int first = !marked;
	marked = 1;
	for (struct stream *s = streams; s; s = s->next) {
		if (first) {
			// A period that was found may begin elsewhere.
			follower_free(&s->coming);
			follower_free(&s->now);
			record(s);
		} else if (s->in_round) {
			round_over(s);
			follower_mark(&s->now);
			follower_mark(&s->coming);
		} else if (!s->coming.located) {
			follower_mark(&s->coming); // it came after the last mark
		}
		s->in_round = 0;
		recording_mark(&s->recording);
		if (s->recording.due != NOT_DUE)
			wake();
	}
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

int64_t onnxmem_torch_due(int *last) {
	int64_t found = -1, i = 0;
	os_acquire(&lock);
	for (struct stream *s = streams; s && found < 0; s = s->next, i++) {
		if (s->recording.due) {
			found = i;
			*last = s->recording.due == DUE_LAST;
		}
	}
	os_release(&lock);
	return found;
}

void onnxmem_torch_recorded(uint32_t stream, uint64_t *sizes, uint32_t *begins, uint32_t *ends, uint32_t *blocks, uint32_t *marks_at, uint32_t *marks) {
	os_acquire(&lock);
	struct stream *s = nth(stream);
	uint32_t count = s ? s->recording.trace.count : 0, marks_count = s ? s->recording.marks_count : 0;
	for (uint32_t i = 0; i < count && i < *blocks; i++) {
		sizes[i] = s->recording.trace.blocks[i].size;
		begins[i] = s->recording.trace.blocks[i].begin;
		ends[i] = s->recording.trace.blocks[i].end;
	}
	for (uint32_t i = 0; i < marks_count && i < *marks; i++)
		marks_at[i] = s->recording.marks[i];
	*blocks = count;
	*marks = marks_count;
	os_release(&lock);
}

int onnxmem_torch_take(uint32_t stream, const char *table, uint32_t iterations, char *error, size_t room) {
	struct follower f = {0};
	struct plan *p = table ? plan_load(table, 1, 0, error, room) : NULL;
	const char *wrong = p ? follower_init(&f, p, iterations) : NULL;
	if (wrong)
		snprintf(error, room, "%s", wrong);
	int ok = !table || f.plan;
	os_acquire(&lock);
	struct stream *s = nth(stream);
	if (s && f.plan) {
		follower_free(&s->coming);
		s->coming = f;
		s->round_allocations = f.plan->count / iterations;
		s->deviations = 0;
		f.plan = NULL;
	}
	if (s && (!ok || table || s->recording.due == DUE_LAST))
		recording_end(&s->recording);
	else if (s)
		s->recording.due = NOT_DUE;
	os_release(&lock);
	if (f.plan)
		follower_free(&f);
	return ok;
}
#endif
