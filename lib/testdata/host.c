/* A host program of libonnxmem: host LIBRARY MODE <NUMBERS. Numbers are a problem, as 64-bit
 * integers of this machine; answers go to standard output, as text. */
#define _GNU_SOURCE
#include "onnxmem.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

static __typeof__(onnxmem_pack) *pack;
static __typeof__(onnxmem_verify_pack) *verify_pack;
static __typeof__(onnxmem_order) *order_nodes;
static __typeof__(onnxmem_verify_order) *verify_order;
static __typeof__(onnxmem_lifetimes) *lifetimes;
static __typeof__(onnxmem_limit) *limit_peak;
static __typeof__(onnxmem_verify_limit) *verify_limit;
static __typeof__(onnxmem_free) *free_block;
static __typeof__(onnxmem_version) *version;

static char error[500];

static void *symbol(void *library, const char *name) {
	void *s = dlsym(library, name);
	if (s == NULL)
		DIE("%s", dlerror());
	return s;
}

static void *load(const char *path) {
	void *l = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (l == NULL)
		DIE("%s", dlerror());
	pack = (__typeof__(pack))symbol(l, "onnxmem_pack");
	verify_pack = (__typeof__(verify_pack))symbol(l, "onnxmem_verify_pack");
	order_nodes = (__typeof__(order_nodes))symbol(l, "onnxmem_order");
	verify_order = (__typeof__(verify_order))symbol(l, "onnxmem_verify_order");
	lifetimes = (__typeof__(lifetimes))symbol(l, "onnxmem_lifetimes");
	limit_peak = (__typeof__(limit_peak))symbol(l, "onnxmem_limit");
	verify_limit = (__typeof__(verify_limit))symbol(l, "onnxmem_verify_limit");
	free_block = (__typeof__(free_block))symbol(l, "onnxmem_free");
	version = (__typeof__(version))symbol(l, "onnxmem_version");
	if (strcmp(version(), ONNXMEM_VERSION) != 0)
		DIE("version %s, expected that of the header", version());
	return l;
}

static void *numbers(size_t n, size_t bytes) {
	void *p = calloc(n + 1, bytes);
	for (size_t i = 0; i < n; i++) {
		int64_t x;
		if (fread(&x, sizeof x, 1, stdin) != 1)
			DIE("the numbers end early");
		if (bytes == 8)
			((int64_t *)p)[i] = x;
		else if (bytes == 4)
			((int32_t *)p)[i] = (int32_t)x;
		else
			((uint8_t *)p)[i] = (uint8_t)x;
	}
	return p;
}

static int64_t number(void) {
	int64_t *p = numbers(1, 8), x = *p;
	free(p);
	return x;
}

static void must(int status, const char *what) {
	if (status != ONNXMEM_OK)
		DIE("%s: status %d: %s", what, status, error);
}

#define CALL(f, ...) must(f(__VA_ARGS__, error, sizeof error), #f)

/* expect calls a function that must fail with a status and a text. */
#define EXPECT(want, text, call) \
	do { \
		int got = call; \
		if (got != want || strstr(error, text) == NULL) \
			DIE("%s: status %d, %s: expected %d, %s", #call, got, error, want, text); \
	} while (0)

/* ---- places ---- */

static onnxmem_options options;
static onnxmem_buffers buffers;

static void read_buffers(void) {
	options = (onnxmem_options){.struct_size = sizeof options, .effort = (int32_t)number()};
	buffers = (onnxmem_buffers){.struct_size = sizeof buffers, .count = (size_t)number(), .common_alignment = number()};
	int64_t *capacity = malloc(8);
	*capacity = number();
	buffers.pool_capacity = capacity;
	buffers.lower = numbers(buffers.count, 8);
	buffers.upper = numbers(buffers.count, 8);
	buffers.size = numbers(buffers.count, 8);
	buffers.alignment = numbers(buffers.count, 8);
}

static void print_offsets(const int64_t *offsets) {
	for (size_t i = 0; i < buffers.count; i++)
		printf(" %lld", (long long)offsets[i]);
	putchar('\n');
}

static void run_pack(void) {
	onnxmem_packed packed, checked;
	int64_t *offsets = calloc(buffers.count, 8);
	CALL(pack, &buffers, &options, offsets, &packed, NULL, NULL);
	printf("%lld %lld %d %d", (long long)packed.arena, (long long)packed.bound, packed.proven, packed.fits);
	print_offsets(offsets);
	CALL(verify_pack, &buffers, offsets, NULL, &checked);
	if (checked.arena != packed.arena || checked.bound > packed.bound)
		DIE("verified: %lld, bound %lld", (long long)checked.arena, (long long)checked.bound);
	for (size_t i = 1; i < buffers.count; i++) /* two buffers in one place */
		if (buffers.size[0] > 0 && buffers.size[i] > 0 && buffers.lower[i] < buffers.upper[0] && buffers.lower[0] < buffers.upper[i]) {
			offsets[i] = offsets[0];
			EXPECT(ONNXMEM_FAILED, "buffer", verify_pack(&buffers, offsets, NULL, NULL, error, sizeof error));
			break;
		}
}

/* threads: eight at once give what one gives. */
static void *one_thread(void *to) {
	onnxmem_packed packed;
	char text[200];
	if (pack(&buffers, &options, to, &packed, NULL, NULL, text, sizeof text) != ONNXMEM_OK)
		DIE("%s", text);
	return NULL;
}

static void run_threads(void) {
	enum { threads = 8 };
	pthread_t id[threads];
	int64_t *offsets[threads];
	for (int i = 0; i < threads; i++) {
		offsets[i] = calloc(buffers.count, 8);
		pthread_create(&id[i], NULL, one_thread, offsets[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		if (memcmp(offsets[i], offsets[0], 8 * buffers.count) != 0)
			DIE("thread %d has other offsets", i);
	}
	print_offsets(offsets[0]);
}

/* cancel: a search of minutes ends when another thread says so. */
static volatile int32_t flag;

static int64_t cpu(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* raise_flag waits until other threads have worked for 50 ms: then the search is under way. */
static void *raise_flag(void *arg) {
	int64_t before = cpu(CLOCK_PROCESS_CPUTIME_ID) - cpu(CLOCK_THREAD_CPUTIME_ID);
	(void)arg;
	while (cpu(CLOCK_PROCESS_CPUTIME_ID) - cpu(CLOCK_THREAD_CPUTIME_ID) < before + 50000000)
		;
	flag = 1;
	return NULL;
}

static void run_cancel(void) {
	onnxmem_packed packed = {0};
	int64_t *offsets = calloc(buffers.count, 8);
	pthread_t id;
	options.cancel = &flag;
	pthread_create(&id, NULL, raise_flag, NULL);
	int status = pack(&buffers, &options, offsets, &packed, NULL, NULL, error, sizeof error);
	pthread_join(id, NULL);
	if (status == ONNXMEM_OK ? !packed.ended : status != ONNXMEM_ENDED)
		DIE("status %d, ended %d: %s", status, packed.ended, error);
	if (status == ONNXMEM_OK)
		CALL(verify_pack, &buffers, offsets, NULL, NULL);
	puts("ended");
}

/* ---- the process ---- */

static sigjmp_buf back;
static volatile sig_atomic_t interrupted, mine = 0x5a5a;

static void on_fault(int signal) {
	(void)signal;
	siglongjmp(back, 1);
}

static void on_interrupt(int signal) {
	(void)signal;
	interrupted++;
}

static void handle(void) {
	struct sigaction a = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
	sigaction(SIGSEGV, &a, NULL);
	a.sa_handler = on_interrupt;
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

static void must_handle(const char *when) {
	int before = interrupted;
	raise(SIGINT);
	raise(SIGTERM);
	if (interrupted != before + 2)
		DIE("%s: the handlers of SIGINT and SIGTERM did not run", when);
	if (sigsetjmp(back, 1) == 0) {
		*(volatile int *)(uintptr_t)(mine - 0x5a5a) = 1;
		DIE("%s: no fault", when);
	}
}

/* signals: the host's handlers stay, whether they were there before or came after. */
static void run_signals(const char *path) {
	handle();
	load(path);
	run_pack();
	must_handle("handlers before");
	run_pack();
	handle();
	must_handle("handlers after");
	run_pack();
}

/* fork: a child is told to exec, and one that did works. */
static void run_fork(const char *self, const char *path) {
	run_pack();
	for (int exec = 0; exec < 2; exec++) {
		pid_t child = fork();
		if (child == 0 && exec) {
			execl(self, self, path, "version", NULL);
			_exit(9);
		}
		if (child == 0) {
			onnxmem_packed packed;
			int64_t *offsets = calloc(buffers.count, 8);
			int status = pack(&buffers, &options, offsets, &packed, NULL, NULL, error, sizeof error);
			_exit(status == ONNXMEM_FORKED && strstr(error, "exec") != NULL ? 0 : 8);
		}
		int status = 0;
		waitpid(child, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			DIE("child %d ended with %x", exec, status);
	}
	run_pack(); /* the parent goes on */
}

/* close: the library stays; a program that opens it again goes on. */
static void run_close(const char *path) {
	for (int i = 0; i < 3; i++) {
		void *l = load(path);
		run_pack();
		if (dlclose(l) != 0)
			DIE("%s", dlerror());
	}
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long resident(void) {
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f != NULL) {
		if (fscanf(f, "%*d %ld", &pages) != 1)
			pages = 0;
		fclose(f);
	}
	return pages * sysconf(_SC_PAGESIZE) / 1024;
}

/* start: what loading takes, and the first call. */
static void run_start(const char *path) {
	int64_t lower[] = {0, 0}, upper[] = {1, 2}, size[] = {4, 2}, offsets[2];
	onnxmem_buffers b = {.struct_size = sizeof b, .count = 2, .lower = lower, .upper = upper, .size = size};
	onnxmem_packed packed;
	long before = resident();
	double t0 = now();
	load(path);
	double t1 = now();
	CALL(pack, &b, NULL, offsets, &packed, NULL, NULL);
	double t2 = now();
	for (int i = 0; i < 1000; i++)
		CALL(pack, &b, NULL, offsets, &packed, NULL, NULL);
	printf("load %.2f ms, first call %.2f ms, a call of two buffers %.1f us, resident %ld KiB more\n", t1 - t0, t2 - t1, (now() - t2), resident() - before);
}

/* latency: the time of one call, the least of some. */
static void run_latency(void) {
	onnxmem_packed packed;
	int64_t *offsets = calloc(buffers.count, 8);
	double best = 1e9;
	for (int i = 0; i < 5; i++) {
		double t = now();
		CALL(pack, &buffers, &options, offsets, &packed, NULL, NULL);
		t = now() - t;
		best = t < best ? t : best;
	}
	printf("%.3f ms, arena %lld, bound %lld\n", best, (long long)packed.arena, (long long)packed.bound);
}

/* ---- what is refused ---- */

/* must_end: what has no answer yet when it is ended says so: open pools, and verifications. */
static void must_end(void) {
	static const volatile int32_t raised = 1;
	int64_t lower[] = {0, 0}, upper[] = {1, 2}, size[] = {4, 2}, capacity[] = {4, -1}, begin[] = {0, 1}, offsets[2], peak, bound;
	int32_t anywhere[] = {-1, -1}, producer[] = {0}, consumer[] = {1}, in_order[] = {0, 1};
	onnxmem_packed packed[2];
	int32_t pools[2];
	onnxmem_options o = {.struct_size = sizeof o, .cancel = &raised};
	onnxmem_buffers b = {.struct_size = sizeof b, .count = 2, .lower = lower, .upper = upper, .size = size, .pool_count = 2, .pool_capacity = capacity, .pool = anywhere};
	onnxmem_graph g = {.struct_size = sizeof g, .node_count = 2, .tensor_count = 1, .size = size, .producer = producer, .consumer_begin = begin, .consumer = consumer};
	EXPECT(ONNXMEM_ENDED, "ended before", pack(&b, &o, offsets, packed, pools, NULL, error, sizeof error));
	EXPECT(ONNXMEM_ENDED, "ended before", verify_order(&g, &o, in_order, NULL, 0, NULL, error, sizeof error));
	EXPECT(ONNXMEM_ENDED, "ended before", verify_limit(&g, &o, in_order, 2, NULL, 0, &peak, &bound, error, sizeof error));
	CALL(pack, &b, NULL, offsets, packed, pools, NULL);
	CALL(verify_order, &g, NULL, in_order, NULL, 0, NULL);
	CALL(verify_limit, &g, NULL, in_order, 2, NULL, 0, &peak, &bound);
}

static void run_errors(void) {
	int64_t lower[] = {0, 3}, upper[] = {1, 3}, size[] = {4, 2}, offsets[2];
	int32_t pool[] = {0, -1};
	onnxmem_packed packed[2];
	char tiny[8];
	onnxmem_buffers b = {.struct_size = sizeof b, .count = 2, .lower = lower, .upper = upper, .size = size};
	EXPECT(ONNXMEM_REFUSED, "buffer 1: lifetime", pack(&b, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	if (pack(&b, NULL, offsets, packed, NULL, NULL, tiny, sizeof tiny) != ONNXMEM_REFUSED || strcmp(tiny, "buffer ") != 0)
		DIE("a text of 8 bytes: %s", tiny);
	if (pack(&b, NULL, offsets, packed, NULL, NULL, NULL, 0) != ONNXMEM_REFUSED)
		DIE("no text");
	upper[1] = 4;
	size[1] = -1;
	EXPECT(ONNXMEM_REFUSED, "buffer 1: size", pack(&b, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	size[1] = 2;
	b.size = NULL;
	EXPECT(ONNXMEM_USAGE, "size: expected 2 elements, found NULL", pack(&b, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	b.size = size;
	EXPECT(ONNXMEM_USAGE, "offsets", pack(&b, NULL, NULL, packed, NULL, NULL, error, sizeof error));
	EXPECT(ONNXMEM_USAGE, "NULL", pack(NULL, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	b.struct_size = sizeof b + 8;
	EXPECT(ONNXMEM_USAGE, "struct_size", pack(&b, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	b.struct_size = offsetof(onnxmem_buffers, common_alignment); /* an older header */
	CALL(pack, &b, NULL, offsets, packed, NULL, NULL);
	b.struct_size = sizeof b;
	b.pool = pool;
	b.pool_count = 2;
	EXPECT(ONNXMEM_REFUSED, "pools", pack(&b, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	b.pool_count = 1u << 31;
	EXPECT(ONNXMEM_USAGE, "pool_count: expected at most", pack(&b, NULL, offsets, packed, NULL, NULL, error, sizeof error));
	b.pool_count = 0;
	b.pool = NULL;
	onnxmem_options o = {.struct_size = sizeof o, .effort = 3};
	EXPECT(ONNXMEM_USAGE, "effort", pack(&b, &o, offsets, packed, NULL, NULL, error, sizeof error));
	onnxmem_graph g = {.struct_size = sizeof g, .node_count = 2, .tensor_count = 1};
	int32_t producer[] = {0}, consumer[] = {7}, order[2], back_and_forth[] = {1, 0};
	int64_t begin[] = {0, 1};
	onnxmem_ordered ordered;
	g.size = size;
	g.producer = producer;
	g.consumer_begin = begin;
	g.consumer = consumer;
	EXPECT(ONNXMEM_REFUSED, "tensor 0", order_nodes(&g, NULL, order, &ordered, error, sizeof error));
	consumer[0] = 1;
	CALL(order_nodes, &g, NULL, order, &ordered);
	free_block(ordered.certificates);
	EXPECT(ONNXMEM_FAILED, "node 1 reads tensor 0", verify_order(&g, NULL, back_and_forth, NULL, 0, NULL, error, sizeof error));
	onnxmem_certificate wrong = {.kind = 0, .bytes = 5, .node_count = 1, .nodes = producer};
	EXPECT(ONNXMEM_FAILED, "certificate 0", verify_order(&g, NULL, order, &wrong, 1, NULL, error, sizeof error));
	g.node_count = 1u << 31;
	EXPECT(ONNXMEM_USAGE, "graph: expected at most", order_nodes(&g, NULL, order, &ordered, error, sizeof error));
	g.node_count = 2;
	begin[0] = 1;
	EXPECT(ONNXMEM_REFUSED, "consumers", order_nodes(&g, NULL, order, &ordered, error, sizeof error));
	g.consumer = (int32_t *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	begin[0] = 0;
	EXPECT(ONNXMEM_FAULT, "a fault of onnxmem", order_nodes(&g, NULL, order, &ordered, error, sizeof error));
	must_end();
	puts("refused");
}

/* run_empty gives, for what is empty, the addresses that Rust has for it: those of no memory. */
static void run_empty(void) {
	int64_t *eight = (int64_t *)8, begin[] = {0}, offset = 5;
	int32_t *four = (int32_t *)4, one = 0;
	uint8_t *bytes = (uint8_t *)1;
	onnxmem_packed packed;
	onnxmem_buffers b = {.struct_size = sizeof b, .lower = eight, .upper = eight, .size = eight, .alignment = eight, .fixed = eight,
		.hint = eight, .gap_begin = begin, .gap_lower = eight, .gap_upper = eight, .gap_from = eight, .gap_to = eight, .pool = four};
	CALL(pack, &b, NULL, eight, &packed, four, bytes);
	CALL(verify_pack, &b, eight, four, &packed);
	onnxmem_ordered ordered;
	onnxmem_graph g = {.struct_size = sizeof g, .workspace = eight, .cost = eight, .once = bytes, .write_begin = begin, .write = four,
		.size = eight, .producer = four, .consumer_begin = begin, .consumer = four, .output = bytes, .resident = bytes,
		.reuse_begin = begin, .reuse = four, .parent = four, .offset = eight};
	onnxmem_certificate none = {.kind = 0, .nodes = four};
	CALL(order_nodes, &g, NULL, four, &ordered);
	EXPECT(ONNXMEM_FAILED, "certificate 0", verify_order(&g, NULL, four, &none, 1, NULL, error, sizeof error));
	onnxmem_goal goal = {.struct_size = sizeof goal};
	onnxmem_limited limited;
	CALL(limit_peak, &g, &goal, NULL, &limited);
	b = (onnxmem_buffers){.struct_size = sizeof b, .count = 1, .lower = eight, .upper = &offset, .size = &offset};
	EXPECT(ONNXMEM_FAULT, "a fault of onnxmem", pack(&b, NULL, &offset, &packed, NULL, NULL, error, sizeof error));
	g = (onnxmem_graph){.struct_size = sizeof g, .node_count = 1};
	none.node_count = 1;
	EXPECT(ONNXMEM_USAGE, "found the address 4", verify_order(&g, NULL, &one, &none, 1, NULL, error, sizeof error));
	puts("empty");
}

/* ---- orders and limits ---- */

static onnxmem_goal goal;
static onnxmem_graph graph;

static void read_graph(void) {
	options = (onnxmem_options){.struct_size = sizeof options, .effort = (int32_t)number()};
	goal = (onnxmem_goal){.struct_size = sizeof goal, .percent = (double)number(), .host_link = number()};
	graph = (onnxmem_graph){.struct_size = sizeof graph, .node_count = (size_t)number(), .tensor_count = (size_t)number()};
	size_t n = graph.node_count, m = graph.tensor_count;
	graph.workspace = numbers(n, 8);
	graph.cost = numbers(n, 8);
	graph.once = numbers(n, 1);
	int64_t *begin = numbers(n + 1, 8);
	graph.write_begin = begin;
	graph.write = numbers((size_t)begin[n], 4);
	graph.size = numbers(m, 8);
	graph.producer = numbers(m, 4);
	graph.consumer_begin = begin = numbers(m + 1, 8);
	graph.consumer = numbers((size_t)begin[m], 4);
	graph.output = numbers(m, 1);
	graph.resident = numbers(m, 1);
	graph.reuse_begin = begin = numbers(m + 1, 8);
	graph.reuse = numbers((size_t)begin[m], 4);
}

/* graphs: the time of ordering one, and of a limit, the least of some. */
static void run_graphs(void) {
	int32_t *order = calloc(graph.node_count + 1, 4);
	double ordered = 1e9, limited = 1e9;
	for (int i = 0; i < 5; i++) {
		onnxmem_ordered r;
		onnxmem_limited l;
		double t0 = now();
		CALL(order_nodes, &graph, &options, order, &r);
		double t1 = now();
		CALL(limit_peak, &graph, &goal, &options, &l);
		double t2 = now();
		ordered = t1 - t0 < ordered ? t1 - t0 : ordered;
		limited = t2 - t1 < limited ? t2 - t1 : limited;
		free_block(r.certificates);
		free_block(l.steps);
	}
	printf("%.3f %.3f\n", ordered, limited);
}

static void run_order(void) {
	const onnxmem_options o = options;
	const onnxmem_graph g = graph;
	const size_t n = g.node_count, m = g.tensor_count;
	onnxmem_ordered r, v;
	int32_t *order = calloc(n + 1, 4);
	CALL(order_nodes, &g, &o, order, &r);
	printf("%lld %lld %d", (long long)r.peak, (long long)r.bound, r.proven);
	for (size_t i = 0; i < n; i++)
		printf(" %d", order[i]);
	putchar('\n');
	CALL(verify_order, &g, &o, order, r.certificates, r.certificate_count, &v);
	if (v.peak != r.peak || v.bound > r.bound)
		DIE("verified: peak %lld, bound %lld", (long long)v.peak, (long long)v.bound);
	printf("verified %d\n", v.proven);
	free_block(r.certificates);

	buffers = (onnxmem_buffers){.struct_size = sizeof buffers};
	int32_t *buffer = calloc(m + 1, 4);
	int64_t *lower = calloc(n + m + 1, 8), *upper = calloc(n + m + 1, 8), *size = calloc(n + m + 1, 8), *offsets = calloc(n + m + 1, 8);
	CALL(lifetimes, &g, order, buffer, &buffers.count, lower, upper, size);
	buffers.lower = lower;
	buffers.upper = upper;
	buffers.size = size;
	onnxmem_packed packed;
	CALL(pack, &buffers, &o, offsets, &packed, NULL, NULL);
	if (packed.bound != r.peak)
		DIE("the buffers of the order have a load of %lld, expected its peak, %lld", (long long)packed.bound, (long long)r.peak);
	printf("arena %lld\n", (long long)packed.arena);
	if (goal.percent == 0)
		return;

	onnxmem_limited l;
	int64_t peak, bound;
	CALL(limit_peak, &g, &goal, &o, &l);
	printf("%lld %d %lld %.6f %.6f", (long long)l.limit, l.feasible, (long long)l.peak, l.extra_percent, l.extra_at_least);
	int32_t *swapped = calloc(l.swap_count + 1, 4);
	for (size_t i = 0; i < l.swap_count; i++)
		swapped[i] = l.swaps[i].tensor;
	for (size_t i = 0; i < l.step_count; i++)
		printf(" %d", l.steps[i]);
	putchar('\n');
	if (l.feasible == 1) {
		CALL(verify_limit, &g, &o, l.steps, l.step_count, swapped, l.swap_count, &peak, &bound);
		if (peak != l.peak || peak > l.limit || bound > peak)
			DIE("verified: peak %lld, bound %lld", (long long)peak, (long long)bound);
		EXPECT(ONNXMEM_FAILED, "does not run", verify_limit(&g, &o, l.steps, 1, NULL, 0, NULL, NULL, error, sizeof error));
	}
	free_block(l.steps);
}

int main(int argc, char **argv) {
	if (argc != 3)
		DIE("usage: host LIBRARY MODE");
	const char *path = argv[1], *mode = argv[2];
	int reads = strcmp(mode, "order") == 0 || strcmp(mode, "graphs") == 0;
	int needs = !reads && strcmp(mode, "errors") != 0 && strcmp(mode, "empty") != 0 && strcmp(mode, "start") != 0 && strcmp(mode, "version") != 0;
	if (needs)
		read_buffers();
	if (reads)
		read_graph();
	if (strcmp(mode, "start") == 0)
		run_start(path);
	else if (strcmp(mode, "signals") == 0)
		run_signals(path);
	else if (strcmp(mode, "close") == 0)
		run_close(path);
	else {
		load(path);
		if (strcmp(mode, "pack") == 0)
			run_pack();
		else if (strcmp(mode, "threads") == 0)
			run_threads();
		else if (strcmp(mode, "cancel") == 0)
			run_cancel();
		else if (strcmp(mode, "fork") == 0)
			run_fork(argv[0], path);
		else if (strcmp(mode, "latency") == 0)
			run_latency();
		else if (strcmp(mode, "errors") == 0)
			run_errors();
		else if (strcmp(mode, "empty") == 0)
			run_empty();
		else if (strcmp(mode, "order") == 0)
			run_order();
		else if (strcmp(mode, "graphs") == 0)
			run_graphs();
		else
			puts(version());
	}
	return 0;
}
