// onnxmem_ort: the memory of stock ONNX Runtime in one packed arena.
//
// A program lets ONNX Runtime load this library as one of custom operators
// (RegisterCustomOpsLibrary), and sets for its sessions
//
//	session.use_env_allocators=1, DisableCpuMemArena, DisableMemPattern
//
// Each session has an onnxmem_session. What a thread allocates between
// onnxmem_run_begin and onnxmem_run_end is the run's. The first run with a key (a number
// for the shapes of its inputs) records, and takes free places of the session's arena;
// later ones find each block at a fixed offset in it. A run with other shapes has the plan
// of larger ones, if that is known. Whatever deviates from a plan is taken from malloc.
//
// All functions may be called from any thread. docs/onnxruntime.md has more.
#ifndef ONNXMEM_ORT_H
#define ONNXMEM_ORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define ONNXMEM_API __declspec(dllexport)
#else
#define ONNXMEM_API __attribute__((visibility("default")))
#endif

typedef struct session onnxmem_session;

// What a session has taken. Counts are those of all runs so far.
struct onnxmem_memory {
	uint64_t arena_bytes;       // the arena: what the plans need, or more where runs without one have taken it
	uint64_t live_peak_bytes;   // of the plan used last: the largest sum of live blocks in the arena
	uint64_t lower_bound_bytes; // of that plan: no placement needs less
	uint64_t plan_bytes;        // of that plan: the arena that it needs
	uint64_t output_bytes;      // of that plan: blocks that outlive a run
	uint64_t scratch_bytes;     // of that plan, if it is a model's: the most that kernels take for themselves
	uint64_t weights_bytes;     // what was taken while the session was made, and lives
	uint64_t fallback_bytes;    // the most that misses took at one time
	uint64_t hits;              // blocks at their places in the arena
	uint64_t misses;            // blocks that had a plan, and came from malloc
	uint64_t recorded;          // blocks that had no place in a plan
	uint64_t runs, plans, packed_plans;
	uint64_t enforced;          // 1: the plan used last has the places of a planned model
	uint64_t merged;            // 1: it is for the larger sizes of several shapes
	uint64_t covered;           // runs in the plan of larger shapes
	uint64_t unplanned;         // blocks of at most 256 bytes that a planned model does not have, from malloc
	uint64_t held_bytes;        // of the arena: what may have memory now
	uint64_t left_alone;        // runs that had no arena, since they need little
	uint64_t given_back;        // how often onnxmem_give_back has given back memory
};

// onnxmem_status returns "" if ONNX Runtime has taken our allocator, else what is wrong.
ONNXMEM_API const char *onnxmem_status(void);

// onnxmem_session_new returns a session that keeps at most so many plans; NULL without
// memory. With outputs, blocks that outlive a run have a place in the arena, too: for
// callers that release them before the next run.
ONNXMEM_API onnxmem_session *onnxmem_session_new(uint32_t plans, int outputs);

// onnxmem_session_small leaves runs alone that need less than so many bytes (0: none): their
// blocks come from malloc, which has memory that was freed when the session was made. Plans
// that onnxmem_load has added have an arena in any case.
ONNXMEM_API void onnxmem_session_small(onnxmem_session *s, uint64_t bytes);

// onnxmem_session_close ends a session. Its blocks stay valid until they are freed.
ONNXMEM_API void onnxmem_session_close(onnxmem_session *s);

// onnxmem_making says that this thread makes a session: what it allocates are weights.
// NULL: not any more; what malloc has kept of freed memory then goes back to the system (glibc).
ONNXMEM_API void onnxmem_making(onnxmem_session *s);

// onnxmem_run_begin begins a run on this thread. Key 0 stands for unknown shapes: plans
// are then chosen by the sizes of the blocks.
ONNXMEM_API void onnxmem_run_begin(onnxmem_session *s, uint64_t key);

// onnxmem_run_end ends the run that this thread began last. It returns the serial
// number of a new plan, which awaits onnxmem_place, or 0. A run that was not completed
// makes no plan.
ONNXMEM_API uint64_t onnxmem_run_end(int completed);

// onnxmem_blocks copies the recorded blocks of a plan, at most room of them, and returns
// how many there are: sizes, and the positions of allocation and free in the stream
// (UINT32_MAX: outlives the run).
ONNXMEM_API uint32_t onnxmem_blocks(onnxmem_session *s, uint64_t plan, uint64_t *sizes, uint32_t *begins, uint32_t *ends, uint32_t room);

// onnxmem_offsets copies the places of a plan's blocks, at most room of them, and returns
// how many there are (UINT64_MAX: outside of the arena).
ONNXMEM_API uint32_t onnxmem_offsets(onnxmem_session *s, uint64_t plan, uint64_t *offsets, uint32_t room);

// onnxmem_place replaces the offsets of a plan (UINT64_MAX: outside). It returns 0 if
// the plan is gone, or an offset is no multiple of 64 or leads out of the arena.
ONNXMEM_API int onnxmem_place(onnxmem_session *s, uint64_t plan, const uint64_t *offsets, uint32_t count, uint64_t arena_bytes, uint64_t lower_bound_bytes);

// onnxmem_pack_plan packs the blocks of a plan by libonnxmem, whose path is given, in this process,
// and replaces their offsets. It returns 0, also if the plan is gone, else with the reason in error
// ONNXMEM_NOT_LOADED or a status of onnxmem.h: 1 without memory, 4 in a fork of a process that had
// loaded the library, or was loading it. A library stays loaded: of later calls, whatever path they
// give, it is the one that packs. It searches: call it from a thread of its own.
#define ONNXMEM_NOT_LOADED (-1) // the path names no library that can be loaded, or not libonnxmem 0.1
ONNXMEM_API int onnxmem_pack_plan(onnxmem_session *s, uint64_t plan, const char *library, char *error, size_t room);

// onnxmem_load adds a plan for a key from a table of `onnxmem pack --to replay`. A table
// of version 2 (`--model`) has the places of a planned model: results lie over operands,
// as long as the run follows the recorded one event by event. It returns 0 on errors,
// with the reason in error.
ONNXMEM_API int onnxmem_load(onnxmem_session *s, uint64_t key, const char *table, char *error, size_t room);

// onnxmem_plans copies the serial numbers of the plans, the one used last first, and
// returns how many there are.
ONNXMEM_API uint32_t onnxmem_plans(onnxmem_session *s, uint64_t *serials, uint32_t room);

// onnxmem_give_back gives the memory of the arena back to the system, but for what lives in
// it, unless a run uses it. The addresses stay: the next run has pages of zeros there.
ONNXMEM_API void onnxmem_give_back(onnxmem_session *s);

ONNXMEM_API void onnxmem_memory_of(onnxmem_session *s, struct onnxmem_memory *m);

#endif
