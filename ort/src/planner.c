// Packing by libonnxmem, the planner as a shared library, where the host has it: without it, the
// host takes what onnxmem_blocks copies to another planner, and onnxmem_place brings it back.
#include "onnxmem_ort.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os.h"
#include "plan.h"
#include "session.h"

#undef ONNXMEM_API // both headers have one
#include "../../lib/onnxmem.h"

static os_lock lock = OS_LOCK_INIT; // guards loaded
static __typeof__(onnxmem_pack) *loaded;
static atomic_int loading; // threads that have, or wait for, the lock
static int abandoned;      // such a thread stayed in the parent of this process

// The lock is not taken for a fork: who has it loads a library that registers a handler of its own,
// and glibc 2.28 to 2.35 keep the list of handlers locked while those of a fork run.
void planner_after_fork_in_child(void) { abandoned |= atomic_load(&loading) > 0; }

// load finds the function of a library that packs, and returns a status. What is loaded stays:
// Go's runtime cannot be unloaded.
static int load(const char *library, __typeof__(onnxmem_pack) **pack, char *error, size_t room) {
	if (abandoned) {
		snprintf(error, room, "the process is a fork of one that was loading libonnxmem: expected exec after fork");
		return ONNXMEM_FORKED;
	}
	atomic_fetch_add(&loading, 1);
	os_acquire(&lock);
	if (!loaded) {
		void *l = os_open(library, error, room);
		__typeof__(onnxmem_version) *version = l ? (__typeof__(version))os_symbol(l, "onnxmem_version") : NULL;
		__typeof__(onnxmem_pack) *found = l ? (__typeof__(found))os_symbol(l, "onnxmem_pack") : NULL;
		if (l && (!version || !found || strncmp(version(), "0.1.", 4)))
			snprintf(error, room, "%s: expected libonnxmem 0.1", library);
		else
			loaded = found;
	}
	*pack = loaded;
	os_release(&lock);
	atomic_fetch_sub(&loading, 1);
	return *pack ? ONNXMEM_OK : ONNXMEM_NOT_LOADED;
}

// recorded is the blocks of a plan, and those in the arena as buffers.
struct recorded {
	uint32_t count, inside;
	uint64_t *sizes, *offsets;
	uint32_t *begins, *ends;
	int64_t *lower, *upper, *size, *placed;
	void *memory;
};

// read_plan fills a record; 0 if the plan is gone, or without memory.
static int read_plan(onnxmem_session *s, uint64_t plan, struct recorded *r) {
	uint32_t n = r->count = onnxmem_blocks(s, plan, NULL, NULL, NULL, 0);
	if (!n || !(r->memory = malloc(n * (6 * sizeof(uint64_t) + 2 * sizeof(uint32_t)))))
		return 0;
	r->sizes = r->memory;
	r->offsets = r->sizes + n;
	r->lower = (int64_t *)(r->offsets + n);
	r->upper = r->lower + n;
	r->size = r->upper + n;
	r->placed = r->size + n;
	r->begins = (uint32_t *)(r->placed + n);
	r->ends = r->begins + n;
	if (onnxmem_blocks(s, plan, r->sizes, r->begins, r->ends, n) != n || onnxmem_offsets(s, plan, r->offsets, n) != n)
		return 0;
	int64_t last = 1;
	for (uint32_t i = 0; i < n; i++) {
		int64_t end = r->ends[i] == NEVER ? r->begins[i] : r->ends[i];
		last = end >= last ? end + 1 : last;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (r->offsets[i] == OUTSIDE)
			continue;
		r->lower[r->inside] = r->begins[i];
		r->upper[r->inside] = r->ends[i] == NEVER ? last : (int64_t)r->ends[i];
		r->size[r->inside++] = (int64_t)r->sizes[i];
	}
	return 1;
}

int onnxmem_pack_plan(onnxmem_session *s, uint64_t plan, const char *library, char *error, size_t room) {
	__typeof__(onnxmem_pack) *pack;
	int status = load(library, &pack, error, room);
	if (status != ONNXMEM_OK)
		return status;
	struct recorded r = {0};
	if (!read_plan(s, plan, &r)) {
		if (r.count && !r.memory) {
			status = ONNXMEM_FAILED;
			snprintf(error, room, "no memory for %" PRIu32 " blocks", r.count);
		}
	} else if (r.inside) {
		onnxmem_buffers b = {.struct_size = sizeof b, .count = r.inside, .lower = r.lower, .upper = r.upper, .size = r.size, .common_alignment = ALIGNMENT};
		onnxmem_packed packed;
		status = pack(&b, NULL, r.placed, &packed, NULL, NULL, error, room);
		for (uint32_t i = 0, k = 0; !status && i < r.count; i++)
			r.offsets[i] = r.offsets[i] == OUTSIDE ? OUTSIDE : (uint64_t)r.placed[k++];
		if (!status)
			onnxmem_place(s, plan, r.offsets, r.count, (uint64_t)packed.arena, (uint64_t)packed.bound);
	}
	free(r.memory);
	return status;
}
