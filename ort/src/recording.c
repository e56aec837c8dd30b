#include "recording.h"

#include <stdlib.h>

// MOST is how many events a recording may have.
#define MOST (1u << 20)

// EVENTS is how many events a recording has when a period is first looked for; then
// whenever it has twice as many.
#define EVENTS 1024

// ITERATIONS is how many iterations a recording with marks has when it is first packed,
// LAST how many when it is packed whether or not two of them are equal.
#define ITERATIONS 2
#define LAST 5

void recording_begin(struct recording *r, uint64_t number, int marked, uint32_t longer) {
	recording_end(r);
	r->number = number;
	// What repeats within an iteration may be taken for one: longer recordings tell.
	r->due_at = marked ? ITERATIONS : EVENTS * longer;
}

void recording_end(struct recording *r) {
	trace_free(&r->trace);
	free(r->marks);
	*r = (struct recording){0};
}

uint32_t recording_alloc(struct recording *r, uint64_t size, int marked) {
	if (!r->number)
		return NEVER;
	uint32_t number = trace_alloc(&r->trace, size);
	uint32_t events = r->trace.events;
	if (r->trace.broken || (events >= MOST && !r->marks_count)) {
		recording_end(r); // nothing repeats
		return NEVER;
	}
	if (events >= MOST && r->due == NOT_DUE)
		r->due = DUE_LAST;
	if (!marked && r->due == NOT_DUE && events >= r->due_at) {
		r->due_at = 2 * events;
		r->due = DUE;
	}
	return number;
}

void recording_mark(struct recording *r) {
	if (!r->number || (r->marks_count && r->marks[r->marks_count - 1] == r->trace.events))
		return;
	if (r->marks_count == r->marks_room) {
		uint32_t room = r->marks_room ? 2 * r->marks_room : 64;
		uint32_t *marks = realloc(r->marks, room * sizeof *marks);
		if (!marks)
			return;
		r->marks = marks;
		r->marks_room = room;
	}
	r->marks[r->marks_count++] = r->trace.events;
	uint32_t iterations = r->marks_count - 1;
	if (r->due == NOT_DUE && iterations >= r->due_at) {
		r->due_at = 2 * iterations - 1;
		r->due = iterations >= LAST ? DUE_LAST : DUE;
	}
}
