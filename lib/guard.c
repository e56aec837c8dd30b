//go:build cgo

/* The functions of onnxmem.h. Each copies the structs of the caller, whose header may be older,
 * and refuses to enter Go in a forked child, where Go's threads are missing and it would hang. */
#define ONNXMEM_BUILD
#include "_cgo_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>

static volatile int forked;

static void in_child(void) { forked = 1; }

__attribute__((constructor)) static void loaded(void) { pthread_atfork(NULL, NULL, in_child); }
#else
enum { forked = 0 };
#endif

static int fails(int status, char *error, size_t bytes, const char *what) {
	if (error != NULL && bytes > 0)
		snprintf(error, bytes, "%s", what);
	return status;
}

/* take copies a struct of a caller, and leaves zero what its header does not know. */
static int take(void *to, size_t known, const void *from, const char *name, char *error, size_t bytes) {
	char text[160];
	size_t given;
	if (from == NULL) {
		snprintf(text, sizeof text, "%s: expected a struct, found NULL", name);
		return fails(ONNXMEM_USAGE, error, bytes, text);
	}
	memcpy(&given, from, sizeof given);
	if (given < sizeof given || given > known) {
		snprintf(text, sizeof text, "%s: struct_size: expected at most %zu bytes, those of version " ONNXMEM_VERSION ", found %zu", name, known, given);
		return fails(ONNXMEM_USAGE, error, bytes, text);
	}
	memset(to, 0, known);
	memcpy(to, from, given);
	return ONNXMEM_OK;
}

/* Some languages have an address of the first page for an empty array, and Go's runtime ends the
 * process where it finds one in a frame. It becomes the next page, where nothing is mapped either:
 * reading it is ONNXMEM_FAULT. */
static void *lifted(const void *p) {
	uintptr_t at = (uintptr_t)p; /* Go has no const */
	return (void *)(at > 0 && at < 4096 ? 4096 : at);
}
#define LIFT(pointer) (pointer) = lifted(pointer)

static void lift_options(onnxmem_options *o) { o->cancel = lifted((const void *)o->cancel); }

static void lift_buffers(onnxmem_buffers *b) {
	LIFT(b->lower); LIFT(b->upper); LIFT(b->size); LIFT(b->alignment); LIFT(b->fixed); LIFT(b->hint);
	LIFT(b->gap_begin); LIFT(b->gap_lower); LIFT(b->gap_upper); LIFT(b->gap_from); LIFT(b->gap_to);
	LIFT(b->pool_capacity); LIFT(b->pool);
}

static void lift_graph(onnxmem_graph *g) {
	LIFT(g->workspace); LIFT(g->cost); LIFT(g->once); LIFT(g->write_begin); LIFT(g->write); LIFT(g->size);
	LIFT(g->producer); LIFT(g->consumer_begin); LIFT(g->consumer); LIFT(g->output); LIFT(g->resident);
	LIFT(g->reuse_begin); LIFT(g->reuse); LIFT(g->parent); LIFT(g->offset);
}

#define BEGIN \
	int status; \
	if (forked) \
		return fails(ONNXMEM_FORKED, error, error_bytes, "the process is a fork of the one that loaded libonnxmem: expected exec after fork")
#define TAKE(type, name) \
	type name##_; \
	if ((status = take(&name##_, sizeof name##_, name, #name, error, error_bytes)) != ONNXMEM_OK) \
		return status
#define BUFFERS TAKE(onnxmem_buffers, buffers); lift_buffers(&buffers_)
#define GRAPH TAKE(onnxmem_graph, graph); lift_graph(&graph_)
#define OPTIONS \
	const onnxmem_options none = {sizeof none, 0, 0, 0, NULL}; \
	if (options == NULL) \
		options = &none; \
	TAKE(onnxmem_options, options); lift_options(&options_)

int onnxmem_pack(const onnxmem_buffers *buffers, const onnxmem_options *options, int64_t *offsets,
	onnxmem_packed *packed, int32_t *pools, uint8_t *infeasible, char *error, size_t error_bytes) {
	BEGIN;
	BUFFERS;
	OPTIONS;
	return goPack(&buffers_, &options_, lifted(offsets), lifted(packed), lifted(pools), lifted(infeasible), lifted(error), error_bytes);
}

int onnxmem_verify_pack(const onnxmem_buffers *buffers, const int64_t *offsets, const int32_t *pools,
	onnxmem_packed *packed, char *error, size_t error_bytes) {
	BEGIN;
	BUFFERS;
	return goVerifyPack(&buffers_, lifted(offsets), lifted(pools), lifted(packed), lifted(error), error_bytes);
}

int onnxmem_order(const onnxmem_graph *graph, const onnxmem_options *options, int32_t *order,
	onnxmem_ordered *ordered, char *error, size_t error_bytes) {
	BEGIN;
	GRAPH;
	OPTIONS;
	return goOrder(&graph_, &options_, lifted(order), lifted(ordered), lifted(error), error_bytes);
}

int onnxmem_verify_order(const onnxmem_graph *graph, const onnxmem_options *options, const int32_t *order,
	const onnxmem_certificate *certificates, size_t certificate_count, onnxmem_ordered *ordered, char *error, size_t error_bytes) {
	BEGIN;
	GRAPH;
	OPTIONS;
	return goVerifyOrder(&graph_, &options_, lifted(order), lifted(certificates), certificate_count, lifted(ordered), lifted(error), error_bytes);
}

int onnxmem_lifetimes(const onnxmem_graph *graph, const int32_t *order, int32_t *buffer, size_t *count,
	int64_t *lower, int64_t *upper, int64_t *size, char *error, size_t error_bytes) {
	BEGIN;
	GRAPH;
	return goLifetimes(&graph_, lifted(order), lifted(buffer), lifted(count), lifted(lower), lifted(upper), lifted(size), lifted(error), error_bytes);
}

int onnxmem_limit(const onnxmem_graph *graph, const onnxmem_goal *goal, const onnxmem_options *options,
	onnxmem_limited *limited, char *error, size_t error_bytes) {
	BEGIN;
	GRAPH;
	TAKE(onnxmem_goal, goal);
	OPTIONS;
	return goLimit(&graph_, &goal_, &options_, lifted(limited), lifted(error), error_bytes);
}

int onnxmem_verify_limit(const onnxmem_graph *graph, const onnxmem_options *options, const int32_t *steps, size_t step_count,
	const int32_t *swapped, size_t swap_count, int64_t *peak, int64_t *bound, char *error, size_t error_bytes) {
	BEGIN;
	GRAPH;
	OPTIONS;
	return goVerifyLimit(&graph_, &options_, lifted(steps), step_count, lifted(swapped), swap_count, lifted(peak), lifted(bound), lifted(error), error_bytes);
}

void onnxmem_free(void *block) { free(block); }

const char *onnxmem_version(void) { return ONNXMEM_VERSION; }
