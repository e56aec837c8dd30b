// Tests of the core without ONNX Runtime: each calls the allocator as ONNX Runtime does.
//
//	cc -std=c11 -pthread -Iort/src ort/src/[!l]*.c ort/tests/core_test.c -ldl -o core_test
//	(cd ort; ../core_test [SECONDS])
//
// It prints the test that fails and ends with status 1. The last test draws random runs
// on several threads, for SECONDS (1).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../src/plan.h"
#include "../src/ranges.h"
#include "../src/session.h"
#include "check.h"
#include "replay.h"

static struct onnxmem_memory memory(onnxmem_session *s) {
	struct onnxmem_memory m;
	onnxmem_memory_of(s, &m);
	return m;
}

// chain runs a chain of n nodes, each of whose results has so many bytes, and returns
// the last result if it is kept. Each block is filled, and checked before it is freed.
static unsigned char *chain(onnxmem_session *s, uint64_t key, const size_t *sizes, int n, int keep, int completed, uint64_t *plan) {
	unsigned char *before = NULL;
	onnxmem_run_begin(s, key);
	for (int i = 0; i < n; i++) {
		unsigned char *b = memory_alloc(sizes[i]);
		CHECK(b && (uintptr_t)b % ALIGNMENT == 0);
		memset(b, i + 1, sizes[i]);
		if (before) {
			CHECK(before[0] == i && before[sizes[i - 1] - 1] == i);
			memory_free(before);
		}
		before = b;
	}
	if (!keep) {
		memory_free(before);
		before = NULL;
	}
	uint64_t made = onnxmem_run_end(completed);
	if (plan)
		*plan = made;
	return before;
}

static const size_t sizes[] = {1000, 300000, 64, 500000, 1};
#define N 5

static void ranges_match_a_plain_array(void) {
	enum { SPACE = 300 };
	struct ranges set;
	unsigned char owner[SPACE] = {0}; // number of the range at each byte, 0: none
	ranges_init(&set);
	uint32_t state = 7, count = 0;
	for (int step = 0; step < 20000; step++) {
		uint32_t start = draw(&state) % SPACE, end = start + 1 + draw(&state) % 30;
		if (end > SPACE)
			end = SPACE;
		struct range *r = ranges_at(&set, start);
		CHECK((r != NULL) == (owner[start] && (start == 0 || owner[start - 1] != owner[start])));
		if (r) {
			memset(owner + r->start, 0, r->end - r->start);
			ranges_remove(&set, r);
			count--;
			continue;
		}
		int empty = 1;
		for (uint32_t i = start; i < end; i++)
			empty &= !owner[i];
		r = ranges_add(&set, start, end);
		CHECK((r != NULL) == empty);
		if (r) {
			unsigned char number = (unsigned char)(1 + step % 255);
			while ((start && owner[start - 1] == number) || (end < SPACE && owner[end] == number))
				number = (unsigned char)(1 + number % 255);
			memset(owner + start, number, end - start);
			count++;
		}
		CHECK(set.count == count);
		uint64_t size = 1 + draw(&state) % 40, best = UINT64_MAX, room = UINT64_MAX;
		for (uint32_t i = 0, begin = 0; i <= SPACE; i++) {
			if (i < SPACE && !owner[i])
				continue;
			if (i - begin >= size && i - begin < room) {
				best = begin;
				room = i - begin;
			}
			begin = i + 1;
		}
		CHECK(ranges_gap(&set, size, SPACE, UINT32_MAX) == best);
	}
	ranges_free(&set);
}

static void second_run_replays(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	uint64_t plan;
	chain(s, 1, sizes, N, 0, 1, &plan);
	CHECK(plan && memory(s).recorded == N && memory(s).hits == 0);
	CHECK(memory(s).live_peak_bytes == 500032 + 64);
	chain(s, 1, sizes, N, 0, 1, &plan);
	CHECK(!plan && memory(s).hits == N && memory(s).misses == 0);
	CHECK(memory(s).arena_bytes >= memory(s).lower_bound_bytes && memory(s).arena_bytes == memory(s).plan_bytes);
	onnxmem_session_close(s);
}

static void packed_places_are_taken_when_no_run_is_in_flight(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	uint64_t plan;
	chain(s, 1, sizes, N, 0, 1, &plan);
	uint64_t offsets[N] = {0, 1024, 0, 64, 0};
	CHECK(!onnxmem_place(s, plan, offsets, N, 300000, 1)); // above the arena
	offsets[1] = 1000;
	CHECK(!onnxmem_place(s, plan, offsets, N, 600000, 1)); // not aligned
	CHECK(!onnxmem_place(s, plan + 100, offsets, N, 600000, 1));
	offsets[1] = 500096; // a run in flight has 1024 or the like there
	onnxmem_run_begin(s, 1);
	CHECK(onnxmem_place(s, plan, offsets, N, 1000000, 500096));
	CHECK(memory(s).plan_bytes < 1000000);
	void *b = memory_alloc(sizes[0]);
	memory_free(b);
	onnxmem_run_end(0);
	CHECK(memory(s).packed_plans == 1 && memory(s).plan_bytes == 1000000 && memory(s).hits == 1);
	chain(s, 1, sizes, N, 0, 1, NULL);
	CHECK(memory(s).hits == 1 + N && memory(s).misses == 0 && memory(s).arena_bytes == 1000000);
	onnxmem_session_close(s);
}

static void a_wrong_plan_gives_nothing_out_twice(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	uint64_t plan;
	chain(s, 1, sizes, N, 0, 1, &plan);
	const uint64_t all_at_once[N] = {0};
	CHECK(onnxmem_place(s, plan, all_at_once, N, 500032, 1));
	chain(s, 1, sizes, N, 0, 1, NULL); // checks the bytes
	CHECK(memory(s).hits == 3 && memory(s).misses == 2 && memory(s).fallback_bytes == 500000);
	onnxmem_session_close(s);
}

static void outputs_lie_outside_unless_the_caller_releases_them(void) {
	for (int inside = 0; inside < 2; inside++) {
		onnxmem_session *s = onnxmem_session_new(4, inside);
		unsigned char *kept[3];
		for (int i = 0; i < 3; i++)
			kept[i] = chain(s, 1, sizes, N - 1, 1, 1, NULL);
		CHECK(memory(s).output_bytes == 500000);
		CHECK((memory(s).misses > 0) == inside);
		for (int i = 0; i < 3; i++) {
			for (size_t j = 0; j < sizes[N - 2]; j++)
				CHECK(kept[i][j] == N - 1);
			memory_free(kept[i]);
		}
		struct onnxmem_memory before = memory(s);
		memory_free(chain(s, 1, sizes, N - 1, 1, 1, NULL));
		CHECK(memory(s).misses == before.misses);
		CHECK(memory(s).hits - before.hits == (uint64_t)(N - 2 + inside));
		onnxmem_session_close(s);
	}
}

// Results that the caller keeps take places in the arena; a run without the arena has
// none. Neither is a change of the stream.
static void misses_of_the_same_stream_make_no_plan(void) {
	onnxmem_session *s = onnxmem_session_new(4, 1);
	unsigned char *kept[6];
	uint64_t plan;
	for (int i = 0; i < 6; i++) {
		kept[i] = chain(s, 1, sizes, N - 1, 1, 1, &plan);
		CHECK((plan != 0) == (i == 0));
	}
	CHECK(memory(s).misses > 0);
	for (int i = 0; i < 6; i++)
		memory_free(kept[i]);
	onnxmem_run_begin(s, 1);
	for (int i = 0; i < 6; i++) {
		memory_free(chain(s, 1, sizes, N - 1, 1, 1, &plan));
		CHECK(!plan);
	}
	onnxmem_run_end(0);
	onnxmem_session_close(s);
}

static void blocks_outlive_their_session(void) {
	for (int inside = 0; inside < 2; inside++) {
		onnxmem_session *s = onnxmem_session_new(4, inside);
		memory_free(chain(s, 1, sizes, N - 1, 1, 1, NULL));
		unsigned char *kept = chain(s, 1, sizes, N - 1, 1, 1, NULL);
		onnxmem_making(s);
		void *weight = memory_reserve(100);
		onnxmem_making(NULL);
		CHECK(memory(s).weights_bytes == 100);
		onnxmem_session_close(s);
		CHECK(kept[0] == N - 1 && kept[sizes[N - 2] - 1] == N - 1);
		memory_free(kept);
		memory_free(weight);
	}
}

static void other_shapes_have_plans_of_their_own(void) {
	onnxmem_session *s = onnxmem_session_new(2, 0);
	for (uint64_t key = 1; key <= 3; key++) {
		size_t scaled[N];
		for (int i = 0; i < N; i++)
			scaled[i] = sizes[i] * key;
		chain(s, key, scaled, N, 0, 1, NULL);
		chain(s, key, scaled, N, 0, 1, NULL);
		CHECK(memory(s).hits == key * N && memory(s).misses == 0);
	}
	CHECK(memory(s).plans == 2);
	uint64_t arena = memory(s).arena_bytes;
	chain(s, 1, sizes, N, 0, 1, NULL); // its plan has gone
	CHECK(memory(s).recorded == 3 * N && memory(s).covered == 1 && memory(s).arena_bytes == arena);
	onnxmem_session_close(s);
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif

// resident_pages returns -1 where it says nothing: sanitizers have memory of their own.
static long resident_pages(void) {
	long size, pages = -1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return -1;
#endif
	FILE *f = fopen("/proc/self/statm", "r");
	if (f) {
		if (fscanf(f, "%ld %ld", &size, &pages) != 2)
			pages = -1;
		fclose(f);
	}
	return pages;
}

#define MIB (1 << 20)

// mib returns by how many MiB the process has become smaller since before.
static long mib(long before) { return (before - resident_pages()) * sysconf(_SC_PAGESIZE) / MIB; }

// A run without a plan has the pages of the runs before it, and leaves none that the plans
// do not need.
static void runs_share_pages(void) {
	const size_t first[] = {16 * MIB, 8 * MIB, 100}, other[] = {9 * MIB, 15 * MIB, 7777, 3};
	onnxmem_session *s = onnxmem_session_new(4, 0);
	chain(s, 1, first, 3, 0, 1, NULL);
	long before = resident_pages();
	for (uint64_t key = 1; key < 3; key++) {
		chain(s, key, other, 4, 0, key > 1, NULL); // with key 1, it deviates
		chain(s, 1, first, 3, 0, 1, NULL);
	}
	CHECK(before < 0 || labs(mib(before)) < 4);
	CHECK(memory(s).arena_bytes >= 24 * MIB && memory(s).arena_bytes < 25 * MIB);
	onnxmem_session_close(s);
}

// Results of a run without a plan lie in the arena. It goes, but for what they take; where
// a plan tells which blocks are results, they lie outside.
static void results_of_runs_without_a_plan(void) {
	const size_t large[] = {16 * MIB, 16 * MIB, MIB}, larger[] = {17 * MIB, 17 * MIB, 2 * MIB};
	long before = resident_pages();
	onnxmem_session *s = onnxmem_session_new(4, 0);
	unsigned char *first = chain(s, 1, large, 3, 1, 1, NULL);
	CHECK(memory(s).held_bytes == 32 * MIB);
	unsigned char *second = chain(s, 2, larger, 3, 1, 1, NULL);
	CHECK(memory(s).recorded == 3 + 2 && memory(s).held_bytes >= 34 * MIB && memory(s).held_bytes < 35 * MIB);
	onnxmem_give_back(s);
	CHECK(memory(s).held_bytes == 0 && memory(s).given_back == 1);
	CHECK(before < 0 || labs(mib(before)) < 5);
	for (int i = 0; i < MIB; i++)
		CHECK(first[i] == 3 && second[i] == 3 && second[MIB + i] == 3);
	memory_free(first);
	memory_free(second);
	onnxmem_session_close(s);
}

// What a model's loading has freed between blocks that stay goes back to the system.
static void freed_memory_of_a_load_is_given_back(void) {
	enum { BLOCKS = 1024, SIZE = 64 << 10 }; // from malloc's heap, below the size that it maps
	static unsigned char *blocks[BLOCKS];
	onnxmem_session *s = onnxmem_session_new(4, 0);
	onnxmem_making(s);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		memset(blocks[i], 1, SIZE);
	}
	for (int i = 0; i < BLOCKS - 1; i++) // the last one holds the heap's end
		free(blocks[i]);
	long before = resident_pages();
	onnxmem_making(NULL);
#ifdef __GLIBC__
	CHECK(before < 0 || mib(before) > 48);
#else
	(void)before;
#endif
	CHECK(blocks[BLOCKS - 1][SIZE - 1] == 1);
	free(blocks[BLOCKS - 1]);
	onnxmem_session_close(s);
}

static void memory_is_given_back(void) {
	const size_t large[] = {16 * MIB, 16 * MIB, 16 * MIB};
	for (int inside = 0; inside < 2; inside++) {
		onnxmem_session *s = onnxmem_session_new(4, inside);
		onnxmem_give_back(s); // there is none
		chain(s, 1, large, 3, 0, 1, NULL);
		unsigned char *result = chain(s, 1, large, 3, inside, 1, NULL);
		long before = resident_pages();
		onnxmem_run_begin(s, 1);
		onnxmem_give_back(s); // a run uses it
		onnxmem_run_end(0);
		CHECK(before < 0 || mib(before) < 2);
		onnxmem_give_back(s);
		CHECK(before < 0 || mib(before) > (inside ? 14 : 30));
		CHECK(!inside || (result[0] == 3 && result[16 * MIB - 1] == 3));
		memory_free(result);
		chain(s, 1, large, 3, 0, 1, NULL);
		CHECK(memory(s).misses == 0 && memory(s).given_back == 1);
		onnxmem_session_close(s);
	}
}

// Shapes that are all different: one plan serves those that are not larger, and the
// sizes of others are joined with its own.
static void smaller_shapes_have_the_plan_of_larger_ones(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	const size_t wide[N] = {100000, 300000, 64, 500000, 9000}, high[N] = {200000, 100000, 64, 600000, 9000}, none[N] = {190000, 290000, 1, 590000, 8000};
	uint64_t plan;
	memory_free(chain(s, 1, wide, N, 1, 1, NULL));
	memory_free(chain(s, 2, high, N, 1, 1, &plan));
	CHECK(plan && memory(s).merged == 1 && memory(s).covered == 0);
	struct onnxmem_memory before = memory(s);
	memory_free(chain(s, 3, none, N, 1, 1, &plan));
	memory_free(chain(s, 2, high, N, 1, 1, NULL));
	CHECK(!plan && memory(s).recorded == before.recorded && memory(s).misses == 0 && memory(s).covered == 2);
	CHECK(memory(s).hits == before.hits + 2 * (N - 1));
	// One that is far smaller has its own plan when it has come twice.
	chain(s, 4, sizes, 2, 0, 1, NULL);
	for (int i = 0; i < 3; i++) {
		size_t tenth[N];
		for (int j = 0; j < N; j++)
			tenth[j] = none[j] / 10 + 1;
		memory_free(chain(s, 5, tenth, N, 1, 1, &plan));
		CHECK((plan != 0) == (i == 1));
	}
	CHECK(memory(s).misses == 0 && memory(s).live_peak_bytes < 100000);
	onnxmem_session_close(s);
}

// Runs that need little have no arena, and leave none behind; larger ones of the same session do.
static void small_runs_are_left_alone(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	onnxmem_session_small(s, 4 * MIB);
	const size_t large[] = {3 * MIB, 2 * MIB, 5 * MIB};
	for (int i = 0; i < 3; i++)
		memory_free(chain(s, 1, sizes, N, 1, 1, NULL));
	struct onnxmem_memory m = memory(s);
	CHECK(m.left_alone == 2 && m.recorded == N && m.hits == 0 && m.misses == 0 && m.held_bytes == 0 && m.plans == 1);
	chain(s, 2, large, 3, 0, 1, NULL);
	CHECK(memory(s).held_bytes >= 7 * MIB); // the first block is below the limit
	chain(s, 2, large, 3, 0, 1, NULL);
	chain(s, 1, sizes, N, 0, 1, NULL);
	m = memory(s);
	CHECK(m.left_alone == 2 && m.hits == 3 + N - 1 && m.misses == 0 && m.arena_bytes > 5 * MIB);
	onnxmem_session_close(s);
}

// However many shapes come in turn, plans end.
static void plans_are_not_made_for_ever(void) {
	for (int grows = 0; grows < 2; grows++) {
		onnxmem_session *s = onnxmem_session_new(4, 0);
		uint64_t made = 0, recorded = 0, late = 0;
		for (uint64_t i = 0; i < 2000; i++) {
			uint64_t n = grows ? i : i * 7919 % 2000, plan;
			size_t shape[N] = {5000 + 64 * n, 5000 + 4096 * n, 64, 8192 + 640 * n, 1};
			uint64_t before = memory(s).recorded;
			chain(s, 1 + n, shape, N, 0, 1, &plan);
			made += plan != 0;
			recorded += memory(s).recorded > before;
			late += i >= 1000 && plan;
		}
		CHECK(made <= 32 + 6 && late <= 1 && memory(s).plans <= 4);
		CHECK(grows || recorded < 20);
		CHECK(memory(s).misses == 0);
		onnxmem_session_close(s);
	}
}

static void without_a_key_sizes_choose_the_plan(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	const size_t other[N] = {1000, 300000, 128, 70000, 1};
	chain(s, 0, sizes, N, 0, 1, NULL);
	chain(s, 0, other, N, 0, 1, NULL);
	CHECK(memory(s).plans == 2);
	struct onnxmem_memory before = memory(s);
	for (int i = 0; i < 4; i++) {
		chain(s, 0, i % 2 ? other : sizes, N, 0, 1, NULL);
		CHECK(memory(s).plans == 2);
	}
	CHECK(memory(s).hits - before.hits >= 4 * (N - 1));
	onnxmem_session_close(s);
}

static void deviations_fall_back_and_lasting_ones_make_a_plan(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	const size_t branch[N + 1] = {1000, 300000, 7777, 64, 500000, 1};
	uint64_t plan;
	chain(s, 1, sizes, N, 0, 1, NULL);
	for (int i = 0; i < 2; i++) {
		struct onnxmem_memory before = memory(s);
		chain(s, 1, branch, N + 1, 0, 1, &plan);
		CHECK(memory(s).misses - before.misses >= 1 && memory(s).hits - before.hits >= 3);
		CHECK((plan != 0) == (i == 1));
	}
	uint64_t misses = memory(s).misses;
	chain(s, 1, branch, N + 1, 0, 1, NULL);
	CHECK(memory(s).misses == misses && memory(s).plans == 2);
	onnxmem_session_close(s);
}

// A loop that data end: the runs of one key come with 1 to 4 iterations, in any order. Each
// count that has come twice has its plan, into which a run changes where it leaves
// another.
static void streams_of_one_key_have_plans(void) {
	enum { ITERATIONS = 4, ROUNDS = 60 };
	onnxmem_session *s = onnxmem_session_new(2 * ITERATIONS, 0);
	uint32_t random = 1;
	uint64_t late = 0;
	for (int round = 0; round < ROUNDS; round++) {
		size_t loop[3 * ITERATIONS + 2] = {1000};
		random = random * 1664525 + 1013904223;
		int n = 1, iterations = 1 + (int)(random >> 16) % ITERATIONS;
		for (int i = 0; i < iterations; i++) {
			loop[n++] = 4096;
			loop[n++] = 70000;
			loop[n++] = 512;
		}
		loop[n++] = 300000;
		uint64_t misses = memory(s).misses;
		chain(s, 1, loop, n, 0, 1, NULL);
		if (round < ROUNDS / 2)
			continue;
		// The place of the block at which a run changes may be taken.
		CHECK(memory(s).misses - misses <= 1);
		late += memory(s).misses - misses;
	}
	CHECK(memory(s).plans == ITERATIONS);
	CHECK(late < ROUNDS / 4);
	onnxmem_session_close(s);
}

static void a_run_that_fails_makes_no_plan(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	uint64_t plan;
	chain(s, 1, sizes, 2, 0, 0, &plan);
	CHECK(!plan && memory(s).plans == 0);
	chain(s, 1, sizes, N, 0, 1, NULL);
	for (int i = 0; i < 5; i++)
		chain(s, 1, sizes, 2, 0, 0, NULL);
	chain(s, 1, sizes, N, 0, 1, &plan);
	CHECK(!plan && memory(s).misses == 0);
	onnxmem_session_close(s);
}

static void swapped_allocations_are_found(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0);
	for (int i = 0; i < 2; i++) {
		onnxmem_run_begin(s, 1);
		void *a = memory_alloc(i ? 200 : 100), *b = memory_alloc(i ? 100 : 200);
		CHECK((uintptr_t)a != (uintptr_t)b);
		memory_free(a);
		memory_free(b);
		onnxmem_run_end(1);
	}
	CHECK(memory(s).hits == 2 && memory(s).misses == 0);
	onnxmem_session_close(s);
}

static void runs_in_flight_at_once(void) {
	onnxmem_session *s = onnxmem_session_new(4, 0), *other = onnxmem_session_new(4, 0);
	chain(s, 1, sizes, N, 0, 1, NULL);
	onnxmem_run_begin(s, 1); // of the same thread, as by an operator that runs a model
	unsigned char *b = memory_alloc(sizes[0]);
	memset(b, 99, sizes[0]);
	chain(other, 1, sizes, N, 0, 1, NULL);
	chain(other, 1, sizes, N, 0, 1, NULL);
	CHECK(memory(other).hits == N);
	chain(s, 1, sizes, N, 0, 1, NULL); // the arena is taken
	CHECK(memory(s).hits == 1 && memory(s).misses == N);
	CHECK(b[0] == 99 && b[sizes[0] - 1] == 99);
	memory_free(b);
	onnxmem_run_end(1);
	onnxmem_session_close(other);
	onnxmem_session_close(s);
}

static void tables_are_read(void) {
	char error[100];
	onnxmem_session *s = onnxmem_session_new(4, 0);
	const char *good = "onnxmem/replay 1\nalignment 64\narena 2048\nlower_bound 1088\nevents 4\n"
					   "alloc 7 1000 1024 0\nalloc 9 64 0 0\nfree 7\nfree 9\n";
	CHECK(onnxmem_load(s, 1, good, error, sizeof error));
	const size_t of_table[] = {1000, 64};
	chain(s, 1, of_table, 2, 0, 1, NULL);
	CHECK(memory(s).hits == 2 && memory(s).arena_bytes == 2048 && memory(s).lower_bound_bytes == 1088);
#define OVER "expected to lie over a live block of the same size and place, and over it alone"
	const char *bad[][2] = {
		{"", "line 1: expected onnxmem/replay 1 or 2"},
		{"onnxmem/replay 3\n", "line 1: expected onnxmem/replay 1 or 2"},
		{"onnxmem/replay 2 1\n", "line 1: expected onnxmem/replay 1 or 2"},
		{"onnxmem/replay 1\nscratch 1\n", "line 2: expected alloc, free, alignment, arena, lower_bound or events"},
		{"onnxmem/replay 1\narena 64\nalloc 1 64 0 0 0\n", "line 3: expected the end of the line"},
		{"onnxmem/replay 2\nscratch x\n", "line 2: expected a number of bytes"},
		{"onnxmem/replay 2\narena 640\nalloc 1 64 0 0\n", "line 3: expected the number of the next block"},
		{"onnxmem/replay 2\nfree 0\n", "line 2: expected a block that is live"},
		{"onnxmem/replay 2\narena 640\nalloc 0 64 0 0\nfree 0\nfree 0\n", "line 5: expected a block that is live"},
		{"onnxmem/replay 2\narena 640\nalloc 0 64 0 0 0\n", "line 3: " OVER},
		{"onnxmem/replay 2\narena 640\nalloc 0 64 0 0\nalloc 1 60 0 0 0\n", "line 4: " OVER},
		{"onnxmem/replay 2\narena 640\nalloc 0 64 0 0\nalloc 1 64 64 0 0\n", "line 4: " OVER},
		{"onnxmem/replay 2\narena 640\nalloc 0 64 0 0\nfree 0\nalloc 1 64 0 0 0\n", "line 5: " OVER},
		{"onnxmem/replay 2\narena 640\nalloc 0 64 0 0\nalloc 1 64 0 0 0\nalloc 2 64 0 0 0\n", "line 5: " OVER},
		{"onnxmem/replay 1\narena 64\nalloc 1 65 0 0\n", "line 3: the block ends above the arena"},
		{"onnxmem/replay 1\narena 640\nalloc 1 65 1 0\n", "line 3: the offset is no multiple of 64"},
		{"onnxmem/replay 1\narena 18446744073709551615\n", "line 2: expected a number of bytes"},
		{"onnxmem/replay 1\narena 99999999999999999999999\n", "line 2: expected a number of bytes"},
		{"onnxmem/replay 1\nalloc 1 2 3\n", "line 2: expected alloc ID SIZE OFFSET STREAM"},
		{"onnxmem/replay 1\nallocate 1\n", "line 2: expected alloc, free, alignment, arena, lower_bound or events"},
		{"onnxmem/replay 1\nfree 1 x\n", "line 2: expected the end of the line"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(!onnxmem_load(s, 1, bad[i][0], error, sizeof error));
		if (strcmp(error, bad[i][1]))
			fprintf(stderr, "got %s, expected %s\n", error, bad[i][1]);
		CHECK(!strcmp(error, bad[i][1]));
	}
	onnxmem_session_close(s);
}

// A planned model: 0 is read for the last time by the node that makes 2, over it; 1 is
// that node's scratch, 4 the result.
static const char planned[] = "onnxmem/replay 2\nalignment 64\narena 4096\nlower_bound 3072\nscratch 512\nevents 9\n"
							  "alloc 0 1000 0 0\nalloc 1 500 1024 0\nfree 1\nalloc 2 1000 0 0 0\nfree 0\n"
							  "alloc 3 2000 1024 0\nfree 2\nalloc 4 1000 3072 0\nfree 3\n";

// planned_run does what the table says, but for an extra block before event number
// extra. It returns the result.
static size_t extra_size = 777;

static unsigned char *planned_run(onnxmem_session *s, uint64_t key, int extra, int lies_over) {
	void *more = NULL;
	onnxmem_run_begin(s, key);
	if (extra == 0)
		more = memory_alloc(extra_size);
	unsigned char *a = memory_alloc(1000);
	memset(a, 1, 1000);
	if (extra == 1)
		more = memory_alloc(extra_size);
	unsigned char *scratch = memory_alloc(500);
	memset(scratch, 9, 500);
	memory_free(scratch);
	CHECK(a[0] == 1 && a[999] == 1);
	unsigned char *b = memory_alloc(1000);
	CHECK((a == b) == lies_over);
	for (int i = 0; i < 1000; i++)
		b[i] = (unsigned char)(a[i] + 1);
	memory_free(a);
	unsigned char *c = memory_alloc(2000);
	memset(c, 7, 2000);
	CHECK(b[0] == 2 && b[999] == 2);
	memory_free(b);
	unsigned char *result = memory_alloc(1000);
	memset(result, 5, 1000);
	CHECK(c[0] == 7 && c[1999] == 7);
	memory_free(c);
	memory_free(more);
	onnxmem_run_end(1);
	return result;
}

static void results_lie_over_operands(void) {
	char error[100];
	for (int inside = 0; inside < 2; inside++) {
		onnxmem_session *s = onnxmem_session_new(4, inside);
		CHECK(onnxmem_load(s, 1, planned, error, sizeof error));
		memory_free(planned_run(s, 1, -1, 1));
		unsigned char *kept = planned_run(s, 1, -1, 1);
		struct onnxmem_memory m = memory(s);
		CHECK(m.hits == (uint64_t)(inside ? 10 : 8) && m.misses == 0 && m.recorded == 0 && m.enforced == 1);
		CHECK(m.arena_bytes == 4096 && m.output_bytes == 1000 && m.scratch_bytes == 512);
		CHECK(m.live_peak_bytes == 3072 && m.lower_bound_bytes == 3072);
		CHECK(kept[0] == 5 && kept[999] == 5);
		memory_free(kept);
		memory_free(planned_run(s, 0, -1, 1)); // found by the sizes
		CHECK(memory(s).misses == 0);
		onnxmem_session_close(s);
	}
}

// After any other event, nothing lies over what lives.
static void a_run_that_leaves_its_plan_writes_over_nothing(void) {
	char error[100];
	for (int extra = 0; extra < 2; extra++) {
		onnxmem_session *s = onnxmem_session_new(4, 0);
		CHECK(onnxmem_load(s, 1, planned, error, sizeof error));
		memory_free(planned_run(s, 1, extra, 0));
		CHECK(memory(s).misses == 2 && memory(s).hits == 3);
		memory_free(planned_run(s, 1, -1, 1));
		CHECK(memory(s).misses == 2 && memory(s).hits == 7);
		for (int i = 0; i < 3; i++) // a change that lasts
			memory_free(planned_run(s, 1, extra, 0));
		memory_free(planned_run(s, 1, extra, 0));
		CHECK(memory(s).enforced == 0);
		onnxmem_session_close(s);
	}
}

// A number or a shape that the plan does not have, or that the run does not, changes nothing
// for the other blocks.
static void tiny_blocks_leave_the_plan_as_it_is(void) {
	char error[100], table[sizeof planned + 100];
	snprintf(table, sizeof table, "onnxmem/replay 2\narena 4096\nalloc 0 1000 0 0\nalloc 1 8 2048 0\nfree 1\nalloc 2 500 1024 0\nfree 2\n"
		"alloc 3 1000 0 0 0\nfree 0\nalloc 4 2000 1024 0\nfree 3\nalloc 5 1000 3072 0\nfree 4\n");
	extra_size = 8;
	for (int extra = 0; extra < 2; extra++) {
		onnxmem_session *s = onnxmem_session_new(4, 0);
		CHECK(onnxmem_load(s, 1, planned, error, sizeof error) && onnxmem_load(s, 2, table, error, sizeof error));
		for (int i = 0; i < 4; i++) {
			memory_free(planned_run(s, 1, extra, 1));
			memory_free(planned_run(s, 1, -1, 1));
			memory_free(planned_run(s, 2, -1, 1));
		}
		CHECK(memory(s).unplanned == 4 && memory(s).misses == 0 && memory(s).hits == 4 * 12 && memory(s).plans == 2 && memory(s).enforced == 1);
		onnxmem_session_close(s);
	}
	extra_size = 777;
}

static void odd_sizes(void) {
	onnxmem_session *s = onnxmem_session_new(1, 0);
	onnxmem_run_begin(s, 1);
	CHECK(!memory_alloc(0) && !memory_alloc(SIZE_MAX) && !memory_alloc(SIZE_MAX / 2));
	memory_free(NULL);
	CHECK(!onnxmem_run_end(1));
	CHECK(!onnxmem_run_end(1)); // one too many
	onnxmem_session_close(s);
}

static void *wait_in_a_run(void *argument) {
	void **a = argument; // session, block, two barriers
	onnxmem_run_begin(a[0], 1);
	a[1] = memory_alloc(sizes[0]);
	memset(a[1], 5, sizes[0]);
	pthread_barrier_wait(a[2]);
	pthread_barrier_wait(a[3]);
	CHECK(((unsigned char *)a[1])[0] == 5);
	memory_free(a[1]);
	onnxmem_run_end(1);
	return NULL;
}

// A child of fork has the arena's bytes, and runs of its own, although a thread of the
// parent was in a run.
static void fork_in_a_run(void) {
	memory_init();
	onnxmem_session *s = onnxmem_session_new(4, 0);
	chain(s, 1, sizes, N, 0, 1, NULL);
	pthread_barrier_t in, out;
	pthread_barrier_init(&in, NULL, 2);
	pthread_barrier_init(&out, NULL, 2);
	void *arguments[] = {s, NULL, &in, &out};
	pthread_t thread;
	pthread_create(&thread, NULL, wait_in_a_run, arguments);
	pthread_barrier_wait(&in);
	pid_t child = fork();
	if (!child) {
		struct onnxmem_memory before = memory(s);
		chain(s, 1, sizes, N, 0, 1, NULL);
		CHECK(memory(s).hits == before.hits + N && memory(s).misses == before.misses);
		unsigned char *b = arguments[1];
		CHECK(b[0] == 5 && b[sizes[0] - 1] == 5);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	pthread_barrier_wait(&out);
	pthread_join(thread, NULL);
	chain(s, 1, sizes, N, 0, 1, NULL);
	CHECK(memory(s).misses == 0);
	onnxmem_session_close(s);
}

// --- random runs on several threads

#define THREADS 4
#define SHARED 3
static onnxmem_session *shared[SHARED];
static time_t deadline;

struct held {
	unsigned char *bytes;
	size_t size;
	unsigned char fill;
};

static void drop(struct held *h) {
	if (!h->bytes)
		return;
	for (size_t i = 0; i < h->size; i += 61)
		CHECK(h->bytes[i] == h->fill);
	CHECK(h->bytes[h->size - 1] == h->fill);
	memory_free(h->bytes);
	h->bytes = NULL;
}

// random_run draws a stream from a seed, so that streams repeat, with a little noise.
static void random_run(onnxmem_session *s, uint32_t seed, uint32_t *noise, struct held *kept, int depth) {
	enum { LIVE = 24 };
	struct held live[LIVE] = {{0}};
	uint32_t stream = seed * 2654435761u + 1;
	int steps = 20 + (int)(draw(&stream) % 200);
	onnxmem_run_begin(s, draw(noise) % 8 ? seed + 1 : 0);
	for (int i = 0; i < steps; i++) {
		struct held *h = &live[draw(&stream) % LIVE];
		size_t size = 1 + draw(&stream) % 4000;
		if (draw(&stream) % 16 == 0)
			size *= 100;
		if (draw(noise) % 256 == 0)
			size++; // another shape in the middle
		drop(h);
		h->bytes = memory_alloc(size);
		CHECK(h->bytes);
		h->size = size;
		h->fill = (unsigned char)draw(noise);
		memset(h->bytes, h->fill, size);
		if (depth == 0 && draw(noise) % 500 == 0)
			random_run(shared[draw(noise) % SHARED], draw(noise) % 6, noise, kept, 1);
	}
	drop(kept);
	for (int i = 0; i < LIVE; i++) {
		if (i == 7 && depth == 0)
			*kept = live[i];
		else
			drop(&live[i]);
	}
	uint64_t plan = onnxmem_run_end(draw(noise) % 16 != 0);
	if (plan && draw(noise) % 2) {
		// Random places: most are wrong.
		uint32_t count = onnxmem_blocks(s, plan, NULL, NULL, NULL, 0);
		uint64_t *offsets = malloc((count + 1) * sizeof *offsets);
		for (uint32_t i = 0; i < count; i++)
			offsets[i] = draw(noise) % 32 ? draw(noise) % 8192 * 64 : UINT64_MAX;
		onnxmem_place(s, plan, offsets, count, (8192 + 7000) * 64, 1);
		free(offsets);
	}
}

static void *random_runs(void *argument) {
	uint32_t noise = (uint32_t)(uintptr_t)argument;
	struct held kept = {0};
	for (int i = 0; i < 60 || time(NULL) < deadline; i++) {
		if (draw(&noise) % 32 == 0) {
			onnxmem_session *own = onnxmem_session_new(2, (int)(draw(&noise) % 2));
			for (int j = 0; j < 3; j++)
				random_run(own, 1, &noise, &kept, 0);
			onnxmem_session_close(own);
		}
		random_run(shared[draw(&noise) % SHARED], draw(&noise) % 6, &noise, &kept, 0);
	}
	drop(&kept);
	return NULL;
}

// planned_stream is a random stream of a planned model, and its table.
struct planned_stream {
	struct {
		size_t size;
		int over; // -1: none
	} blocks[64];
	int events[128]; // a block that is allocated, or ~block of one that is freed
	int count, length;
	char table[8192];
};

static void draw_stream(struct planned_stream *p, uint32_t *state) {
	int live[64], lives = 0, at = 0;
	p->count = p->length = 0;
	at = snprintf(p->table, sizeof p->table, "onnxmem/replay 2\narena %d\n", 64 * 64);
	while (p->count < 64 || lives) {
		int over = -1, k = lives ? (int)(draw(state) % (uint32_t)lives) : 0;
		if (p->count == 64 || (lives && draw(state) % 2)) {
			at += snprintf(p->table + at, sizeof p->table - (size_t)at, "free %d\n", live[k]);
			p->events[p->length++] = ~live[k];
			live[k] = live[--lives];
			continue;
		}
		if (lives && draw(state) % 2) {
			over = live[k];
			for (int i = 0; i < p->count; i++)
				if (p->blocks[i].over == live[k])
					over = -1;
		}
		int i = p->count++;
		size_t size = over < 0 ? 1 + draw(state) % 512 : p->blocks[over].size;
		p->blocks[i].size = size;
		p->blocks[i].over = over;
		// Its place follows from the first of those that it lies over.
		int first = i;
		while (p->blocks[first].over >= 0)
			first = p->blocks[first].over;
		at += snprintf(p->table + at, sizeof p->table - (size_t)at, "alloc %d %zu %d 0", i, size, first * 37 % 56 * 64);
		at += over < 0 ? 0 : snprintf(p->table + at, sizeof p->table - (size_t)at, " %d", over);
		at += snprintf(p->table + at, sizeof p->table - (size_t)at, "\n");
		p->events[p->length++] = i;
		live[lives++] = i;
	}
}

// planned_runs_follow replays a stream, with an extra block somewhere in some runs. A
// block may lie over another only where the table says so and nothing else has happened
// in the run; all other bytes are kept.
static uint64_t planned_runs_follow(onnxmem_session *s, uint64_t key, const struct planned_stream *p, uint32_t *noise) {
	struct held held[64] = {{0}}, more = {0};
	int under[64], extra = draw(noise) % 3 ? -1 : (int)(draw(noise) % (uint32_t)p->length), exact = 1, strict = 1;
	size_t extra_bytes = draw(noise) % 2 ? 100 : 1000;
	uint64_t over = 0;
	onnxmem_run_begin(s, key);
	for (int e = 0; e < p->length; e++) {
		if (e == extra) {
			more = (struct held){memory_alloc(extra_bytes), extra_bytes, 3};
			memset(more.bytes, 3, extra_bytes);
			exact = extra_bytes <= TINY;
			strict = 0;
		}
		int i = p->events[e];
		if (i < 0) {
			struct held *h = &held[~i];
			if (under[~i])
				memory_free(h->bytes); // another was written over it
			else
				drop(h);
			h->bytes = NULL;
			continue;
		}
		struct held *h = &held[i];
		*h = (struct held){memory_alloc(p->blocks[i].size), p->blocks[i].size, (unsigned char)draw(noise)};
		under[i] = 0;
		CHECK(h->bytes);
		for (int j = 0; j < i; j++) {
			if (!held[j].bytes || under[j] || held[j].bytes >= h->bytes + h->size || h->bytes >= held[j].bytes + held[j].size)
				continue;
			CHECK((h->size > TINY ? exact : strict) && p->blocks[i].over == j && held[j].bytes == h->bytes);
			under[j] = 1;
			over++;
		}
		memset(h->bytes, h->fill, h->size);
	}
	drop(&more);
	onnxmem_run_end((int)(draw(noise) % 2));
	return over;
}

static onnxmem_session *planned_session;
static struct planned_stream streams[4];

static void *random_planned_runs(void *argument) {
	uint32_t noise = (uint32_t)(uintptr_t)argument;
	uint64_t over = 0;
	char error[100];
	for (int i = 0; i < 25 || time(NULL) < deadline; i++) {
		onnxmem_session *own = onnxmem_session_new(2, (int)(draw(&noise) % 2));
		uint32_t k = draw(&noise) % 4;
		CHECK(onnxmem_load(own, 1, streams[k].table, error, sizeof error));
		for (int j = 0; j < 4; j++) {
			over += planned_runs_follow(own, 1, &streams[k], &noise);
			planned_runs_follow(planned_session, draw(&noise) % 5, &streams[draw(&noise) % 4], &noise);
			if (draw(&noise) % 16 == 0)
				CHECK(onnxmem_load(planned_session, 1 + k, streams[k].table, error, sizeof error));
		}
		onnxmem_session_close(own);
	}
	CHECK(over);
	return NULL;
}

static void random_planned_runs_on_threads(void) {
	uint32_t state = 99;
	for (int k = 0; k < 4; k++)
		draw_stream(&streams[k], &state);
	planned_session = onnxmem_session_new(4, 0);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, random_planned_runs, (void *)(uintptr_t)(i * 7919 + 17));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	onnxmem_session_close(planned_session);
}

static void random_runs_on_threads(void) {
	for (int i = 0; i < SHARED; i++)
		shared[i] = onnxmem_session_new(4, i == 1);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, random_runs, (void *)(uintptr_t)(i * 7919 + 17));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	uint64_t hits = 0, misses = 0;
	for (int i = 0; i < SHARED; i++) {
		hits += memory(shared[i]).hits;
		misses += memory(shared[i]).misses;
		onnxmem_session_close(shared[i]);
	}
	CHECK(hits && misses);
}

#define RUN(name) (test = #name, name())

// --- the cases of all allocators that replay

static onnxmem_session *of_case;
static uint64_t case_serial;
static int case_outputs;

static void case_new(void) { of_case = onnxmem_session_new(1, case_outputs); }
static void case_begin(void) { onnxmem_run_begin(of_case, 1); }
static void case_done(void) { onnxmem_session_close(of_case); }

static void *case_take(int stream, size_t size, const char **got) {
	(void)stream;
	struct onnxmem_memory before = memory(of_case);
	void *bytes = memory_alloc(size);
	struct onnxmem_memory after = memory(of_case);
	*got = after.hits > before.hits ? "place" : after.misses > before.misses ? "miss"
		: after.recorded > before.recorded									 ? "new"
																			 : "out";
	return bytes;
}

static int case_over(void) {
	case_serial = onnxmem_run_end(1);
	return case_serial != 0;
}

static void case_places(int stream, const struct case_stream *plan) {
	(void)stream;
	CHECK(onnxmem_place(of_case, case_serial, plan->offsets, (uint32_t)plan->count, plan->arena, 1));
}

static void cases_are_replayed(void) {
	const struct replayer size = {"ort", "size", case_new, case_begin, case_take, memory_free, case_over, case_places, case_done};
	struct replayer inside = size;
	replay_cases(&size);
	inside.scheme = "inside";
	case_outputs = 1;
	replay_cases(&inside);
}

int main(int argc, char **argv) {
	deadline = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	RUN(ranges_match_a_plain_array);
	RUN(second_run_replays);
	RUN(cases_are_replayed);
	RUN(packed_places_are_taken_when_no_run_is_in_flight);
	RUN(a_wrong_plan_gives_nothing_out_twice);
	RUN(outputs_lie_outside_unless_the_caller_releases_them);
	RUN(misses_of_the_same_stream_make_no_plan);
	RUN(blocks_outlive_their_session);
	RUN(other_shapes_have_plans_of_their_own);
	RUN(runs_share_pages);
	RUN(results_of_runs_without_a_plan);
	RUN(freed_memory_of_a_load_is_given_back);
	RUN(memory_is_given_back);
	RUN(smaller_shapes_have_the_plan_of_larger_ones);
	RUN(small_runs_are_left_alone);
	RUN(plans_are_not_made_for_ever);
	RUN(without_a_key_sizes_choose_the_plan);
	RUN(deviations_fall_back_and_lasting_ones_make_a_plan);
	RUN(streams_of_one_key_have_plans);
	RUN(a_run_that_fails_makes_no_plan);
	RUN(swapped_allocations_are_found);
	RUN(runs_in_flight_at_once);
	RUN(tables_are_read);
	RUN(results_lie_over_operands);
	RUN(a_run_that_leaves_its_plan_writes_over_nothing);
	RUN(tiny_blocks_leave_the_plan_as_it_is);
	RUN(odd_sizes);
	RUN(fork_in_a_run);
	RUN(random_planned_runs_on_threads);
	RUN(random_runs_on_threads);
	return 0;
}
