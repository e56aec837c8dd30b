// Tests of PyTorch's allocator without PyTorch and without a GPU: this program is the
// driver, too, whose device memory is the host's.
//
//	cc -std=c11 -pthread -rdynamic ort/src/*.c ort/tests/torch_test.c -ldl -o torch_test
//	(cd ort; ../torch_test [SECONDS])
//
// It prints the test that fails and ends with status 1. The last test draws random
// allocations on several threads, for SECONDS (1).
#ifdef __linux__
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../src/onnxmem_torch.h"
#include "check.h"
#include "replay.h"

// --- the driver

static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER;
static uint64_t device_bytes = 1 << 28, device_live;
static char calls[4096]; // of events and waits, one letter each with its stream
static void *capturing;  // stream
static int contexts[2];
static _Thread_local void *context;
static _Thread_local int mode;

#define ENTRY __attribute__((visibility("default")))

ENTRY int cuInit(unsigned flags) { return (int)flags; }
ENTRY int cuDeviceGetCount(int *n) { return *n = 2, 0; }
ENTRY int cuDeviceGet(int *d, int i) { return *d = i, i > 1; }
ENTRY int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = &contexts[d], 0; }
ENTRY int cuCtxGetCurrent(void **c) { return *c = context, 0; }
ENTRY int cuCtxSetCurrent(void *c) { return context = c, 0; }
ENTRY int cuThreadExchangeStreamCaptureMode(int *m) {
	int before = mode;
	mode = *m;
	*m = before;
	return 0;
}
ENTRY int cuStreamIsCapturing(void *s, int *state) { return *state = s && s == capturing, 0; }

ENTRY int cuMemAlloc_v2(uint64_t *p, size_t n) {
	if (!context || mode != 2)
		return 201;
	pthread_mutex_lock(&device);
	int full = n > device_bytes - device_live;
	device_live += full ? 0 : n;
	pthread_mutex_unlock(&device);
	if (full)
		return 2;
	size_t *size = aligned_alloc(512, (n + 1023) / 512 * 512);
	*size = n;
	*p = (uint64_t)(uintptr_t)size + 512;
	return 0;
}

ENTRY int cuMemFree_v2(uint64_t p) {
	if (!context || mode != 2)
		return 201;
	size_t *size = (size_t *)(uintptr_t)(p - 512);
	pthread_mutex_lock(&device);
	device_live -= *size;
	pthread_mutex_unlock(&device);
	free(size);
	return 0;
}

static int call(char what, void *stream) {
	pthread_mutex_lock(&device);
	size_t n = strlen(calls);
	if (n + 3 < sizeof calls)
		snprintf(calls + n, sizeof calls - n, "%c%d", what, (int)(uintptr_t)stream % 10);
	pthread_mutex_unlock(&device);
	return 0;
}

ENTRY int cuEventCreate(void **e, unsigned flags) { return *e = &device, flags != 2; }
ENTRY int cuEventRecord(void *e, void *s) { return (void)e, call('r', s); }
ENTRY int cuStreamWaitEvent(void *s, void *e, unsigned flags) { return (void)e, (void)flags, call('w', s); }
ENTRY int cuEventDestroy_v2(void *e) { return e != &device; }

// --- streams

static void *handle(int n) { return (void *)(uintptr_t)n; }

// index_of returns the index of a stream, which must be there.
static uint32_t index_of(int on, int stream, struct onnxmem_torch_memory *m) {
	for (uint32_t i = 0; i < onnxmem_torch_streams(); i++) {
		int d;
		uint64_t h;
		CHECK(onnxmem_torch_stream(i, &d, &h, m));
		if (d == on && h == (uint64_t)stream)
			return i;
	}
	CHECK(!"a stream is lacking");
	return 0;
}

static struct onnxmem_torch_memory memory(int stream) {
	struct onnxmem_torch_memory m;
	index_of(0, stream, &m);
	return m;
}

static void *take(size_t size, int stream) { return onnxmem_torch_malloc(size, 0, handle(stream)); }
static void give(void *bytes) { onnxmem_torch_free(bytes, 0, 0, NULL); }

static const size_t sizes[] = {1000, 70000, 64, 5000, 1, 512, 300000, 2048};
enum { N = 8, PLANNED = 393216 };

// iteration is a chain: each block is freed when the next two are there. The last two live
// into the next iteration. Each block is filled, and checked before it is freed.
static void iteration(int stream, const size_t *of, void **carried) {
	unsigned char *blocks[N];
	for (int i = 0; i < N; i++) {
		CHECK((blocks[i] = take(of[i], stream)));
		memset(blocks[i], i + 1, of[i]);
		unsigned char *before = i < 2 ? carried[i] : blocks[i - 2];
		int number = i < 2 ? N - 2 + i : i - 2;
		if (!before)
			continue;
		CHECK(before[0] == number + 1);
		give(before);
	}
	carried[0] = blocks[N - 2];
	carried[1] = blocks[N - 1];
}

// table writes the table of an iteration with all blocks above one another.
static const char *table(const size_t *of, int n) {
	static char text[4096];
	uint64_t offset = 0;
	int at = snprintf(text, sizeof text, "onnxmem/replay 1\nalignment 512\narena %d\nlower_bound 1\nevents %d\n", PLANNED, n);
	for (int i = 0; i < n; i++) {
		at += snprintf(text + at, sizeof text - (size_t)at, "alloc %d %zu %llu 0\n", i, of[i], (unsigned long long)offset);
		offset += (of[i] + 511) / 512 * 512;
	}
	CHECK(offset <= PLANNED);
	return text;
}

static void plan(int stream, uint64_t kind, const size_t *of) {
	struct onnxmem_torch_memory m;
	char error[100];
	CHECK(onnxmem_torch_take(index_of(0, stream, &m), kind, table(of, N), 1, error, sizeof error));
}

// due returns the stream that is due, and whether for the last time.
static int due(int *last) {
	uint64_t kind;
	int64_t i = onnxmem_torch_due(&kind, last);
	if (i < 0)
		return -1;
	int d;
	uint64_t h;
	struct onnxmem_torch_memory m;
	CHECK(onnxmem_torch_stream((uint32_t)i, &d, &h, &m));
	return (int)h;
}

// --- without marks

static void a_stream_is_due_at_1024_events_and_then_at_twice_as_many(void) {
	char error[100];
	struct onnxmem_torch_memory m;
	int last, events = 0, woken[2];
	char byte;
	CHECK(!pipe(woken) && !fcntl(woken[0], F_SETFL, O_NONBLOCK));
	onnxmem_torch_notify(woken[1]);
	for (int at = 1024; at <= 4096; at *= 2) {
		while (events < at) {
			CHECK(due(&last) < 0);
			give(take(100, 1));
			events += 2;
		}
		// A free makes nothing due: the next allocation does.
		void *b = take(100, 1);
		CHECK(due(&last) == 1 && !last);
		CHECK(read(woken[0], &byte, 1) == 1 && read(woken[0], &byte, 1) < 0);
		give(b);
		events += 2;
		CHECK(onnxmem_torch_take(index_of(0, 1, &m), 0, NULL, 1, error, sizeof error));
		at = events;
	}
	onnxmem_torch_notify(-1);
	close(woken[0]);
	close(woken[1]);
}

static void a_stream_without_marks_finds_its_place(void) {
	void *carried[2] = {0};
	for (int i = 0; i < 3; i++)
		iteration(2, sizes, carried);
	// The plan comes while an iteration goes on.
	void *b = take(sizes[0], 2);
	plan(2, 0, sizes);
	give(b);
	for (int i = 1; i < N; i++)
		give(take(sizes[i], 2));
	CHECK(memory(2).hits == 0 && memory(2).arena_bytes == 0);
	for (int i = 0; i < 5; i++)
		iteration(2, sizes, carried);
	struct onnxmem_torch_memory m = memory(2);
	CHECK(m.hits == 5 * N && m.misses == 0 && m.plans == 1 && m.arena_bytes == PLANNED);
	CHECK(m.outside_bytes == 0 && m.driver_bytes == PLANNED);
	give(carried[0]);
	give(carried[1]);
}

static void more_and_fewer_blocks_do_not_lose_the_place(void) {
	void *carried[2] = {0};
	uint64_t hits = memory(2).hits;
	for (int i = 0; i < 3; i++) {
		iteration(2, sizes, carried);
		give(take(4711, 2));
		iteration(2, sizes, carried);
		give(take(sizes[0], 2)); // an iteration that ends at once
	}
	CHECK(memory(2).misses == 3);
	CHECK(memory(2).hits >= hits + 6 * N);
	give(carried[0]);
	give(carried[1]);
}

// --- with marks

static void a_stream_is_due_after_two_iterations(void) {
	void *carried[2] = {0};
	int last;
	struct onnxmem_torch_memory m;
	char error[100];
	iteration(3, sizes, carried);
	for (int i = 0; i < 2; i++) {
		onnxmem_torch_mark(0);
		CHECK(due(&last) < 0);
		iteration(3, sizes, carried);
	}
	onnxmem_torch_mark(0);
	CHECK(due(&last) < 0);
	give(take(1, 3));
	CHECK(due(&last) == 3 && !last);
	uint64_t size[5 * N];
	uint32_t begins[5 * N], ends[5 * N], marks[9], count = 5 * N, marks_count = 9;
	onnxmem_torch_recorded(index_of(0, 3, &m), 0, size, begins, ends, &count, marks, &marks_count);
	// What was recorded begins with the first allocation behind a mark.
	CHECK(count == 2 * N + 1 && marks_count == 3);
	CHECK(marks[0] == 0 && marks[1] == 14 && marks[2] == 30);
	for (uint32_t i = 0; i < 2 * N; i++)
		CHECK(size[i] == sizes[i % N] && (ends[i] == UINT32_MAX) == (i >= 2 * N - 2));
	plan(3, 0, sizes);
	CHECK(due(&last) < 0 && onnxmem_torch_streams() >= 3);
	CHECK(!onnxmem_torch_take(index_of(0, 3, &m), 0, "onnxmem/replay 3", 1, error, sizeof error) && strstr(error, "expected onnxmem/replay"));
	CHECK(!onnxmem_torch_take(index_of(0, 3, &m), 0, table(sizes, 3), 2, error, sizeof error) && strstr(error, "equally many"));
	plan(3, 0, sizes);
	for (int i = 0; i < 4; i++) {
		onnxmem_torch_mark(0);
		iteration(3, sizes, carried);
	}
	m = memory(3);
	CHECK(m.hits == 4 * N && m.misses == 0 && m.iterations == 3 && m.live_peak_bytes < PLANNED);
	give(carried[0]);
	give(carried[1]);
	CHECK(memory(3).driver_bytes == PLANNED);
}

static void a_lasting_change_is_recorded(void) {
	const size_t other[N] = {1000, 70000, 64, 9999, 1, 512, 123456, 2048};
	void *carried[2] = {0};
	int last;
	onnxmem_torch_mark(0);
	iteration(3, sizes, carried);
	uint64_t before = memory(3).misses, hits = memory(3).hits;
	// Three iterations deviate; then two are recorded, meanwhile the others hit.
	for (int i = 0; i < 3 + 2; i++) {
		onnxmem_torch_mark(0);
		CHECK(due(&last) < 0);
		iteration(3, other, carried);
	}
	onnxmem_torch_mark(0);
	void *b = take(sizes[0], 3);
	CHECK(due(&last) == 3);
	give(b);
	hits++;
	CHECK(memory(3).misses == before + 2 * 5 && memory(3).hits == hits + 5 * (N - 2));
	plan(3, 0, other);
	onnxmem_torch_mark(0);
	iteration(3, other, carried);
	before = memory(3).misses;
	for (int i = 0; i < 4; i++) {
		onnxmem_torch_mark(0);
		iteration(3, other, carried);
	}
	CHECK(memory(3).misses == before && memory(3).plans == 2);
	CHECK(memory(3).outside_bytes == 0);
	give(carried[0]);
	give(carried[1]);
}

static void each_kind_of_iterations_has_a_plan(void) {
	static const size_t other[N] = {2000, 7, 640, 50000, 10, 5120, 30000, 20480};
	void *carried[2] = {0};
	int last;
	for (int i = 0; i < 4; i++) {
		for (uint64_t kind = 1; kind <= 2; kind++) {
			onnxmem_torch_mark(kind);
			iteration(4, kind == 1 ? sizes : other, carried);
		}
	}
	CHECK(due(&last) == 4);
	plan(4, 1, sizes);
	onnxmem_torch_mark(2);
	iteration(4, other, carried);
	CHECK(due(&last) == 4);
	plan(4, 2, other);
	CHECK(due(&last) < 0);
	struct onnxmem_torch_memory before = {0};
	for (int i = 0; i < 4; i++) {
		for (uint64_t kind = 1; kind <= 2; kind++) {
			onnxmem_torch_mark(kind);
			iteration(4, kind == 1 ? sizes : other, carried);
		}
		if (i == 0)
			before = memory(4);
	}
	struct onnxmem_torch_memory m = memory(4);
	CHECK(m.plans == 2 && m.arena_bytes == PLANNED && m.recorded == 9 * N);
	// What lives over from an iteration of the other kind may be in the way: two blocks.
	CHECK(m.misses - before.misses <= 3 * 2 * 2 && m.hits - before.hits >= 3 * 2 * (N - 2));
	// A kind without a plan does not keep the arena that it does not use.
	give(carried[0]);
	give(carried[1]);
	memset(carried, 0, sizeof carried);
	onnxmem_torch_mark(3);
	iteration(4, other, carried);
	CHECK(memory(4).arena_bytes == 0 && memory(4).plan_bytes == 0);
	onnxmem_torch_mark(1);
	iteration(4, sizes, carried);
	CHECK(memory(4).arena_bytes == PLANNED && memory(4).hits >= m.hits + N - 2);
	// Of seventeen kinds, the one not used for longest goes.
	for (uint64_t kind = 10; kind < 26; kind++) {
		onnxmem_torch_mark(kind);
		give(take(100, 4));
	}
	uint64_t recorded = memory(4).recorded;
	onnxmem_torch_mark(1);
	give(take(100, 4));
	CHECK(memory(4).recorded == recorded + 1);
	give(carried[0]);
	give(carried[1]);
}

static void another_stream_is_waited_for(void) {
	*calls = 0;
	onnxmem_torch_mark(0);
	void *b = take(sizes[0], 3);
	onnxmem_torch_record_stream(b, handle(3)); // its own
	onnxmem_torch_record_stream(b, handle(7));
	onnxmem_torch_record_stream(b, handle(7));
	CHECK(!*calls);
	give(b);
	CHECK(!strcmp(calls, "r7w3"));
	size_t size = 0;
	b = take(12345, 3);
	CHECK(onnxmem_torch_base(b, &size) == b && size == 12345);
	give(b);
	CHECK(!strcmp(calls, "r7w3"));
}

static void what_a_graph_uses_is_kept(void) {
	uint64_t live = device_live;
	capturing = handle(5);
	static void *b, *c, *d; // kept: no leaks
	b = take(1000, 5);
	c = take(1000, 5);
	CHECK(b != c && memory(5).captured_bytes == 2000 && memory(5).recorded == 0);
	give(b);
	d = take(1000, 5);
	CHECK(d != b && d != c);
	capturing = NULL;
	give(c);
	give(d);
	CHECK(device_live == live + 3000 && memory(5).driver_bytes == 3000 && memory(5).outside_bytes == 0);
	// Where a wait would become part of a graph, the block is kept, too.
	static void *e;
	e = take(2000, 6);
	onnxmem_torch_record_stream(e, handle(5));
	capturing = handle(5);
	give(e);
	capturing = NULL;
	CHECK(memory(6).outside_bytes == 2000);
}

static void a_device_without_memory_gives_none(void) {
	CHECK(!take(1 << 29, 8));
	CHECK(!take((size_t)1 << 60, 8));
	CHECK(!onnxmem_torch_malloc(100, 70, NULL));
	CHECK(!take(0, 8));
	give(NULL);
	// An empty arena is given back for a block.
	void *carried[2] = {0};
	onnxmem_torch_mark(0);
	iteration(3, sizes, carried);
	give(carried[0]);
	give(carried[1]);
	CHECK(memory(3).arena_bytes == PLANNED);
	device_bytes = device_live + 1000;
	void *b = take(100000, 8);
	CHECK(b && memory(3).arena_bytes == 0);
	give(b);
	// Without memory for the arena, blocks come from the driver; later from the arena.
	device_bytes = device_live + PLANNED - 1;
	memset(carried, 0, sizeof carried);
	uint64_t hits = memory(3).hits;
	onnxmem_torch_mark(0);
	iteration(3, sizes, carried);
	CHECK(memory(3).hits == hits && memory(3).outside_bytes > 0);
	device_bytes = 1 << 28;
	onnxmem_torch_mark(0);
	iteration(3, sizes, carried);
	CHECK(memory(3).arena_bytes == PLANNED && memory(3).hits > hits);
	give(carried[0]);
	give(carried[1]);
	onnxmem_torch_trim();
	CHECK(memory(3).arena_bytes == 0 && memory(3).driver_bytes == 0);
}

// --- at random

struct worker {
	pthread_t thread;
	uint32_t random;
	double until;
};

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// wrong gives a stream a table with places that overlap.
static void wrong(uint32_t *random) {
	char text[2000], error[100];
	int iterations = 1 + (int)(draw(random) % 2), n = iterations * (1 + (int)(draw(random) % 12));
	int at = snprintf(text, sizeof text, "onnxmem/replay 1\nalignment 512\narena %u\nlower_bound 1\nevents %d\n", 20480 + draw(random) % 4 * 512, n);
	for (int i = 0; i < n; i++)
		at += snprintf(text + at, sizeof text - (size_t)at, "alloc %d %u %u 0\n", i, 1 + draw(random) % 5 * 512, draw(random) % 35 * 512);
	uint32_t streams = onnxmem_torch_streams();
	CHECK(onnxmem_torch_take(draw(random) % streams, draw(random) % 20, text, (uint32_t)iterations, error, sizeof error));
}

// work allocates and frees on a few streams, with plans of others. Each block is filled
// with a pattern of its own, and must have it when it is freed.
static void *work(void *of) {
	struct worker *w = of;
	enum { LIVE = 40 };
	struct {
		unsigned char *bytes, pattern;
		uint32_t size;
	} live[LIVE] = {0};
	while (now() < w->until) {
		for (int step = 0; step < 100; step++) {
			uint32_t what = draw(&w->random) % 100, i = draw(&w->random) % LIVE;
			int stream = 10 + (int)(draw(&w->random) % 3);
			if (live[i].bytes) {
				CHECK(live[i].bytes[0] == live[i].pattern && live[i].bytes[live[i].size - 1] == live[i].pattern);
				if (what < 10)
					onnxmem_torch_record_stream(live[i].bytes, handle(stream));
				give(live[i].bytes);
				live[i].bytes = NULL;
			} else if ((live[i].bytes = onnxmem_torch_malloc(live[i].size = 1 + draw(&w->random) % 5 * 512, (int)(what % 2), handle(stream)))) {
				live[i].pattern = (unsigned char)draw(&w->random);
				memset(live[i].bytes, live[i].pattern, live[i].size);
			}
			if (what >= 97)
				onnxmem_torch_mark(draw(&w->random) % 20);
			if (what == 96)
				onnxmem_torch_trim();
		}
		uint64_t kind;
		int last;
		onnxmem_torch_due(&kind, &last);
		wrong(&w->random);
	}
	for (int i = 0; i < LIVE; i++)
		give(live[i].bytes);
	return NULL;
}

static double seconds = 1;

static void nothing_is_given_out_twice(void) {
	enum { WORKERS = 4 };
	struct worker workers[WORKERS];
	uint64_t live = device_live;
	device_bytes = live + 150000; // sometimes there is none left
	for (uint32_t i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.random = 88 + i, .until = now() + seconds};
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (int i = 0; i < WORKERS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	uint64_t hits = 0;
	for (int d = 0; d < 2; d++) {
		for (int s = 10; s < 13; s++) {
			struct onnxmem_torch_memory m;
			index_of(d, s, &m);
			hits += m.hits;
			CHECK(m.outside_bytes == 0 && m.driver_bytes == m.arena_bytes);
		}
	}
	CHECK(hits > 100);
	onnxmem_torch_trim();
	CHECK(device_live == live);
}

// --- the cases of all allocators that replay

enum { CASE_KIND = 77 };

static int case_streams = 100; // each case has others

static void case_new(void) { case_streams += STREAMS; }
static void case_begin(void) { onnxmem_torch_mark(CASE_KIND); }
static void case_done(void) {}

static void *case_take(int stream, size_t size, const char **got) {
	struct onnxmem_torch_memory before = {0}, after;
	int of_case = case_streams + stream, d;
	uint64_t h;
	for (uint32_t i = 0; onnxmem_torch_stream(i, &d, &h, &after); i++)
		if (h == (uint64_t)of_case)
			before = after;
	void *bytes = take(size, of_case);
	after = memory(of_case);
	*got = after.hits > before.hits ? "place" : after.misses > before.misses ? "miss" : "new";
	return bytes;
}

// Python packs what is recorded; the streams only say that they are due.
static int case_over(void) { return -1; }

static void case_places(int stream, const struct case_stream *plan) {
	static char text[8192];
	char error[100];
	struct onnxmem_torch_memory m;
	int at = snprintf(text, sizeof text, "onnxmem/replay 1\nalignment 64\narena %llu\n", (unsigned long long)plan->arena);
	for (int i = 0; i < plan->count; i++)
		at += snprintf(text + at, sizeof text - (size_t)at, "alloc %d %llu %llu 0\n", i, (unsigned long long)plan->sizes[i], (unsigned long long)plan->offsets[i]);
	CHECK((size_t)at < sizeof text);
	CHECK(onnxmem_torch_take(index_of(0, case_streams + stream, &m), CASE_KIND, text, 1, error, sizeof error));
}

static void cases_are_replayed(void) {
	const struct replayer torch = {"torch", "inside", case_new, case_begin, case_take, give, case_over, case_places, case_done};
	replay_cases(&torch);
}

int main(int argc, char **argv) {
	if (argc > 1)
		seconds = atof(argv[1]);
	char error[200];
	if (onnxmem_torch_open("/nonexistent.so", error, sizeof error) || !strstr(error, "no driver")) {
		fprintf(stderr, "a driver that is not there: %s\n", error);
		return 1;
	}
	if (!onnxmem_torch_open("", error, sizeof error)) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
#define RUN(f) (test = #f, f())
	RUN(a_stream_is_due_at_1024_events_and_then_at_twice_as_many);
	RUN(a_stream_without_marks_finds_its_place);
	RUN(more_and_fewer_blocks_do_not_lose_the_place);
	RUN(a_stream_is_due_after_two_iterations);
	RUN(a_lasting_change_is_recorded);
	RUN(each_kind_of_iterations_has_a_plan);
	RUN(another_stream_is_waited_for);
	RUN(what_a_graph_uses_is_kept);
	RUN(a_device_without_memory_gives_none);
	RUN(nothing_is_given_out_twice);
	RUN(cases_are_replayed);
	return 0;
}
#else
int main(void) { return 0; }
#endif
