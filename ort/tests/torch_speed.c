// The time that a block of PyTorch takes, from its allocation to its free, while many are
// live; without a GPU, as torch_test.c.
//
//	cc -std=c11 -O2 -pthread -rdynamic ort/src/*.c ort/tests/torch_speed.c -ldl -o torch_speed && ./torch_speed 1000
//
// It prints nanoseconds per block: of an iteration that records, with a driver that takes
// no time, and of one that replays.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../src/onnxmem_torch.h"

#define ROUNDS 20000
#define ENTRY __attribute__((visibility("default")))

static _Thread_local void *context;
static int device;

ENTRY int cuInit(unsigned flags) { return (int)flags; }
ENTRY int cuDeviceGetCount(int *n) { return *n = 1, 0; }
ENTRY int cuDeviceGet(int *d, int i) { return *d = i, 0; }
ENTRY int cuDevicePrimaryCtxRetain(void **c, int d) { return (void)d, *c = &device, 0; }
ENTRY int cuCtxGetCurrent(void **c) { return *c = context, 0; }
ENTRY int cuCtxSetCurrent(void *c) { return context = c, 0; }
ENTRY int cuMemAlloc_v2(uint64_t *p, size_t n) { return *p = (uint64_t)(uintptr_t)aligned_alloc(512, (n + 511) / 512 * 512), !*p; }
ENTRY int cuMemFree_v2(uint64_t p) { return free((void *)(uintptr_t)p), 0; }
ENTRY int cuEventCreate(void **e, unsigned flags) { return (void)e, (void)flags, 1; }
ENTRY int cuEventRecord(void *e, void *s) { return (void)e, (void)s, 1; }
ENTRY int cuStreamWaitEvent(void *s, void *e, unsigned flags) { return (void)s, (void)e, (void)flags, 1; }
ENTRY int cuEventDestroy_v2(void *e) { return (void)e, 1; }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int at(int i, int live) { return (int)((long)i * 7919 % live); }

// iteration holds live blocks, and replaces one after another in an order far from theirs.
static double iteration(void **blocks, int live) {
	onnxmem_torch_mark(0);
	for (int i = 0; i < live; i++)
		blocks[i] = onnxmem_torch_malloc(512, 0, NULL);
	double began = now();
	for (int i = 0; i < ROUNDS; i++) {
		void **b = &blocks[at(i, live)];
		onnxmem_torch_free(*b, 512, 0, NULL);
		*b = onnxmem_torch_malloc(512, 0, NULL);
	}
	double took = now() - began;
	for (int i = 0; i < live; i++)
		onnxmem_torch_free(blocks[i], 512, 0, NULL);
	return took / ROUNDS;
}

int main(int argc, char **argv) {
	int live = argc > 1 ? atoi(argv[1]) : 1000;
	char error[200];
	void **blocks = malloc((size_t)live * sizeof *blocks);
	char *table = malloc(64 * (size_t)(live + ROUNDS) + 200), *end = table;
	if (!blocks || !table || !onnxmem_torch_open("", error, sizeof error))
		return 1;
	double record = iteration(blocks, live);
	end += sprintf(end, "onnxmem/replay 1\nalignment 512\narena %d\nlower_bound 1\nevents 0\n", live * 512);
	for (int i = 0; i < live + ROUNDS; i++)
		end += sprintf(end, "alloc %d 512 %d 0\n", i, 512 * (i < live ? i : at(i - live, live)));
	if (!onnxmem_torch_take(0, 0, table, 1, error, sizeof error))
		return 1;
	double replay = iteration(blocks, live);
	struct onnxmem_torch_memory m;
	int d;
	uint64_t stream;
	onnxmem_torch_stream(0, &d, &stream, &m);
	printf("%.0f %.0f\n", record, replay);
	free(blocks);
	free(table);
	return m.misses > 0;
}
