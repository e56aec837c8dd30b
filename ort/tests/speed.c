// The time that a block takes, from its allocation to its free, while many are live.
//
//	cc -std=c11 -O2 -pthread ort/src/*.c ort/tests/speed.c -ldl -o speed && ./speed 1000
//
// It prints nanoseconds per block: of a run that records, of one that replays, and of
// one that replays but misses every second block.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../src/session.h"

#define ROUNDS 200000

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// run holds live blocks, and replaces one after another in an order far from theirs.
static double run(onnxmem_session *s, int live, size_t other) {
	void **blocks = malloc((size_t)live * sizeof *blocks);
	onnxmem_run_begin(s, 1);
	for (int i = 0; i < live; i++)
		blocks[i] = memory_alloc(64);
	double began = now();
	for (int i = 0; i < ROUNDS; i++) {
		int at = (int)((long)i * 7919 % live);
		memory_free(blocks[at]);
		blocks[at] = memory_alloc(i % 2 ? 64 : other);
	}
	double took = now() - began;
	for (int i = 0; i < live; i++)
		memory_free(blocks[i]);
	onnxmem_run_end(other == 64);
	free(blocks);
	return took / ROUNDS;
}

int main(int argc, char **argv) {
	int live = argc > 1 ? atoi(argv[1]) : 1000;
	onnxmem_session *s = onnxmem_session_new(1, 0);
	double record = run(s, live, 64), replay = run(s, live, 64), miss = run(s, live, 128);
	printf("%.0f %.0f %.0f\n", record, replay, miss);
	onnxmem_session_close(s);
	return 0;
}
