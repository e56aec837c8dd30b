// Sessions, their runs, and the allocator that ONNX Runtime calls.
#ifndef ONNXMEM_SESSION_H
#define ONNXMEM_SESSION_H

#include "onnxmem_ort.h"

// memory_alloc returns size bytes, aligned to 64, or NULL. A run's block lies in the
// arena where its plan says so and nothing lives there.
void *memory_alloc(size_t size);

// memory_reserve returns memory that lives as long as the session that this thread makes.
void *memory_reserve(size_t size);

// memory_free takes back what one of the two returned, on any thread, at any time.
void memory_free(void *bytes);

// memory_init prepares for fork. It may be called several times.
void memory_init(void);

// planner_after_fork_in_child notes that nobody goes on to load a planner. memory_init lets a fork call it.
void planner_after_fork_in_child(void);

#endif
