// What a stream allocates and frees, and when that shall be packed.
#ifndef ONNXMEM_RECORDING_H
#define ONNXMEM_RECORDING_H

#include "trace.h"

enum due {
	NOT_DUE,
	DUE,      // to be packed, if something repeats
	DUE_LAST, // to be packed in any case
};

struct recording {
	uint64_t number; // 0: nothing is recorded
	struct trace trace;
	uint32_t *marks; // positions before which iterations begin
	uint32_t marks_count, marks_room;
	uint32_t due_at; // iterations, or without marks events
	enum due due;
};

// recording_begin begins a recording. Without marks, the longer it is the later a period
// is looked for first.
void recording_begin(struct recording *r, uint64_t number, int marked, uint32_t longer);

void recording_end(struct recording *r);

// recording_alloc notes an allocation and returns its number, or NEVER.
uint32_t recording_alloc(struct recording *r, uint64_t size, int marked);

// recording_mark notes that an iteration begins.
void recording_mark(struct recording *r);

#endif
