#include "host.h"

#include "os.h"
#include "trace.h"

// ROOM is what an arena reserves: addresses, no memory. Sizes of blocks that no plan knows
// are not known before, either.
#define ROOM ((uint64_t)1 << (sizeof(void *) > 4 ? 34 : 28))

// STEP is by how much an arena becomes usable at one time.
#define STEP ((uint64_t)1 << 20)

// GAPS is how many gaps host_find looks at.
#define GAPS 512

_Static_assert(STEP % GRANULE == 0, "arenas become usable by whole pages");

static uint64_t up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

struct arena *host_new(struct arena **list, uint64_t size) {
	uint64_t least = up(size ? size : 1, STEP), room = os_reservable(ROOM) / STEP * STEP;
	void *base = NULL;
	if (room < least)
		room = least;
	while (!(base = os_reserve(room))) {
		if (room == least)
			return NULL;
		room = room / 2 / STEP * STEP;
		if (room < least)
			room = least;
	}
	struct arena *a = arena_add(list, base, room);
	if (!a)
		os_unreserve(base, room);
	return a;
}

void host_free(struct arena **list, struct arena *a) {
	os_unreserve(a->base, a->size);
	arena_remove(list, a);
}

// reach makes an arena usable up to an offset; 0 if the system refuses.
static int reach(struct arena *a, uint64_t end) {
	if (end > a->usable) {
		uint64_t usable = up(end, STEP);
		if (usable > a->size || !os_commit(a->base + a->usable, usable - a->usable))
			return 0;
		a->usable = usable;
	}
	if (end > a->touched)
		a->touched = end;
	return 1;
}

struct range *host_take(struct arena *a, uint64_t offset, uint64_t size) {
	uint64_t whole = aligned(size);
	if (whole > a->size || offset > a->size - whole)
		return NULL;
	struct range *r = arena_take(a, offset, whole);
	if (r && !reach(a, offset + whole)) {
		ranges_remove(&a->live, r);
		return NULL;
	}
	return r;
}

struct range *host_find(struct arena *a, uint64_t size) {
	uint64_t offset = ranges_gap(&a->live, aligned(size), a->touched, GAPS);
	if (offset == UINT64_MAX)
		offset = ranges_top(&a->live);
	return host_take(a, offset, size);
}

void host_discard(struct arena *a, uint64_t from) {
	uint64_t begin = from, top = 0;
	for (const struct range *r = a->live.head.next[0]; begin < a->touched; r = r->next[0]) {
		uint64_t end = r ? r->start / GRANULE * GRANULE : up(a->touched, GRANULE);
		begin = up(begin, GRANULE);
		if (begin < end)
			os_discard(a->base + begin, end - begin);
		if (!r)
			break;
		top = r->end;
		if (top > begin)
			begin = top;
	}
	if (from < a->touched)
		a->touched = top > from ? top : from;
}
