#include "trace.h"

#include <stdlib.h>

void trace_free(struct trace *t) {
	free(t->blocks);
	*t = (struct trace){0};
}

uint32_t trace_alloc(struct trace *t, uint64_t size) {
	if (t->count == t->room) {
		uint32_t room = t->room ? 2 * t->room : 256;
		struct traced *blocks = room < NEVER / 4 ? realloc(t->blocks, room * sizeof *blocks) : NULL;
		if (!blocks) {
			t->broken = 1;
			return NEVER;
		}
		t->blocks = blocks;
		t->room = room;
	}
	t->blocks[t->count] = (struct traced){size, t->events++, NEVER, NEVER};
	return t->count++;
}

void trace_end(struct trace *t, uint32_t block) {
	if (block < t->count && t->blocks[block].end == NEVER)
		t->blocks[block].end = t->events++;
}

uint64_t trace_hash(const struct trace *t) {
	uint64_t h = 14695981039346656037u; // FNV-1a, on words
	for (uint32_t i = 0; i < t->count; i++) {
		const uint64_t words[] = {t->blocks[i].size, t->blocks[i].begin, t->blocks[i].end};
		for (int w = 0; w < 3; w++)
			h = (h ^ words[w]) * 1099511628211u;
	}
	return h;
}

int trace_alike(const struct trace *t, const struct trace *other) {
	if (t->count != other->count || t->events != other->events)
		return 0;
	uint32_t i = 0;
	while (i < t->count && t->blocks[i].begin == other->blocks[i].begin && t->blocks[i].end == other->blocks[i].end)
		i++;
	return i == t->count;
}

int64_t *trace_events(const struct trace *t) {
	int64_t *events = malloc((t->events + 1) * sizeof *events);
	if (!events)
		return NULL;
	for (uint32_t i = 0; i < t->count; i++) {
		events[t->blocks[i].begin] = i;
		if (t->blocks[i].end != NEVER)
			events[t->blocks[i].end] = ~(int64_t)i;
	}
	return events;
}

uint64_t trace_peak(const struct trace *t, int with_outputs) {
	int64_t *events = trace_events(t);
	if (!events)
		return 0;
	uint64_t live = 0, peak = 0;
	for (uint32_t e = 0; e < t->events; e++) {
		const struct traced *b = &t->blocks[events[e] < 0 ? ~events[e] : events[e]];
		if (b->end == NEVER && !with_outputs)
			continue;
		live = events[e] < 0 ? live - aligned(b->size) : live + aligned(b->size);
		if (live > peak)
			peak = live;
	}
	free(events);
	return peak;
}
