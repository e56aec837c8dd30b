#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranges.h"

// NEARBY is how many blocks ahead and behind walk_next looks.
#define NEARBY 16

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
	for (uint32_t i = 0; i < p->count; i++)
		p->blocks[i].offset = p->move->offsets[i];
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
		b->offset = ranges_gap(&live, size, p->arena_bytes);
		if (b->offset == UINT64_MAX) // above all that lives
			b->offset = ranges_gap(&live, size, UINT64_MAX);
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
		p->blocks[i] = (struct placed){t->blocks[i].size, OUTSIDE};
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

// line reads one line of a table into p, and returns what is wrong with it, or NULL.
static const char *line(const char **text, struct plan *p, uint32_t *room) {
	uint64_t id, n, offset, stream;
	if (word(text, "alloc")) {
		if (!number(text, &id) || !number(text, &n) || !number(text, &offset) || !number(text, &stream))
			return "expected alloc ID SIZE OFFSET STREAM";
		if (n > p->arena_bytes || offset > p->arena_bytes - n)
			return "the block ends above the arena";
		if (offset % ALIGNMENT)
			return "the offset is no multiple of 64";
		if (p->count == *room) {
			uint32_t more = *room ? 2 * *room : 256;
			struct placed *blocks = more < NEVER / 4 ? realloc(p->blocks, more * sizeof *blocks) : NULL;
			if (!blocks)
				return "no memory";
			p->blocks = blocks;
			*room = more;
		}
		p->blocks[p->count++] = (struct placed){n, offset};
		return NULL;
	}
	if (word(text, "free") || word(text, "alignment") || word(text, "events"))
		return number(text, &n) ? NULL : "expected a number";
	if (word(text, "arena"))
		return number(text, &p->arena_bytes) && p->arena_bytes < UINT64_MAX / 2 ? NULL : "expected a number of bytes";
	if (word(text, "lower_bound"))
		return number(text, &p->lower_bound_bytes) ? NULL : "expected a number of bytes";
	return "expected alloc, free, alignment, arena, lower_bound or events";
}

struct plan *plan_load(const char *text, uint64_t key, char *error, size_t size) {
	struct plan *p = calloc(1, sizeof *p);
	uint32_t room = 0;
	const char *wrong = p ? NULL : "no memory";
	int at = 1;
	if (p && (!word(&text, "onnxmem/replay") || !word(&text, " 1") || (*text && *text != '\n')))
		wrong = "expected onnxmem/replay 1";
	while (!wrong && *text) {
		text++; // the end of the line before
		at++;
		if (*text && *text != '\n')
			wrong = line(&text, p, &room);
		if (!wrong && *text && *text != '\n')
			wrong = "expected the end of the line";
	}
	if (wrong) {
		snprintf(error, size, "line %d: %s", at, wrong);
		plan_free(p);
		return NULL;
	}
	p->key = key;
	p->live_peak_bytes = p->lower_bound_bytes;
	p->packed = 1;
	return p;
}

int walk_init(struct walk *w, const struct plan *p) {
	w->last = 0;
	w->taken = calloc(p->count + 1, 1);
	return w->taken != NULL;
}

void walk_free(struct walk *w) {
	free(w->taken);
	w->taken = NULL;
}

uint32_t walk_next(struct walk *w, const struct plan *p, uint64_t size) {
	for (uint32_t i = w->last; i < p->count && i < w->last + NEARBY; i++) {
		if (!w->taken[i] && p->blocks[i].size == size) {
			w->taken[i] = 1;
			w->last = i + 1;
			return i;
		}
	}
	for (uint32_t i = w->last; i > 0 && i + NEARBY > w->last; i--) {
		if (!w->taken[i - 1] && p->blocks[i - 1].size == size) {
			w->taken[i - 1] = 1;
			return i - 1;
		}
	}
	return NEVER;
}
