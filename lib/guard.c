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

#define BEGIN \
	int status; \
	if (forked) \
		return fails(ONNXMEM_FORKED, error, error_bytes, "the process is a fork of the one that loaded libonnxmem: expected exec after fork")
#define TAKE(type, name) \
	type name##_; \
	if ((status = take(&name##_, sizeof name##_, name, #name, error, error_bytes)) != ONNXMEM_OK) \
		return status
#define OPTIONS \
	const onnxmem_options none = {sizeof none, 0, 0, 0, NULL}; \
	if (options == NULL) \
		options = &none; \
	TAKE(onnxmem_options, options)
#define OTHER(name) ((void *)(uintptr_t)(name)) /* Go has no const */

int onnxmem_pack(const onnxmem_buffers *buffers, const onnxmem_options *options, int64_t *offsets,
	onnxmem_packed *packed, int32_t *pools, uint8_t *infeasible, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_buffers, buffers);
	OPTIONS;
	return goPack(&buffers_, &options_, offsets, packed, pools, infeasible, error, error_bytes);
}

int onnxmem_verify_pack(const onnxmem_buffers *buffers, const int64_t *offsets, const int32_t *pools,
	onnxmem_packed *packed, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_buffers, buffers);
	return goVerifyPack(&buffers_, OTHER(offsets), OTHER(pools), packed, error, error_bytes);
}

int onnxmem_order(const onnxmem_graph *graph, const onnxmem_options *options, int32_t *order,
	onnxmem_ordered *ordered, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_graph, graph);
	OPTIONS;
	return goOrder(&graph_, &options_, order, ordered, error, error_bytes);
}

int onnxmem_verify_order(const onnxmem_graph *graph, const onnxmem_options *options, const int32_t *order,
	const onnxmem_certificate *certificates, size_t certificate_count, onnxmem_ordered *ordered, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_graph, graph);
	OPTIONS;
	return goVerifyOrder(&graph_, &options_, OTHER(order), OTHER(certificates), certificate_count, ordered, error, error_bytes);
}

int onnxmem_lifetimes(const onnxmem_graph *graph, const int32_t *order, int32_t *buffer, size_t *count,
	int64_t *lower, int64_t *upper, int64_t *size, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_graph, graph);
	return goLifetimes(&graph_, OTHER(order), buffer, count, lower, upper, size, error, error_bytes);
}

int onnxmem_limit(const onnxmem_graph *graph, const onnxmem_goal *goal, const onnxmem_options *options,
	onnxmem_limited *limited, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_graph, graph);
	TAKE(onnxmem_goal, goal);
	OPTIONS;
	return goLimit(&graph_, &goal_, &options_, limited, error, error_bytes);
}

int onnxmem_verify_limit(const onnxmem_graph *graph, const onnxmem_options *options, const int32_t *steps, size_t step_count,
	const int32_t *swapped, size_t swap_count, int64_t *peak, int64_t *bound, char *error, size_t error_bytes) {
	BEGIN;
	TAKE(onnxmem_graph, graph);
	OPTIONS;
	return goVerifyLimit(&graph_, &options_, OTHER(steps), step_count, OTHER(swapped), swap_count, peak, bound, error, error_bytes);
}

void onnxmem_free(void *block) { free(block); }

const char *onnxmem_version(void) { return ONNXMEM_VERSION; }
