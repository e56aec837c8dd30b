/* onnxmem.h: orders and places for the memory of a computation, with proofs. Version 0.1.0.
 *
 * onnxmem_pack gives buffers of known lifetimes their offsets; onnxmem_order orders nodes for
 * the smallest peak; onnxmem_limit runs some again, or swaps, below a limit. onnxmem_verify_*
 * checks each answer by code that the searches do not use. Sizes and offsets are bytes, costs
 * nanoseconds. Steps count from any number; a lifetime is half-open, from lower to before upper.
 *
 * Same input, same answer, on any machine with any number of cores, unless a time limit or a
 * cancellation ends the search (`ended`). All functions may be called from any number of threads
 * at once. They open no file, read no environment, print nothing and keep no pointer of the
 * caller. A child made by fork without exec gets ONNXMEM_FORKED (docs/library-process.md).
 *
 * Structs that you fill begin with their size: set struct_size to sizeof and the rest to zero; a
 * field of zero or NULL is left out. Later versions add functions, and fields at the end of these
 * structs, never of results: programs built with this header work until the first number grows. */
#ifndef ONNXMEM_H
#define ONNXMEM_H
#include <stddef.h>
#include <stdint.h>

#define ONNXMEM_VERSION "0.1.0"

#if defined(_WIN32) && defined(ONNXMEM_BUILD)
#define ONNXMEM_API __declspec(dllexport)
#elif defined(_WIN32)
#define ONNXMEM_API __declspec(dllimport)
#else
#define ONNXMEM_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Every function that can fail returns a status, and writes why into `error`, a text of at
 * most error_bytes with its final 0 (NULL: nowhere). 0 to 3 are exit statuses of the command,
 * too. Without ONNXMEM_OK, results are undefined and hold nothing to be freed. */
enum onnxmem_status {
	ONNXMEM_OK = 0,
	ONNXMEM_FAILED = 1,  /* verify: not valid; else: no memory for the result */
	ONNXMEM_USAGE = 2,   /* a pointer, a struct_size or an option is wrong */
	ONNXMEM_REFUSED = 3, /* the input contradicts itself: the text names buffer, node or tensor */
	ONNXMEM_FORKED = 4,  /* the process is a fork of the one that loaded the library */
	ONNXMEM_FAULT = 5,   /* a fault of onnxmem, which is worth a report; the process is sound */
	ONNXMEM_ENDED = 6    /* a time limit or a cancellation, before there was an answer */
};

typedef struct onnxmem_options { /* NULL: all zero */
	size_t struct_size;
	int32_t effort;                 /* work: 0 default, 1 fast (a fraction of a second), 2 max (minutes) */
	int32_t replay;                 /* verify_order: repeat searches that a certificate names, too */
	int64_t time_limit;             /* nanoseconds after which the best so far is the answer */
	const volatile int32_t *cancel; /* the same as soon as this is not 0: set it from any thread, or
	                                   a signal handler; it must be there until the call returns */
} onnxmem_options;

/* ---- Places ------------------------------------------------------------------------------ */

typedef struct onnxmem_buffers { /* arrays have `count` elements, unless they say otherwise; of none, any address */
	size_t struct_size;
	size_t count;
	const int64_t *lower, *upper; /* live from step lower to before step upper */
	const int64_t *size;
	int64_t common_alignment;     /* offsets are multiples of it, sizes are rounded up to it; 0: 1 */
	const int64_t *alignment;     /* of one offset, whose size is then not rounded; 0: the common one */
	const int64_t *fixed;         /* the offset it must have; below 0: any */
	const int64_t *hint;          /* an offset to try first; below 0: none */
	const int64_t *gap_begin;     /* count + 1: the gaps of i are gap_begin[i] to gap_begin[i + 1] - 1 */
	const int64_t *gap_lower, *gap_upper; /* by gap, ascending: steps at which only ... */
	const int64_t *gap_from, *gap_to;     /* ... bytes from .. to - 1 of the buffer are needed, or none */
	size_t pool_count;            /* arenas, the fastest first; 0: 1 */
	const int64_t *pool_capacity; /* pool_count: bytes; below 0: any. NULL: any */
	const int32_t *pool;          /* where it must lie; NULL: in 0; all -1: where there is room, so that
	                                 least is written and read in slower ones */
} onnxmem_buffers;

typedef struct onnxmem_packed { /* of one pool */
	int64_t arena;  /* the end of the last buffer */
	int64_t bound;  /* no arena of these buffers is smaller */
	int32_t proven; /* arena = bound */
	int32_t fits;   /* 1: within the capacity; 0: proven impossible; -1: not known, or no capacity */
	int32_t ended;  /* the search was ended early: another call may find other places */
	int32_t reserved;
} onnxmem_packed;

/* Places buffers. Writes `offsets` (count), `packed` (one for each pool), and, unless NULL, `pools`
 * (count: where each lies) and `infeasible` (count: 1 for a few buffers that do not fit even alone,
 * if fits is 0). Offsets are valid in arenas of these sizes, also if they exceed a capacity. Open pools:
 * effort is not used; if fits is below 1, offsets are 0; `bound` is one of the buffers in that pool. */
ONNXMEM_API int onnxmem_pack(const onnxmem_buffers *buffers, const onnxmem_options *options, int64_t *offsets,
	onnxmem_packed *packed, int32_t *pools, uint8_t *infeasible, char *error, size_t error_bytes);

/* Checks offsets (and `pools`, if they were open): capacities, alignments, fixed offsets, and that
 * no two buffers share a byte that both need at a step. ONNXMEM_OK: valid; then `packed` (NULL: not
 * needed) has the arenas, and the bounds that are proven without a search. */
ONNXMEM_API int onnxmem_verify_pack(const onnxmem_buffers *buffers, const int64_t *offsets, const int32_t *pools,
	onnxmem_packed *packed, char *error, size_t error_bytes);

/* ---- Orders ------------------------------------------------------------------------------ */

typedef struct onnxmem_graph { /* nodes in program order, and the storages that they read and make */
	size_t struct_size;
	size_t node_count, tensor_count;
	const int64_t *workspace;      /* by node: bytes that it needs besides, while it runs */
	const int64_t *cost;           /* by node: nanoseconds; all 0: estimated from the bytes that it moves */
	const uint8_t *once;           /* by node: it must not run again */
	const int64_t *write_begin;    /* node_count + 1, as gap_begin: by node, ... */
	const int32_t *write;          /* ... tensors that it reads and overwrites in place (for limits) */
	const int64_t *size;           /* by tensor; one of 0 bytes carries precedence alone */
	const int32_t *producer;       /* by tensor: the node that makes it; -1: it is there from the start */
	const int64_t *consumer_begin; /* tensor_count + 1: by tensor, ... */
	const int32_t *consumer;       /* ... nodes that read it */
	const uint8_t *output;         /* by tensor: it lives to the last step */
	const uint8_t *resident;       /* by tensor: it counts nowhere */
	const int64_t *reuse_begin;    /* tensor_count + 1: by tensor, ... */
	const int32_t *reuse;          /* ... tensors of its size that it may be written over by their last reader */
	const int32_t *parent;         /* by tensor: it is a range of that one; -1: of none. What a node makes of its
	                                  parent (Slice) is a view; what a node makes the parent of (Concat) is a piece,
	                                  written in place. Who overwrites a view overwrites its parent, as a whole */
	const int64_t *offset;         /* by tensor: where in the parent */
} onnxmem_graph;

typedef struct onnxmem_certificate {
	int32_t kind, reserved; /* kind: 0 cut (one node), 1 first of a set, 2 last of a set, 3 search (docs/formats/bounds.md) */
	int64_t bytes;          /* no order has a smaller peak */
	size_t node_count;
	const int32_t *nodes;
} onnxmem_certificate;

typedef struct onnxmem_ordered {
	int64_t peak, program_peak;      /* of the order; of program order */
	int64_t bound;                   /* no order has a smaller peak */
	int32_t proven, ended;           /* peak = bound; ended early: another call may differ */
	size_t certificate_count;
	onnxmem_certificate *certificates; /* of the bound: one block, for onnxmem_free */
} onnxmem_ordered;

/* Orders the nodes. Writes `order` (node_count: the node of each step) and `ordered`. */
ONNXMEM_API int onnxmem_order(const onnxmem_graph *graph, const onnxmem_options *options, int32_t *order,
	onnxmem_ordered *ordered, char *error, size_t error_bytes);

/* Checks an order, and proves its certificates again. ONNXMEM_OK: valid; then `ordered` (NULL: not
 * needed) has the peak, and the bound that was proven here. */
ONNXMEM_API int onnxmem_verify_order(const onnxmem_graph *graph, const onnxmem_options *options, const int32_t *order,
	const onnxmem_certificate *certificates, size_t certificate_count, onnxmem_ordered *ordered, char *error, size_t error_bytes);

/* The buffers of an order, for onnxmem_pack: writes `buffer` (tensor_count: its buffer, -1: it has none;
 * tensors of which one is written over the other share one, and so do ranges, at their offset in it),
 * `count`, and up to tensor_count + node_count elements of `lower`, `upper` and `size`; of no tensor are
 * workspaces. A buffer with pieces is there, whole, from the first on: an arena may exceed the peak. */
ONNXMEM_API int onnxmem_lifetimes(const onnxmem_graph *graph, const int32_t *order, int32_t *buffer, size_t *count,
	int64_t *lower, int64_t *upper, int64_t *size, char *error, size_t error_bytes);

/* ---- Limits ------------------------------------------------------------------------------ */

typedef struct onnxmem_goal {
	size_t struct_size;
	int64_t bytes;        /* the largest peak, or ... */
	double percent;       /* ... above 0: that of the best order's peak */
	int64_t host_link;    /* bytes per second, each way, to a host where tensors may be swapped; 0: none */
	int32_t no_recompute; /* no node runs again: swaps alone */
	int32_t least;        /* if the limit is missed: the steps of the smallest peak that is found */
} onnxmem_goal;

typedef struct onnxmem_swap {
	int32_t tensor;
	int32_t out, in; /* indices into steps: where its transfer out has ended, and that back begins */
	int32_t reserved;
} onnxmem_swap;

typedef struct onnxmem_limited {
	int64_t limit, peak;    /* bytes; without steps, peak is the smallest that was found */
	int64_t bound;          /* no steps have a smaller peak (with a link, 0: not known) */
	int64_t best_order;     /* the peak of the best order, each node once */
	double extra_percent;   /* time of repeated nodes and of waiting, of that of a step */
	double extra_at_least;  /* no steps within the limit take less (with a link, 0: not known) */
	int32_t feasible;       /* 1: steps within the limit; 0: proven impossible; -1: none found */
	int32_t ended;          /* ended early */
	size_t step_count, swap_count;
	int32_t *steps;         /* nodes as they run; N + 2k and N + 2k + 1 are out and in of swap k of N nodes.
	                           One block with `swaps`, for onnxmem_free; NULL: there are none */
	onnxmem_swap *swaps;
} onnxmem_limited;

/* Looks for the steps within a limit that take the least extra time. Writes `limited`. */
ONNXMEM_API int onnxmem_limit(const onnxmem_graph *graph, const onnxmem_goal *goal, const onnxmem_options *options,
	onnxmem_limited *limited, char *error, size_t error_bytes);

/* Checks steps: that each reader finds what it read in its first run. `swapped` has the tensor of each
 * swap. ONNXMEM_OK: valid; then `peak` and `bound` (NULL: not needed) are what was computed here. */
ONNXMEM_API int onnxmem_verify_limit(const onnxmem_graph *graph, const onnxmem_options *options, const int32_t *steps, size_t step_count,
	const int32_t *swapped, size_t swap_count, int64_t *peak, int64_t *bound, char *error, size_t error_bytes);

ONNXMEM_API void onnxmem_free(void *block);
ONNXMEM_API const char *onnxmem_version(void); /* of the library, such as "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
