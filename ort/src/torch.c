#ifdef __linux__
#include "onnxmem_torch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "os.h"
#include "stream.h"

// The lock guards all that follows. It is held while the driver makes an arena, and not
// while it makes a block.
static os_lock lock = OS_LOCK_INIT;
static struct stream *streams;
static uint64_t marks, kind_now; // how many there were, and the kind of the last
static int notify = -1;

static atomic_flag said = ATOMIC_FLAG_INIT; // that there was no memory

// wake says that a stream is due.
static void wake(void) {
	char byte = 0;
	// A full pipe has woken its reader already.
	if (notify >= 0 && write(notify, &byte, 1) < 0)
		return;
}

// --- what PyTorch calls

// trim gives the arenas of a device in which nothing lives back; -1: of all devices.
static void trim(int device) {
	for (struct stream *s = streams; s; s = s->next)
		if (device < 0 || s->device == device)
			stream_trim(s);
}

static struct stream *stream_of(int device, const void *handle) {
	struct stream *s = streams;
	while (s && (s->device != device || s->handle != handle))
		s = s->next;
	return s;
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
		stream_take(s, size);
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
	if (!s && (s = stream_new(device, handle, kind_now))) {
		struct stream **at = &streams; // behind the others
		while (*at)
			at = &(*at)->next;
		*at = s;
	}
	if (s && size <= LARGEST && !captured) {
		if (s->marks != marks)
			stream_mark(s, marks, kind_now);
		struct recording *r = &s->kinds->recording;
		number = recording_alloc(r, size, s->marks > 0);
		recording = r->number;
		if (r->due != NOT_DUE && !s->kinds->woken) {
			s->kinds->woken = 1;
			wake();
		}
		bytes = stream_place(s, size, number, &what);
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
		stream_leave(s, a, r);
		os_release(&lock);
		return;
	}
	uint32_t what = r->under;
	ranges_remove(&s->outside, r);
	if (what != CAPTURED) {
		stream_give(s, bytes_size);
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
	uint64_t peak = stream_peak();
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
	struct kind *k = s ? stream_kind(s, kind) : NULL;
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
	struct kind *k = s ? stream_kind(s, kind) : NULL;
	if (k && f.plan) {
		follower_free(&k->coming);
		k->coming = f;
		k->round_allocations = f.plan->count / iterations;
		k->deviations = 0;
		f.plan = NULL;
	}
	if (k)
		k->woken = 0;
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
