#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranges.h"


struct moved {
	uint64_t arena_bytes, lower_bound_bytes;
	uint64_t offsets[];
};

int plan_move(struct plan *p, const uint64_t *offsets, uint64_t arena_bytes, uint64_t lower_bound_bytes) {
	struct moved *m = malloc(sizeof *m + p->count * sizeof *offsets);
	if (!m)
		return 0;
	m->arena_bytes = arena_bytes;
	m->lower_bound_bytes = lower_bound_bytes;
	memcpy(m->offsets, offsets, p->count * sizeof *offsets);
	free(p->move);
	p->move = m;
	return 1;
}

void plan_moved(struct plan *p) {
	if (!p->move)
		return;
	for (uint32_t i = 0; i < p->count; i++) {
		p->blocks[i].offset = p->move->offsets[i];
		p->blocks[i].over = p->blocks[i].by = NEVER;
	}
	p->arena_bytes = p->move->arena_bytes;
	p->lower_bound_bytes = p->move->lower_bound_bytes;
	p->packed = 1;
	free(p->move);
	p->move = NULL;
}

void plan_free(struct plan *p) {
	if (!p)
		return;
	free(p->move);
	free(p->blocks);
	trace_free(&p->trace);
	free(p);
}

// best_fit places the blocks of p's trace in the order of its events; 0 without memory.
static int best_fit(struct plan *p, int with_outputs) {
	struct ranges live;
	int64_t *events = trace_events(&p->trace);
	if (!events)
		return 0;
	ranges_init(&live);
	int ok = 1;
	for (uint32_t e = 0; ok && e < p->trace.events; e++) {
		int64_t block = events[e] < 0 ? ~events[e] : events[e];
		struct placed *b = &p->blocks[block];
		uint64_t size = aligned(b->size);
		if (p->trace.blocks[block].end == NEVER && !with_outputs)
			continue;
		if (events[e] < 0) {
			ranges_remove(&live, ranges_at(&live, b->offset));
			continue;
		}
		b->offset = ranges_gap(&live, size, p->arena_bytes, UINT32_MAX);
		if (b->offset == UINT64_MAX) // above all that lives
			b->offset = ranges_gap(&live, size, UINT64_MAX, UINT32_MAX);
		ok = ranges_add(&live, b->offset, b->offset + size) != NULL;
		if (b->offset + size > p->arena_bytes)
			p->arena_bytes = b->offset + size;
	}
	ranges_free(&live);
	free(events);
	return ok;
}

struct plan *plan_make(struct trace *t, uint64_t key, int with_outputs) {
	struct plan *p = calloc(1, sizeof *p);
	if (!p || !(p->blocks = malloc((t->count + 1) * sizeof *p->blocks))) {
		free(p);
		return NULL;
	}
	p->key = key;
	p->count = t->count;
	p->hash = trace_hash(t);
	p->trace = *t;
	for (uint32_t i = 0; i < t->count; i++) {
		p->blocks[i] = (struct placed){.size = t->blocks[i].size, .offset = OUTSIDE, .over = NEVER, .by = NEVER};
		if (t->blocks[i].end == NEVER)
			p->output_bytes += t->blocks[i].size;
	}
	if (!best_fit(p, with_outputs)) {
		p->trace = (struct trace){0};
		plan_free(p);
		return NULL;
	}
	*t = (struct trace){0};
	p->live_peak_bytes = p->lower_bound_bytes = trace_peak(&p->trace, with_outputs);
	p->packed = p->arena_bytes == p->lower_bound_bytes; // nothing is better
	return p;
}

// number reads a decimal number and moves text behind it; 0 if there is none.
static int number(const char **text, uint64_t *value) {
	while (**text == ' ')
		(*text)++;
	if (**text < '0' || **text > '9')
		return 0;
	for (*value = 0; **text >= '0' && **text <= '9'; (*text)++) {
		if (*value > (UINT64_MAX - 9) / 10)
			return 0;
		*value = *value * 10 + (uint64_t)(**text - '0');
	}
	return 1;
}

// word reports whether text begins with a word, and moves behind it.
static int word(const char **text, const char *w) {
	size_t n = strlen(w);
	if (strncmp(*text, w, n) || ((*text)[n] != ' ' && (*text)[n] != '\n' && (*text)[n]))
		return 0;
	*text += n;
	return 1;
}

// A table that is read.
struct reading {
	struct plan *plan;
	uint32_t room;
	int version;
};

// append adds a block; 0 without memory.
static int append(struct reading *r, struct placed b) {
	struct plan *p = r->plan;
	if (p->count == r->room) {
		uint32_t more = r->room ? 2 * r->room : 256;
		struct placed *blocks = more < NEVER / 4 ? realloc(p->blocks, more * sizeof *blocks) : NULL;
		if (!blocks)
			return 0;
		p->blocks = blocks;
		r->room = more;
	}
	p->blocks[p->count++] = b;
	return r->version == 1 || trace_alloc(&p->trace, b.size) != NEVER;
}

// lies_over reports whether a block of size bytes at an offset may be written over
// another: one that is live, at the same place, and that nothing else was written over.
static int lies_over(const struct plan *p, uint64_t under, uint64_t size, uint64_t offset) {
	if (under >= p->count || p->trace.blocks[under].end != NEVER)
		return 0;
	const struct placed *b = &p->blocks[under];
	return offset != OUTSIDE && b->size == size && b->offset == offset && b->by == NEVER;
}

// alloc_line reads what stands behind the word alloc, and returns what is wrong, or NULL.
static const char *alloc_line(const char **text, struct reading *r) {
	struct plan *p = r->plan;
	uint64_t id, n, offset, stream, over;
	if (!number(text, &id) || !number(text, &n))
		return "expected alloc ID SIZE OFFSET STREAM";
	if (r->version == 2 && word(text, " -"))
		offset = OUTSIDE;
	else if (!number(text, &offset))
		return "expected alloc ID SIZE OFFSET STREAM";
	if (!number(text, &stream))
		return "expected alloc ID SIZE OFFSET STREAM";
	if (r->version == 2 && (!n || n > LARGEST))
		return "expected a size from 1 to 2^47";
	if (offset != OUTSIDE && (n > p->arena_bytes || offset > p->arena_bytes - n))
		return "the block ends above the arena";
	if (offset != OUTSIDE && offset % ALIGNMENT)
		return "the offset is no multiple of 64";
	struct placed b = {.size = n, .offset = offset, .over = NEVER, .by = NEVER, .end = NEVER};
	if (r->version == 2) {
		if (id != p->count)
			return "expected the number of the next block";
		if (number(text, &over)) {
			if (!lies_over(p, over, n, offset))
				return "expected to lie over a live block of the same size and place, and over it alone";
			b.over = (uint32_t)over;
			p->blocks[over].by = p->count;
		}
	}
	return append(r, b) ? NULL : "no memory";
}

// line reads one line of a table, and returns what is wrong with it, or NULL.
static const char *line(const char **text, struct reading *r) {
	struct plan *p = r->plan;
	uint64_t n;
	if (word(text, "alloc"))
		return alloc_line(text, r);
	if (word(text, "free")) {
		if (!number(text, &n))
			return "expected a number";
		if (r->version == 1)
			return NULL;
		if (n >= p->count || p->trace.blocks[n].end != NEVER)
			return "expected a block that is live";
		trace_end(&p->trace, (uint32_t)n);
		return NULL;
	}
	if (word(text, "alignment") || word(text, "events"))
		return number(text, &n) ? NULL : "expected a number";
	if (word(text, "arena"))
		return number(text, &p->arena_bytes) && p->arena_bytes < UINT64_MAX / 2 ? NULL : "expected a number of bytes";
	if (word(text, "lower_bound"))
		return number(text, &p->lower_bound_bytes) ? NULL : "expected a number of bytes";
	if (r->version == 2 && word(text, "scratch"))
		return number(text, &p->scratch_bytes) ? NULL : "expected a number of bytes";
	return "expected alloc, free, alignment, arena, lower_bound or events";
}

// settle completes the plan of a table of version 2; 0 without memory.
static int settle(struct plan *p, int with_outputs) {
	int64_t *events = trace_events(&p->trace);
	if (!events)
		return 0;
	uint64_t live = 0;
	uint32_t at = 0;
	for (uint32_t e = 0; e < p->trace.events; e++) {
		uint32_t i = (uint32_t)(events[e] < 0 ? ~events[e] : events[e]);
		struct placed *b = &p->blocks[i];
		*(events[e] < 0 ? &b->end : &b->begin) = at;
		at += b->size > TINY;
		if (p->trace.blocks[i].end == NEVER) {
			p->output_bytes += b->size;
			if (!with_outputs)
				b->offset = OUTSIDE;
		}
		if (b->offset == OUTSIDE)
			continue;
		// What is written over another takes that one's bytes from it.
		if (events[e] >= 0 && b->over == NEVER)
			live += aligned(b->size);
		else if (events[e] < 0 && b->by == NEVER)
			live -= aligned(b->size);
		if (live > p->live_peak_bytes)
			p->live_peak_bytes = live;
	}
	free(events);
	p->hash = trace_hash(&p->trace);
	p->enforced = 1;
	return 1;
}

// version returns the version in the first line of a table, and moves behind it; 0 if
// there is none.
static int version(const char **text) {
	uint64_t n;
	if (!word(text, "onnxmem/replay") || !number(text, &n) || n < 1 || n > 2 || (**text && **text != '\n'))
		return 0;
	return (int)n;
}

struct plan *plan_load(const char *text, uint64_t key, int with_outputs, char *error, size_t size) {
	struct reading r = {.plan = calloc(1, sizeof(struct plan))};
	const char *wrong = r.plan ? NULL : "no memory";
	int at = 1;
	if (r.plan && !(r.version = version(&text)))
		wrong = "expected onnxmem/replay 1 or 2";
	while (!wrong && *text) {
		text++; // the end of the line before
		at++;
		if (*text && *text != '\n')
			wrong = line(&text, &r);
		if (!wrong && *text && *text != '\n')
			wrong = "expected the end of the line";
	}
	if (!wrong && r.version == 2 && !settle(r.plan, with_outputs))
		wrong = "no memory";
	if (wrong) {
		snprintf(error, size, "line %d: %s", at, wrong);
		plan_free(r.plan);
		return NULL;
	}
	r.plan->key = key;
	r.plan->packed = r.plan->loaded = 1;
	if (r.version == 1)
		r.plan->live_peak_bytes = r.plan->lower_bound_bytes;
	return r.plan;
}

int walk_init(struct walk *w, const struct plan *p) {
	walk_to(w, 0);
	w->taken = calloc(p->count + 1, 1);
	return w->taken != NULL;
}

void walk_free(struct walk *w) {
	free(w->taken);
	w->taken = NULL;
}

void walk_to(struct walk *w, uint32_t block) {
	w->last = block;
	w->missed = 0;
}

// walk_take notes that a block was found, and returns it.
static uint32_t walk_take(struct walk *w, uint32_t block) {
	w->taken[block] = 1;
	w->missed = 0;
	return block;
}

uint32_t walk_next(struct walk *w, const struct plan *p, uint64_t size) {
	uint32_t ahead = w->missed < FARTHEST / 2 ? NEARBY + 2 * w->missed : FARTHEST;
	if (ahead > FARTHEST)
		ahead = FARTHEST;
	for (uint32_t i = w->last; i < p->count && i - w->last < ahead; i++) {
		if (!w->taken[i] && p->blocks[i].size == size) {
			w->last = i + 1;
			return walk_take(w, i);
		}
	}
	for (uint32_t i = w->last; i > 0 && i + NEARBY > w->last; i--) {
		if (!w->taken[i - 1] && p->blocks[i - 1].size == size)
			return walk_take(w, i - 1);
	}
	w->missed++;
	return NEVER;
}
