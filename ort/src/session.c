#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "host.h"
#include "os.h"
#include "plan.h"

// LASTING is how many of the last DEVIANTS runs that leave their plans, or have that of
// larger shapes, must do so in the same way for a plan of their own.
#define LASTING 2
#define DEVIANTS 32

// PROMPT is how many plans a session makes at once; from then on, it makes one whenever it
// has had twice as many runs. What has no plan costs little; plans that are made for ever, and
// packed, do not.
#define PROMPT 32

// SMALL blocks of runs without a plan come from malloc: in an arena they would cut up its
// gaps.
#define SMALL 4096

struct run {
	struct run *next;  // in flight
	struct run *outer; // of the same thread: a run may run another session
	onnxmem_session *session;
	uint64_t serial, key;
	uint64_t small_bytes; // of live blocks without a plan, outside of the arena
	int left_alone;       // its plan is small: all blocks come from malloc
	struct arena *arena;  // NULL: another run of the session has it, or none is needed
	struct plan *plan;   // NULL: none is known
	struct walk walk;
	struct trace trace;
	int deviated;    // a block was not where the plan has it
	int alone;       // no plan begins with the sizes of its blocks
	int covered;     // the plan is one for larger shapes: blocks are in its order, and not larger
	int outgrown;    // no plan is large enough: this one only tells which blocks are results
	uint32_t larges; // events so far of blocks that are not TINY
	int exact;       // these are those of the run from which the plan was made
	int strict;      // so are all events
	int merges;      // the plan that it makes takes the place of those for smaller shapes
};

struct session {
	struct plan *plans; // the one used last is the first
	uint32_t plan_limit;
	int outputs;         // blocks that outlive a run are in the arena, too
	uint64_t small;      // runs that need less have no arena
	struct arena *arena; // NULL: none yet
	struct run *owner;   // the run that uses the arena
	uint64_t made;       // plans, but for those that were loaded
	uint64_t due;        // runs that there must have been for one more
	uint64_t users;      // the handle, blocks outside of arenas, runs in flight
	uint64_t fallback_bytes;
	uint64_t deviants[DEVIANTS]; // hashes of the runs that left their plans, from all keys
	uint32_t deviants_count;
	struct onnxmem_memory memory;
};

// The lock guards all that follows, and all sessions, runs and arenas.
static os_lock lock = OS_LOCK_INIT;
static struct arena *arenas;
static struct run *in_flight;
static uint64_t serials;

static _Thread_local struct run *current;
static _Thread_local onnxmem_session *making;
static _Thread_local unsigned lost; // runs of this thread for which memory was lacking

// --- arenas

// arena_retire ends an arena, once nothing lives in it.
static void arena_retire(struct arena *a) {
	if (!a)
		return;
	a->retired = 1;
	if (a->live.count)
		host_discard(a, 0);
	else
		host_free(&arenas, a);
}

// --- plans

static void plan_drop(struct plan *p) {
	p->dropped = 1;
	if (!p->users)
		plan_free(p);
}

static void plan_leave(struct plan *p) {
	if (!p || --p->users)
		return;
	if (p->dropped)
		plan_free(p);
	else
		plan_moved(p);
}

static struct plan *plan_of(onnxmem_session *s, uint64_t key, uint64_t serial) {
	struct plan *p = s->plans;
	while (p && (key ? p->key != key : p->serial != serial))
		p = p->next;
	return p;
}

// plan_of_stream returns the plan of a key that was made from a run with these sizes.
static struct plan *plan_of_stream(onnxmem_session *s, uint64_t key, uint64_t hash) {
	struct plan *p = s->plans;
	while (p && (p->key != key || p->hash != hash))
		p = p->next;
	return p;
}

static void plan_unlink(onnxmem_session *s, struct plan *p) {
	struct plan **at = &s->plans;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
}

// plan_first makes a plan the one used last.
static void plan_first(onnxmem_session *s, struct plan *p) {
	p->next = s->plans;
	s->plans = p;
}

// plan_add adds a plan in the place of the one that another run made of the same stream;
// the plan that was not used for longest goes if there are too many.
static void plan_add(onnxmem_session *s, struct plan *p) {
	struct plan *old = plan_of_stream(s, p->key, p->hash);
	if (old) {
		plan_unlink(s, old);
		plan_drop(old);
	}
	p->serial = ++serials;
	plan_first(s, p);
	uint32_t count = 1;
	for (struct plan *q = p; q->next; count++) {
		if (count < s->plan_limit) {
			q = q->next;
			continue;
		}
		old = q->next;
		q->next = old->next;
		plan_drop(old);
	}
}

// plan_like returns the plan that was used last among those that begin with the sizes of
// the run's blocks so far, and are for its inputs, if these are known.
static struct plan *plan_like(struct run *r) {
	for (struct plan *p = r->session->plans; p && !r->alone; p = p->next) {
		uint32_t i = 0;
		if (r->key && p->key != r->key)
			continue;
		while (i < r->trace.count && i < p->count && r->trace.blocks[i].size == p->blocks[i].size)
			i++;
		if (i == r->trace.count)
			return p;
	}
	r->alone = 1;
	return NULL;
}

// plan_enter lets a run use a plan from its n-th block on. The plan is the one used last.
static void plan_enter(struct run *r, struct plan *p, uint32_t n) {
	walk_free(&r->walk);
	plan_leave(r->plan);
	r->plan = NULL;
	r->exact = r->strict = r->covered = 0;
	if (!p || !walk_init(&r->walk, p))
		return;
	memset(r->walk.taken, 1, n);
	walk_to(&r->walk, n);
	r->exact = r->strict = n == 0 && p->enforced;
	plan_unlink(r->session, p);
	plan_first(r->session, p);
	p->users++;
	r->plan = p;
}

// covers reports whether the first n blocks of a run are none larger than those of a plan.
static int covers(const struct plan *p, const struct trace *t, uint32_t n) {
	if (n > p->count || p->trace.count != p->count || p->enforced)
		return 0;
	uint32_t i = 0;
	while (i < n && (p->blocks[i].offset == OUTSIDE || t->blocks[i].size <= p->blocks[i].size))
		i++;
	return i == n;
}

// plan_covering returns the largest plan that a run whose shapes have none fits into so
// far, or NULL.
static struct plan *plan_covering(struct run *r) {
	struct plan *best = NULL;
	for (struct plan *p = r->session->plans; p; p = p->next)
		if ((!best || p->arena_bytes > best->arena_bytes) && covers(p, &r->trace, r->trace.count))
			best = p;
	return best;
}

// plan_cover lets a run use a plan for larger shapes, if there is one. Whether it fits is
// seen block by block.
static int plan_cover(struct run *r) {
	struct plan *p = r->trace.broken ? NULL : plan_covering(r);
	if (!p || p == r->plan)
		return 0;
	plan_enter(r, p, 0);
	r->covered = r->plan != NULL;
	return r->covered;
}

// plan_outgrown lets a run that fits into no plan know which of its blocks may be results.
static void plan_outgrown(struct run *r) {
	for (struct plan *p = r->session->plans; p; p = p->next) {
		if (p->enforced)
			continue;
		plan_enter(r, p, 0);
		r->outgrown = r->plan != NULL;
		return;
	}
}

// --- sessions

static void session_leave(onnxmem_session *s) {
	if (--s->users)
		return;
	for (struct plan *p = s->plans, *next; p; p = next) {
		next = p->next;
		plan_drop(p);
	}
	arena_retire(s->arena);
	free(s);
}

onnxmem_session *onnxmem_session_new(uint32_t plans, int outputs) {
	onnxmem_session *s = calloc(1, sizeof *s);
	if (s) {
		s->plan_limit = plans ? plans : 1;
		s->outputs = outputs;
		s->users = 1;
	}
	return s;
}

void onnxmem_session_small(onnxmem_session *s, uint64_t bytes) {
	os_acquire(&lock);
	s->small = bytes;
	os_release(&lock);
}

void onnxmem_session_close(onnxmem_session *s) {
	os_acquire(&lock);
	session_leave(s);
	os_release(&lock);
}

// ONNX Runtime reads, fuses and packs a model in memory of malloc, which keeps what is freed:
// 59 MiB for ResNet-50. The plain session's runs take it again; these have an arena.
void onnxmem_making(onnxmem_session *s) {
	if (making && !s)
		os_trim();
	making = s;
}

// needed returns the size of the arena that the plans of a session need.
static uint64_t needed(const onnxmem_session *s) {
	uint64_t size = 0;
	for (const struct plan *p = s->plans; p; p = p->next)
		if (p->arena_bytes > size)
			size = p->arena_bytes;
	return size;
}

// take_arena gives the session's arena to a run. There is a new one if a block of an
// earlier run still lives in it: a result of a run without a plan.
static void take_arena(onnxmem_session *s, struct run *r) {
	uint64_t size = needed(s);
	struct arena *a = s->arena;
	if (a && (a->size < size || (a->live.count && !s->outputs))) {
		arena_retire(a);
		a = NULL;
	}
	if (!a)
		a = host_new(&arenas, size);
	s->arena = r->arena = a;
	s->owner = r;
}

// trim gives back what runs without a plan have taken of the arena, and plans do not need.
static void trim(struct run *r) {
	struct arena *a = r->arena;
	uint64_t size = a && r->plan && !r->outgrown && !a->live.count ? needed(r->session) : UINT64_MAX;
	if (a && a->touched > size)
		host_discard(a, size);
}

void onnxmem_run_begin(onnxmem_session *s, uint64_t key) {
	struct run *r = calloc(1, sizeof *r);
	if (!r) {
		lost++;
		return;
	}
	r->session = s;
	r->key = key;
	os_acquire(&lock);
	r->serial = ++serials;
	s->users++;
	s->memory.runs++;
	if (key)
		plan_enter(r, plan_of(s, key, 0), 0);
	r->left_alone = r->plan && !r->plan->loaded && needed(s) < s->small;
	s->memory.left_alone += (uint64_t)r->left_alone;
	if (!s->owner && !r->left_alone)
		take_arena(s, r);
	trim(r);
	r->next = in_flight;
	in_flight = r;
	r->outer = current;
	current = r;
	os_release(&lock);
}

static void run_unlink(struct run *r) {
	struct run **at = &in_flight;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (r->session->owner == r)
		r->session->owner = NULL;
}

// lasts notes how a run left its plan, and reports whether enough have done so in this way.
static int lasts(onnxmem_session *s, uint64_t key, uint64_t hash) {
	uint64_t way = hash ^ key * 0x9e3779b97f4a7c15u;
	s->deviants[s->deviants_count++ % DEVIANTS] = way;
	int seen = 0;
	for (uint32_t i = 0; i < DEVIANTS && i < s->deviants_count; i++)
		seen += s->deviants[i] == way;
	for (uint32_t i = 0; i < DEVIANTS && seen == LASTING; i++)
		if (s->deviants[i] == way)
			s->deviants[i] = 0; // if its plan goes, it begins anew
	return seen == LASTING;
}

// may_make reports whether a session may make one more plan now.
static int may_make(const onnxmem_session *s) { return s->made < PROMPT || s->memory.runs >= s->due; }

// plan_alike returns the largest plan from a run with the events of a trace, whatever its
// sizes, or NULL.
static struct plan *plan_alike(onnxmem_session *s, const struct trace *t) {
	struct plan *best = NULL;
	for (struct plan *p = s->plans; p; p = p->next)
		if (!p->enforced && (!best || p->arena_bytes > best->arena_bytes) && trace_alike(t, &p->trace))
			best = p;
	return best;
}

// merge gives the blocks of a run the larger of their sizes and those of a plan with the
// same events: a plan for both, and for all that is smaller. Where that would take far
// more than either, or the run is the larger in all, the run stays as it is.
static void merge(struct run *r) {
	struct plan *p = plan_alike(r->session, &r->trace);
	if (!p || covers(p, &r->trace, r->trace.count))
		return;
	struct trace both = {.blocks = malloc((r->trace.count + 1) * sizeof *both.blocks), .count = r->trace.count, .events = r->trace.events};
	if (!both.blocks)
		return;
	int larger = 0;
	for (uint32_t i = 0; i < both.count; i++) {
		both.blocks[i] = r->trace.blocks[i];
		if (p->trace.blocks[i].size > both.blocks[i].size) {
			both.blocks[i].size = p->trace.blocks[i].size;
			larger |= both.blocks[i].end != NEVER;
		}
	}
	uint64_t peak = trace_peak(&r->trace, r->session->outputs);
	if (p->live_peak_bytes > peak)
		peak = p->live_peak_bytes;
	if (!larger || trace_peak(&both, r->session->outputs) > peak + peak / 2) {
		trace_free(&both);
		return;
	}
	both.room = both.count;
	trace_free(&r->trace);
	r->trace = both;
	r->merges = 1;
	r->key = 0; // no run asks for it
}

// wants_plan reports whether a run that is over shall make a plan, and sets its key.
static int wants_plan(struct run *r) {
	onnxmem_session *s = r->session;
	struct plan *p = r->plan;
	if (r->trace.broken || !r->trace.count)
		return 0;
	if (p && !r->covered && !r->outgrown && !r->deviated)
		return 0;
	s->memory.covered += (uint64_t)r->covered;
	if (r->covered && !may_make(s))
		return 0;
	uint64_t hash = trace_hash(&r->trace);
	if (r->covered) {
		// A plan of its own takes less, and is worth that if such runs come again.
		r->key = r->key ? r->key : hash | 1;
		return !plan_of(s, r->key, 0) && lasts(s, r->key, hash) && trace_peak(&r->trace, s->outputs) <= p->live_peak_bytes / 4 * 3;
	}
	if (!p || r->outgrown) {
		// Another run with this key may have made one meanwhile.
		r->key = r->key ? r->key : hash | 1;
		if (plan_of(s, r->key, 0) || !may_make(s))
			return 0;
		merge(r);
		return 1;
	}
	if (!r->arena)
		return 0; // it had no place for its blocks, whatever they were
	if (hash == p->hash) {
		// A plan of the same stream would be no better: places were taken by
		// results of earlier runs.
		return 0;
	}
	if (!r->key) {
		// Without a key, another stream is another shape.
		r->key = hash | 1;
		return !plan_of(s, r->key, 0) && may_make(s);
	}
	// Streams of one key differ by the data: the next run may be of any of them.
	struct plan *own = plan_of_stream(s, r->key, hash);
	if (own) {
		plan_unlink(s, own);
		plan_first(s, own);
		return 0;
	}
	return lasts(s, r->key, hash) && may_make(s);
}

// plan_made adds the plan that a run has made, and returns its serial number.
static uint64_t plan_made(struct run *r, struct plan *p) {
	onnxmem_session *s = r->session;
	p->merged = r->merges;
	for (struct plan *old = s->plans, *next; old && p->merged; old = next) {
		next = old->next;
		if (!old->merged || !trace_alike(&old->trace, &p->trace))
			continue;
		plan_unlink(s, old);
		plan_drop(old);
	}
	plan_add(s, p);
	if (++s->made >= PROMPT)
		s->due = 2 * s->memory.runs;
	return p->serial;
}

uint64_t onnxmem_run_end(int completed) {
	if (lost) {
		lost--;
		return 0;
	}
	struct run *r = current;
	if (!r)
		return 0;
	current = r->outer;
	onnxmem_session *s = r->session;
	os_acquire(&lock);
	run_unlink(r);
	int plan = completed && wants_plan(r);
	os_release(&lock);
	struct plan *made = plan ? plan_make(&r->trace, r->key, s->outputs) : NULL;
	uint64_t serial = 0;
	os_acquire(&lock);
	if (made)
		serial = plan_made(r, made);
	walk_free(&r->walk);
	plan_leave(r->plan);
	session_leave(s);
	os_release(&lock);
	trace_free(&r->trace);
	free(r);
	return serial;
}

// --- plans from outside

uint32_t onnxmem_blocks(onnxmem_session *s, uint64_t plan, uint64_t *sizes, uint32_t *begins, uint32_t *ends, uint32_t room) {
	os_acquire(&lock);
	struct plan *p = plan_of(s, 0, plan);
	uint32_t count = p ? p->trace.count : 0;
	for (uint32_t i = 0; i < count && i < room; i++) {
		sizes[i] = p->trace.blocks[i].size;
		begins[i] = p->trace.blocks[i].begin;
		ends[i] = p->trace.blocks[i].end;
	}
	os_release(&lock);
	return count;
}

uint32_t onnxmem_offsets(onnxmem_session *s, uint64_t plan, uint64_t *offsets, uint32_t room) {
	os_acquire(&lock);
	struct plan *p = plan_of(s, 0, plan);
	uint32_t count = p ? p->count : 0;
	for (uint32_t i = 0; i < count && i < room; i++)
		offsets[i] = p->blocks[i].offset;
	os_release(&lock);
	return count;
}

// within reports whether offsets suit the blocks of a plan.
static int within(const struct plan *p, const uint64_t *offsets, uint64_t arena) {
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t size = p->blocks[i].size;
		if (offsets[i] != OUTSIDE && (offsets[i] % ALIGNMENT || size > arena || offsets[i] > arena - size))
			return 0;
	}
	return 1;
}

int onnxmem_place(onnxmem_session *s, uint64_t plan, const uint64_t *offsets, uint32_t count, uint64_t arena_bytes, uint64_t lower_bound_bytes) {
	os_acquire(&lock);
	struct plan *p = plan_of(s, 0, plan);
	int ok = p && p->count == count && within(p, offsets, arena_bytes);
	ok = ok && plan_move(p, offsets, arena_bytes, lower_bound_bytes);
	if (ok && !p->users)
		plan_moved(p);
	os_release(&lock);
	return ok;
}

int onnxmem_load(onnxmem_session *s, uint64_t key, const char *table, char *error, size_t room) {
	struct plan *p = plan_load(table, key ? key : 1, s->outputs, error, room);
	if (!p)
		return 0;
	os_acquire(&lock);
	for (struct plan *old; (old = plan_of(s, p->key, 0));) {
		plan_unlink(s, old);
		plan_drop(old);
	}
	plan_add(s, p);
	os_release(&lock);
	return 1;
}

uint32_t onnxmem_plans(onnxmem_session *s, uint64_t *out, uint32_t room) {
	uint32_t count = 0;
	os_acquire(&lock);
	for (struct plan *p = s->plans; p; p = p->next, count++)
		if (count < room)
			out[count] = p->serial;
	os_release(&lock);
	return count;
}

void onnxmem_memory_of(onnxmem_session *s, struct onnxmem_memory *m) {
	os_acquire(&lock);
	*m = s->memory;
	if (s->arena) {
		m->arena_bytes = needed(s) < s->small ? 0 : needed(s);
		m->held_bytes = s->arena->touched;
		if (m->held_bytes > m->arena_bytes)
			m->arena_bytes = m->held_bytes;
	}
	for (struct plan *p = s->plans; p; p = p->next) {
		m->plans++;
		m->packed_plans += (uint64_t)p->packed;
	}
	if (s->plans) {
		m->plan_bytes = s->plans->arena_bytes;
		m->live_peak_bytes = s->plans->live_peak_bytes;
		m->lower_bound_bytes = s->plans->lower_bound_bytes;
		m->output_bytes = s->plans->output_bytes;
		m->scratch_bytes = s->plans->scratch_bytes;
		m->enforced = (uint64_t)s->plans->enforced;
		m->merged = (uint64_t)s->plans->merged;
	}
	os_release(&lock);
}

void onnxmem_give_back(onnxmem_session *s) {
	os_acquire(&lock);
	if (s->arena && !s->owner && s->arena->touched) {
		host_discard(s->arena, 0);
		s->memory.given_back++;
	}
	os_release(&lock);
}

// --- the allocator

// running returns the run that this thread allocates for. Threads of a pool do not know
// theirs: if there is one run alone, it is that one.
static struct run *running(void) {
	if (current || making)
		return current;
	return in_flight && !in_flight->next ? in_flight : NULL;
}

// follows notes whether a run still has the events of its plan, with the allocation of a
// block that is number i of the plan.
static void follows(struct run *r, uint32_t i, uint32_t number, uint64_t size) {
	r->trace.blocks[number].planned = i;
	r->strict = r->strict && i == number && r->trace.blocks[number].begin == r->plan->trace.blocks[i].begin;
	if (size > TINY)
		r->exact = r->exact && i != NEVER && r->larges == r->plan->blocks[i].begin;
}

// lie_over lets a block have the place of another, which its node reads for the last
// time: only a run that has followed its plan so far is known to be at that node. NULL if
// that one does not live there alone.
static struct range *lie_over(struct run *r, uint32_t under, uint64_t start, uint64_t size) {
	struct range *lives = ranges_at(&r->arena->live, start);
	if (!lives || lives->end != start + aligned(size) || lives->run != r->serial || lives->planned != under || lives->under != NEVER)
		return NULL;
	lives->under = lives->block;
	return lives;
}

// find_any returns a place that no plan has; NULL if the block shall be outside.
static struct range *find_any(struct run *r, uint64_t size, enum kind *kind) {
	*kind = RECORDED;
	r->session->memory.recorded++;
	if (!r->arena || size < SMALL)
		return NULL;
	if (r->small_bytes + size > r->session->small)
		return host_find(r->arena, size);
	r->small_bytes += size;
	return NULL;
}

// is_result reports whether a block is a result in the plan of other shapes, and lies outside.
static int is_result(const struct run *r, uint32_t number) {
	return number < r->plan->count && r->plan->blocks[number].offset == OUTSIDE;
}

// find_covered returns a place for a block of a run that has the plan of larger shapes, or
// had it.
static struct range *find_covered(struct run *r, uint64_t size, uint32_t number, enum kind *kind) {
	if (!r->outgrown && !is_result(r, number) && (number >= r->plan->count || size > r->plan->blocks[number].size) && !plan_cover(r)) {
		r->covered = 0;
		r->outgrown = r->plan != NULL;
		if (!r->plan) // no memory for the change
			return find_any(r, size, kind);
	}
	if (is_result(r, number)) {
		*kind = OUTPUT;
		return NULL;
	}
	struct range *lives = r->outgrown || !r->arena ? NULL : host_take(r->arena, r->plan->blocks[number].offset, size);
	r->session->memory.hits += lives != NULL;
	return lives ? lives : find_any(r, size, kind);
}

// number_in_plan returns the block of its plan that a run's next block is, or NEVER. Where
// the run leaves the plan, it changes to another that begins as it did. It may then have
// none, or one of larger shapes.
static uint32_t number_in_plan(struct run *r, uint64_t size, uint32_t number) {
	uint32_t i = walk_next(&r->walk, r->plan, size);
	if (i != NEVER || number == NEVER || (r->plan->enforced && size <= TINY))
		return i;
	struct plan *other = plan_like(r);
	if (other) {
		plan_enter(r, other, number);
		return r->plan ? walk_next(&r->walk, r->plan, size) : NEVER;
	}
	if (!r->key && !r->plan->enforced)
		plan_cover(r);
	return NEVER;
}

// find_followed returns the place that the plan of a run has for a block.
static struct range *find_followed(struct run *r, uint64_t size, uint32_t number, enum kind *kind) {
	uint32_t i = number_in_plan(r, size, number);
	if (!r->plan)
		return find_any(r, size, kind);
	if (r->covered)
		return find_covered(r, size, number, kind);
	if (number != NEVER)
		follows(r, i, number, size);
	else
		r->exact = r->strict = 0;
	uint64_t offset = i == NEVER ? OUTSIDE : r->plan->blocks[i].offset;
	if (i != NEVER && offset == OUTSIDE) {
		*kind = OUTPUT;
		return NULL;
	}
	struct range *lives = NULL; // NULL: a miss
	if (i != NEVER && r->arena) {
		if ((size > TINY ? r->exact : r->strict) && r->plan->blocks[i].over != NEVER)
			lives = lie_over(r, r->plan->blocks[i].over, offset, size);
		if (!lives)
			lives = host_take(r->arena, offset, size);
	}
	if (lives) {
		lives->planned = i;
		r->session->memory.hits++;
		return lives;
	}
	if (r->plan->enforced && r->exact && size <= TINY && r->arena) {
		*kind = TINY_BLOCK;
		r->session->memory.unplanned++;
		return NULL;
	}
	r->deviated = 1;
	r->session->memory.misses++;
	*kind = FALLBACK;
	return NULL;
}

// find_place returns the address in the arena of a run's next block, or NULL and what kind
// of block shall be outside.
static void *find_place(struct run *r, uint64_t size, uint32_t number, enum kind *kind) {
	if (!r->plan && number == 0 && needed(r->session) >= r->session->small) {
		if (!r->key)
			plan_enter(r, plan_like(r), 0);
		if (!r->plan && !plan_cover(r))
			plan_outgrown(r);
		trim(r);
	}
	struct range *lives = NULL;
	if (!r->plan)
		lives = find_any(r, size, kind);
	else if (r->covered || r->outgrown)
		lives = find_covered(r, size, number, kind);
	else
		lives = find_followed(r, size, number, kind);
	r->larges += size > TINY;
	if (!lives)
		return NULL;
	lives->run = r->serial;
	lives->block = number;
	return r->arena->base + lives->start;
}

// outside returns a block of a kind that lies in no arena. The session has been told.
static void *outside(onnxmem_session *s, uint64_t size, enum kind kind, uint64_t run, uint32_t number) {
	struct block *b = block_new(size);
	if (b) {
		b->session = s;
		b->kind = kind;
		b->run = run;
		b->number = number;
		return block_bytes(b);
	}
	if (s) {
		os_acquire(&lock);
		session_leave(s);
		os_release(&lock);
	}
	return NULL;
}

void *memory_alloc(size_t size) {
	if (!size || size > LARGEST)
		return NULL;
	enum kind kind = UNKNOWN;
	uint64_t serial = 0;
	uint32_t number = NEVER;
	void *bytes = NULL;
	os_acquire(&lock);
	struct run *r = running();
	onnxmem_session *s = r ? r->session : making;
	if (r) {
		serial = r->serial;
		if (!r->left_alone) {
			number = trace_alloc(&r->trace, size);
			bytes = find_place(r, size, number, &kind);
		}
	} else if (s) {
		kind = WEIGHT;
	}
	if (!bytes && s) {
		s->users++;
		s->memory.weights_bytes += kind == WEIGHT ? size : 0;
		s->fallback_bytes += kind == FALLBACK ? size : 0;
		if (s->fallback_bytes > s->memory.fallback_bytes)
			s->memory.fallback_bytes = s->fallback_bytes;
	}
	os_release(&lock);
	return bytes ? bytes : outside(s, size, kind, serial, number);
}

void *memory_reserve(size_t size) {
	if (!size || size > LARGEST)
		return NULL;
	onnxmem_session *s = making;
	if (s) {
		os_acquire(&lock);
		s->users++;
		s->memory.weights_bytes += size;
		os_release(&lock);
	}
	return outside(s, size, s ? WEIGHT : UNKNOWN, 0, NEVER);
}

// note notes in the trace of a run that a block was freed.
static void note(struct run *r, uint32_t number) {
	trace_end(&r->trace, number);
	if (number == NEVER || number >= r->trace.count)
		return;
	const struct traced *b = &r->trace.blocks[number];
	if (r->strict)
		r->strict = b->end == r->plan->trace.blocks[number].end;
	if (b->size <= TINY)
		return;
	if (r->exact)
		r->exact = b->planned != NEVER && r->larges == r->plan->blocks[b->planned].end;
	r->larges++;
}

// note_end does so if the run is in flight, and returns it.
static struct run *note_end(uint64_t run, uint32_t number) {
	struct run *r = in_flight;
	while (r && r->serial != run)
		r = r->next;
	if (r)
		note(r, number);
	return r;
}

void memory_free(void *bytes) {
	if (!bytes)
		return;
	os_acquire(&lock);
	struct arena *a = arena_with(arenas, bytes);
	if (a) {
		struct range *lives = arena_at(a, bytes);
		if (lives && lives->under != NEVER) {
			note_end(lives->run, lives->under);
			lives->under = NEVER; // the one over it lives on
		} else if (lives) {
			note_end(lives->run, lives->block);
			ranges_remove(&a->live, lives);
		}
		if (a->retired && !a->live.count)
			host_free(&arenas, a);
		os_release(&lock);
		return;
	}
	struct block *b = block_of(bytes);
	struct run *r = note_end(b->run, b->number);
	if (r && b->kind == RECORDED && b->size >= SMALL && r->small_bytes >= b->size)
		r->small_bytes -= b->size;
	if (b->session) {
		b->session->memory.weights_bytes -= b->kind == WEIGHT ? b->size : 0;
		b->session->fallback_bytes -= b->kind == FALLBACK ? b->size : 0;
		session_leave(b->session);
	}
	os_release(&lock);
	block_free(b);
}

// --- fork

static void before_fork(void) { os_acquire(&lock); }

static void after_fork(void) { os_release(&lock); }

// after_fork_in_child ends the runs of threads that the child does not have. Their
// arenas are left as they are: blocks in them are never freed.
static void after_fork_in_child(void) {
	for (struct run *r = in_flight, *next; r; r = next) {
		next = r->next;
		struct run *own = current;
		while (own && own != r)
			own = own->outer;
		if (own)
			continue;
		if (r->arena && r->session->arena == r->arena) {
			r->session->arena = NULL;
			arena_retire(r->arena);
		}
		run_unlink(r);
		plan_leave(r->plan);
	}
	os_release(&lock);
	planner_after_fork_in_child();
}

void memory_init(void) {
	static int done;
	os_acquire(&lock);
	int first = !done;
	done = 1;
	os_release(&lock);
	if (first)
		os_at_fork(before_fork, after_fork, after_fork_in_child);
}
