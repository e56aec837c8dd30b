// A libcuda, a libnvrtc, a libcublas and a libcudnn without a GPU, in one library. Device memory is host memory
// between guard pages; "cubins" are shared libraries that the C++ compiler makes of CUDA C
// with cuda_cpu.h. The package comment of fake.go says what it finds and where it differs
// from CUDA.
#include "fibres.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef int Result;
enum : Result {
	ok = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, no_device = 100, invalid_image = 200, invalid_context = 201,
	invalid_handle = 400, not_found = 500, not_ready = 600, capture_unsupported = 900, capture_invalidated = 901, capture_merge = 902,
	capture_unmatched = 903, capture_unjoined = 904, capture_wrong_thread = 908,
};

// ---- Settings and counters

enum Mode { eager, lazy, shuffled, null };

static std::recursive_mutex guard;
#define LOCK std::lock_guard<std::recursive_mutex> lock(guard)

static Mode mode = lazy;
static unsigned seed = 1;
static bool strict;
static uint64_t total_bytes = (uint64_t)8 << 30, used_bytes;
static uint64_t hidden_bytes; // what modules and graphs take: only cuMemGetInfo tells of it
static int allocations_to_failure; // 0: none fails
static int waits_to_skip;          // 0: none is skipped

// The order of fields is that of Counters in fake.go.
struct Counters {
	uint64_t launches, allocations, frees, live_bytes, live_blocks, pinned;
	uint64_t uploads, uploaded_bytes, downloads, downloaded_bytes, copies, copied_bytes, fills;
	uint64_t modules, compiles, graph_launches, captures, synchronizations, waits, float_atomics, products, beside, convolutions, live_objects;
	uint64_t live_pinned, live_handles;
};

// With COUNT_ONLY, kernels are neither compiled nor run, whatever the mode: bench/golden.py counts
// the launches of large networks. FAKECUDA_COUNTERS then names a file that holds a Tally however
// the process ends: the counters, and digests of what was compiled and of what was launched.
#ifdef COUNT_ONLY
static const bool count_only = true;
struct Tally { Counters counters; uint64_t compiled, launched; };
static Tally &tally = *[] {
	const char *path = getenv("FAKECUDA_COUNTERS");
	int file = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0644) : -1;
	void *at = file < 0 || ftruncate(file, sizeof(Tally)) ? MAP_FAILED : mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED) { perror("FAKECUDA_COUNTERS"); abort(); }
	close(file);
	return (Tally *)at;
}();
#else
static const bool count_only = false;
static struct { Counters counters; uint64_t compiled, launched; } tally;
#endif
static Counters &counters = tally.counters;

// hash is FNV-1a with a start of the caller's choice.
static uint64_t hash(uint64_t h, const std::string &text) {
	for (unsigned char c : text) h = (h ^ c) * 1099511628211u;
	return (h ^ 0x1ff) * 1099511628211u; // the end
}

static void set_mode(const char *text) {
	if (!strcmp(text, "eager")) mode = eager;
	else if (!strcmp(text, "null")) mode = null;
	else if (!strncmp(text, "random", 6)) { mode = shuffled; seed = text[6] == ':' ? (unsigned)atoi(text + 7) : 1; }
	else mode = lazy;
}

static struct FromEnvironment {
	FromEnvironment() {
		if (const char *m = getenv("FAKECUDA")) set_mode(m);
		if (const char *b = getenv("FAKECUDA_BYTES")) total_bytes = strtoull(b, nullptr, 0);
		strict = getenv("FAKECUDA_STRICT") != nullptr;
	}
} from_environment;

API void fakecuda_mode(const char *text) { LOCK; set_mode(text); }
API void fakecuda_memory(uint64_t bytes) { LOCK; total_bytes = bytes; }
API void fakecuda_fail_allocation(int n) { LOCK; allocations_to_failure = n; }
API void fakecuda_skip_wait(int n) { LOCK; waits_to_skip = n; }
API void fakecuda_reset_counters() { LOCK; Counters before = counters; counters = {}; counters.live_bytes = before.live_bytes; counters.live_blocks = before.live_blocks; counters.live_objects = before.live_objects; counters.live_pinned = before.live_pinned; }

// ---- Memory

struct Range { size_t bytes, whole; char *map; };
static std::map<uint64_t, Range> memory; // by address
static const size_t guard_bytes = (size_t)16 << 20; // before and behind each block: addresses, not memory

static size_t pages(size_t bytes) { return (bytes + 4095) & ~(size_t)4095; }

// protect opens or closes device memory for everybody but the device.
static void protect(int how) {
	for (auto &m : memory) mprotect(m.second.map + guard_bytes, pages(m.second.bytes), how);
}
API void fakecuda_strict(int on) {
	LOCK;
	strict = on != 0;
	protect(strict ? PROT_NONE : PROT_READ | PROT_WRITE);
}

static bool inside(uint64_t p, size_t bytes) {
	auto i = memory.upper_bound(p);
	if (i == memory.begin()) return false;
	--i;
	return p + bytes <= i->first + i->second.bytes;
}

static bool fails() { return allocations_to_failure > 0 && --allocations_to_failure == 0; }

// ---- Streams, events, graphs

struct Stream;
struct Graph;
typedef std::function<void()> Work;

// Recording is one recording of an event. Who waits for it keeps it, while the event may be
// recorded again, or be destroyed.
struct Recording { Stream *by; bool done; double at; };
// Event is what CUDA calls one; while a stream is captured it holds the nodes of the graph
// that come before it instead.
struct Event { bool timing; std::shared_ptr<Recording> last; Graph *graph; std::set<size_t> nodes; };
struct Item { Work run; std::shared_ptr<Recording> wait, record; };
struct Stream { std::deque<Item> queue; Graph *capture; std::set<size_t> nodes; };

// Node is captured work, and the nodes before it that must have been done.
struct Node { Work run; std::set<size_t> after; };
struct Graph { std::vector<Node> nodes; bool broken; Stream *origin; uint64_t bytes = 0; };

static std::vector<Stream *> streams; // in the order of creation, so that random orders repeat
static std::set<Event *> events;
static std::set<Graph *> graphs;
static Stream default_stream{};
static int context_object;
static bool initialized;
static thread_local void *current;
static thread_local int capturing; // streams that this thread captures

static double now() { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// beside reports whether another stream has work that nothing holds up: a GPU may do it at the
// same time.
static bool beside(const Stream *s) {
	auto idle = [](const Stream *t) {
		for (const Item &i : t->queue) {
			if (i.wait && !i.wait->done) return true;
			if (i.run) return false;
		}
		return true;
	};
	if (s != &default_stream && !idle(&default_stream)) return true;
	for (const Stream *t : streams)
		if (t != s && !idle(t)) return true;
	return false;
}

static void perform(const Item &item) {
	if (item.run) {
		if (strict) protect(PROT_READ | PROT_WRITE);
		item.run();
		if (strict) protect(PROT_NONE);
	}
	if (item.record) *item.record = {nullptr, true, now()};
}

// step does the next work of a stream, after the work of other streams that it waits for.
static void step(Stream *s) {
	std::shared_ptr<Recording> r = s->queue.front().wait;
	while (r && !r->done) step(r->by);
	Item item = std::move(s->queue.front());
	s->queue.pop_front();
	if (item.run && beside(s)) counters.beside++;
	perform(item);
}
static void drain(Stream *s) { while (!s->queue.empty()) step(s); }
static void drain_all() {
	drain(&default_stream);
	for (Stream *s : streams) drain(s);
}

// capture adds work to the graph that the stream belongs to.
static Result capture(Stream *s, Work run) {
	Graph *g = s->capture;
	if (g->broken) return capture_invalidated;
	if (!run) return ok;
	g->nodes.push_back({std::move(run), s->nodes});
	s->nodes = {g->nodes.size() - 1};
	return ok;
}

// put queues work, and does some of what is queued, as the mode says.
static Result put(Stream *s, Item item) {
	if (!s) s = &default_stream;
	if (s->capture) return capture(s, std::move(item.run));
	s->queue.push_back(std::move(item));
	if (mode == eager || mode == null) drain(s);
	if (mode != shuffled) return ok;
	for (int k = rand_r(&seed) % 3; k > 0; k--) {
		size_t i = rand_r(&seed) % (streams.size() + 1);
		Stream *t = i == streams.size() ? &default_stream : streams[i];
		if (!t->queue.empty()) step(t);
	}
	return ok;
}

// replay does a graph's work in an order that its nodes allow: as captured if eager, at
// random if shuffled, else the latest node first, which shows an order that is missing.
static void replay(const std::vector<Node> &nodes) {
	std::vector<size_t> missing(nodes.size());
	std::vector<std::vector<size_t>> later(nodes.size());
	std::set<size_t> ready;
	for (size_t i = 0; i < nodes.size(); i++) {
		for (size_t before : nodes[i].after) later[before].push_back(i);
		if ((missing[i] = nodes[i].after.size()) == 0) ready.insert(i);
	}
	while (!ready.empty()) {
		auto next = ready.begin();
		if (mode == lazy) next = std::prev(ready.end());
		if (mode == shuffled) std::advance(next, rand_r(&seed) % ready.size());
		size_t i = *next;
		ready.erase(next);
		if (!ready.empty()) counters.beside++;
		nodes[i].run();
		for (size_t l : later[i])
			if (--missing[l] == 0) ready.insert(l);
	}
}

// joined reports whether all nodes come before what the first stream would do next: CUDA
// refuses a graph of which a stream was not waited for.
static bool joined(const Graph *g) {
	std::set<size_t> found = g->origin->nodes;
	for (size_t i = g->nodes.size(); i-- > 0;) {
		if (!found.count(i)) return false;
		found.insert(g->nodes[i].after.begin(), g->nodes[i].after.end());
	}
	return true;
}

// forbidden reports whether a call is not allowed because this thread captures, and then
// breaks what it captures, as CUDA does.
static bool forbidden() {
	if (!capturing) return false;
	for (Stream *s : streams) if (s->capture) s->capture->broken = true;
	return true;
}

#define NEED_CONTEXT \
	if (!initialized) return not_initialized; \
	if (!current) return invalid_context; \
	LOCK
#define NOT_IN_CAPTURE if (forbidden()) return capture_unsupported

static bool known(Stream *s) { return !s || std::find(streams.begin(), streams.end(), s) != streams.end(); }

// ---- Device and context

API Result cuInit(unsigned) { initialized = true; return ok; }
API Result cuDriverGetVersion(int *v) { *v = 13000; return ok; }
API Result cuDeviceGetCount(int *n) { *n = 1; return ok; }
API Result cuDeviceGet(int *d, int i) { *d = 0; return i ? 101 : ok; }
API Result cuDeviceGetName(char *text, int n, int) { snprintf(text, n, "Fake GPU (host memory)"); return ok; }
API Result cuDeviceTotalMem_v2(size_t *n, int) { *n = total_bytes; return ok; }
API Result cuDeviceGetUuid_v2(char *id, int) { memset(id, 7, 16); return ok; }
API Result cuDeviceGetAttribute(int *v, int attribute, int) {
	static const std::map<int, int> values = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32}, {16, 4}, {75, 9}, {76, 0}, {97, 232448}};
	auto i = values.find(attribute);
	*v = i == values.end() ? 0 : i->second;
	return ok;
}
API Result cuDevicePrimaryCtxRetain(void **c, int) { *c = &context_object; return initialized ? ok : not_initialized; }
API Result cuDevicePrimaryCtxRelease_v2(int) { return ok; }
API Result cuCtxSetCurrent(void *c) { current = c; return ok; }
API Result cuCtxGetCurrent(void **c) { *c = current; return ok; }
API Result cuCtxGetDevice(int *d) { NEED_CONTEXT; *d = 0; return ok; }
API Result cuCtxSynchronize() { NEED_CONTEXT; NOT_IN_CAPTURE; counters.synchronizations++; drain_all(); return ok; }

// ---- Memory calls

API Result cuMemGetInfo_v2(size_t *free, size_t *total) { NEED_CONTEXT; *free = total_bytes - std::min(total_bytes, used_bytes + hidden_bytes); *total = total_bytes; return ok; }
API Result cuMemAlloc_v2(uint64_t *p, size_t n) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	if (n == 0) return invalid_value;
	if (fails() || n > total_bytes || used_bytes > total_bytes - n) return out_of_memory;
	size_t whole = pages(n) + 2 * guard_bytes;
	char *m = (char *)mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED) return out_of_memory;
	char *first = m + guard_bytes;
	mprotect(first, pages(n), PROT_READ | PROT_WRITE);
	if (!count_only) memset(first, 0xff, n < ((size_t)64 << 20) ? pages(n) : 0); // larger blocks are not touched
	if (strict) mprotect(first, pages(n), PROT_NONE);
	// The block ends where the guard begins, but for the alignment that CUDA promises.
	*p = (uint64_t)first + pages(n) - (n + 255) / 256 * 256;
	memory[*p] = {n, whole, m};
	used_bytes += n;
	counters.allocations++;
	counters.live_blocks++;
	counters.live_bytes += n;
	return ok;
}
API Result cuMemAllocManaged(uint64_t *p, size_t n, unsigned) { return cuMemAlloc_v2(p, n); }
API Result cuMemFree_v2(uint64_t p) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	drain_all();
	auto i = memory.find(p);
	if (i == memory.end()) return invalid_value;
	munmap(i->second.map, i->second.whole);
	used_bytes -= i->second.bytes;
	counters.frees++;
	counters.live_blocks--;
	counters.live_bytes -= i->second.bytes;
	memory.erase(i);
	return ok;
}
static std::map<void *, size_t> pinned;
API Result cuMemAllocHost_v2(void **p, size_t n) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	if (n == 0) return invalid_value;
	if (fails()) return out_of_memory;
	*p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*p == MAP_FAILED) return out_of_memory;
	pinned[*p] = n;
	counters.pinned++;
	counters.live_pinned += n;
	return ok;
}
API Result cuMemFreeHost(void *p) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	drain_all();
	auto i = pinned.find(p);
	if (i == pinned.end()) return invalid_value;
	munmap(p, i->second);
	counters.live_pinned -= i->second;
	pinned.erase(i);
	return ok;
}

static Result copy(void *to, const void *from, size_t n, Stream *s) {
	if (!known(s)) return invalid_handle;
	return put(s, {[=] { memmove(to, from, n); }, nullptr, nullptr});
}
API Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, Stream *s) {
	NEED_CONTEXT;
	if (!inside(to, n)) return invalid_value;
	counters.uploads++;
	counters.uploaded_bytes += n;
	return copy((void *)to, from, n, s);
}
API Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, Stream *s) {
	NEED_CONTEXT;
	if (!inside(from, n)) return invalid_value;
	counters.downloads++;
	counters.downloaded_bytes += n;
	return copy(to, (void *)from, n, s);
}
API Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, Stream *s) {
	NEED_CONTEXT;
	if (!inside(from, n) || !inside(to, n)) return invalid_value;
	counters.copies++;
	counters.copied_bytes += n;
	return copy((void *)to, (void *)from, n, s);
}
API Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	Result r = cuMemcpyHtoDAsync_v2(to, from, n, nullptr);
	if (r == ok) drain(&default_stream);
	return r;
}
API Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	Result r = cuMemcpyDtoHAsync_v2(to, from, n, nullptr);
	if (r == ok) drain(&default_stream);
	return r;
}

template <class T> static Result fill(uint64_t at, T v, size_t n, Stream *s) {
	NEED_CONTEXT;
	if (!inside(at, n * sizeof(T)) || at % sizeof(T)) return invalid_value;
	if (!known(s)) return invalid_handle;
	counters.fills++;
	return put(s, {[=] { std::fill_n((T *)at, n, v); }, nullptr, nullptr});
}
API Result cuMemsetD8Async(uint64_t at, unsigned char v, size_t n, Stream *s) { return fill<uint8_t>(at, v, n, s); }
API Result cuMemsetD16Async(uint64_t at, unsigned short v, size_t n, Stream *s) { return fill<uint16_t>(at, v, n, s); }
API Result cuMemsetD32Async(uint64_t at, unsigned v, size_t n, Stream *s) { return fill<uint32_t>(at, v, n, s); }

// ---- Stream calls

API Result cuStreamCreate(Stream **s, unsigned) { NEED_CONTEXT; streams.push_back(*s = new Stream{}); return ok; }
API Result cuStreamDestroy_v2(Stream *s) {
	NEED_CONTEXT;
	if (!s || !known(s)) return invalid_handle;
	drain(s);
	if (s->capture && s->capture->origin == s) return capture_unsupported;
	streams.erase(std::find(streams.begin(), streams.end(), s));
	delete s;
	return ok;
}
API Result cuStreamSynchronize(Stream *s) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	if (!known(s)) return invalid_handle;
	counters.synchronizations++;
	drain(s ? s : &default_stream);
	return ok;
}
API Result cuStreamQuery(Stream *s) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	if (!known(s)) return invalid_handle;
	return (s ? s : &default_stream)->queue.empty() ? ok : not_ready;
}
API Result cuStreamWaitEvent(Stream *s, Event *e, unsigned) {
	NEED_CONTEXT;
	if (!known(s) || !events.count(e)) return invalid_handle;
	if (!s) s = &default_stream;
	counters.waits++;
	if (waits_to_skip > 0 && --waits_to_skip == 0) return ok;
	if (!e->graph) return e->last ? put(s, {nullptr, e->last, nullptr}) : ok;
	if (s->capture && s->capture != e->graph) return capture_merge;
	s->capture = e->graph; // the stream joins the capture
	s->nodes.insert(e->nodes.begin(), e->nodes.end());
	return ok;
}
API Result cuEventCreate(Event **e, unsigned flags) { NEED_CONTEXT; events.insert(*e = new Event{!(flags & 2), nullptr, nullptr, {}}); return ok; }
API Result cuEventDestroy_v2(Event *e) {
	NEED_CONTEXT;
	if (!events.erase(e)) return invalid_handle;
	delete e;
	return ok;
}
API Result cuEventRecord(Event *e, Stream *s) {
	NEED_CONTEXT;
	if (!known(s) || !events.count(e)) return invalid_handle;
	if (!s) s = &default_stream;
	e->graph = s->capture;
	e->nodes = s->nodes;
	if (s->capture) return s->capture->broken ? capture_invalidated : ok;
	e->last = std::make_shared<Recording>(Recording{s, false, 0});
	return put(s, {nullptr, nullptr, e->last});
}
API Result cuEventSynchronize(Event *e) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	if (!events.count(e)) return invalid_handle;
	counters.synchronizations++;
	std::shared_ptr<Recording> r = e->last;
	while (r && !r->done) step(r->by);
	return ok;
}
API Result cuEventQuery(Event *e) {
	NEED_CONTEXT;
	if (!events.count(e)) return invalid_handle;
	return e->last && !e->last->done ? not_ready : ok;
}
API Result cuEventElapsedTime(float *ms, Event *a, Event *b) {
	NEED_CONTEXT;
	for (Event *e : {a, b})
		if (!events.count(e) || !e->timing || !e->last) return invalid_handle;
	if (!a->last->done || !b->last->done) return not_ready;
	*ms = (float)(b->last->at - a->last->at);
	return ok;
}

API Result cuStreamBeginCapture_v2(Stream *s, int) {
	NEED_CONTEXT;
	if (!s || !known(s) || s->capture) return capture_unsupported;
	s->capture = new Graph{{}, false, s};
	s->nodes.clear();
	capturing++;
	counters.captures++;
	return ok;
}
API Result cuStreamEndCapture(Stream *s, Graph **to) {
	NEED_CONTEXT;
	if (!s || !known(s) || !s->capture) return invalid_value;
	Graph *g = s->capture;
	if (g->origin != s) return capture_unmatched;
	if (!capturing) return capture_wrong_thread;
	capturing--;
	Result r = g->broken ? capture_invalidated : joined(g) ? ok : capture_unjoined;
	for (Stream *t : streams)
		if (t->capture == g) { t->capture = nullptr; t->nodes.clear(); }
	for (Event *e : events)
		if (e->graph == g) { e->graph = nullptr; e->nodes.clear(); }
	*to = r == ok ? g : nullptr;
	if (r == ok) graphs.insert(g);
	else delete g;
	return r;
}
API Result cuGraphInstantiateWithFlags(Graph **e, Graph *g, unsigned long long) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	if (!graphs.count(g)) return invalid_value;
	graphs.insert(*e = new Graph(*g));
	(*e)->bytes = 256 * (g->nodes.size() + 1);
	hidden_bytes += (*e)->bytes;
	return ok;
}
API Result cuGraphLaunch(Graph *g, Stream *s) {
	NEED_CONTEXT;
	if (!known(s) || !graphs.count(g)) return invalid_handle;
	counters.graph_launches++;
	auto nodes = std::make_shared<std::vector<Node>>(g->nodes); // the graph may be destroyed first
	return put(s, {[nodes] { replay(*nodes); }, nullptr, nullptr});
}
static Result destroy(Graph *g) {
	LOCK;
	if (!graphs.erase(g)) return invalid_value;
	hidden_bytes -= g->bytes;
	delete g;
	return ok;
}
API Result cuGraphExecDestroy(Graph *g) { return destroy(g); }
API Result cuGraphDestroy(Graph *g) { return destroy(g); }

// ---- Modules and launches

struct Function { const fake::Stub *stub; const fake::Library *library; size_t most_shared = 49152; };
struct Module { void *library; uint64_t bytes; std::map<std::string, std::unique_ptr<Function>> functions; };
static std::set<Module *> modules;
static std::set<Function *> functions;
static const char magic[8] = {'F', 'A', 'K', 'E', 'B', 'I', 'N', '1'}; // and the length, and a shared library

API Result cuModuleLoadData(Module **m, const void *image) {
	NEED_CONTEXT;
	NOT_IN_CAPTURE;
	const char *p = (const char *)image;
	if (memcmp(p, magic, sizeof magic)) return invalid_image;
	uint64_t n;
	memcpy(&n, p + 8, 8);
	if (count_only) {
		modules.insert(*m = new Module{nullptr, n, {}});
		counters.modules++;
		return ok;
	}
	char path[] = "/tmp/fakecubinXXXXXX"; // the loader takes two libraries of one name for one
	int file = mkstemp(path);
	if (file < 0) return out_of_memory;
	for (uint64_t at = 0; at < n;) {
		ssize_t k = write(file, p + 16 + at, n - at);
		if (k <= 0) { close(file); unlink(path); return out_of_memory; }
		at += k;
	}
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) fprintf(stderr, "fake cuda: %s\n", dlerror());
	close(file);
	unlink(path);
	if (!library) return invalid_image;
	modules.insert(*m = new Module{library, n, {}});
	hidden_bytes += n;
	counters.modules++;
	return ok;
}
API Result cuModuleUnload(Module *m) {
	NEED_CONTEXT;
	if (!modules.erase(m)) return invalid_handle;
	hidden_bytes -= m->bytes;
	drain_all();
	for (auto &f : m->functions) functions.erase(f.second.get());
	if (m->library) dlclose(m->library);
	delete m;
	return ok;
}
API Result cuModuleGetFunction(Function **f, Module *m, const char *name) {
	NEED_CONTEXT;
	if (!modules.count(m)) return invalid_handle;
	std::unique_ptr<Function> &have = m->functions[name];
	if (!have && count_only) have.reset(new Function{new fake::Stub{strdup(name)}});
	if (!have) {
		auto stub = (const fake::Stub *)dlsym(m->library, (std::string("stub_") + name).c_str());
		if (!stub) return not_found;
		have.reset(new Function{stub, (const fake::Library *)dlsym(m->library, "fake_library")});
	}
	functions.insert(*f = have.get());
	return ok;
}
API Result cuFuncSetAttribute(Function *f, int attribute, int v) {
	NEED_CONTEXT;
	if (!functions.count(f)) return invalid_handle;
	if (attribute != 8 || v < 0 || v > 232448) return invalid_value;
	f->most_shared = v;
	return ok;
}
#ifndef COUNT_ONLY // as drivers before CUDA 12.4
API Result cuFuncGetParamInfo(Function *f, size_t i, size_t *offset, size_t *size) {
	NEED_CONTEXT;
	if (!functions.count(f)) return invalid_handle;
	if (i >= f->stub->count) return invalid_value;
	*offset = 0;
	for (size_t k = 0; k < i; k++) *offset += (f->stub->sizes[k] + 7) & ~(size_t)7;
	*size = f->stub->sizes[i];
	return ok;
}
#endif

// Call is a launch with its own copy of the parameters.
struct Call {
	Function *f;
	unsigned grid[3], size[3];
	size_t shared;
	std::vector<uint64_t> held;
	std::vector<size_t> at; // of each parameter
	void run() {
		std::vector<void *> p;
		for (size_t a : at) p.push_back(&held[a]);
		uint64_t before = *f->library->float_atomics;
		fake::launch(f->library, f->stub, p.data(), grid, size, shared);
		counters.float_atomics += *f->library->float_atomics - before;
	}
};

API Result cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream *s, void **params, void **) {
	NEED_CONTEXT;
	counters.launches++;
	if (count_only) {
		char at[120];
		snprintf(at, sizeof at, "%u %u %u, %u %u %u, %u", gx, gy, gz, bx, by, bz, shared);
		tally.launched = hash(hash(tally.launched, f->stub->name), at);
		return ok;
	}
	if (mode == null) return ok;
	if (!known(s) || !functions.count(f)) return invalid_handle;
	if (!gx || !gy || !gz || !bx || !by || !bz || gx > 2147483647u || gy > 65535 || gz > 65535 || bx > 1024 || by > 1024 || bz > 64 || bx * by * bz > 1024 || shared > f->most_shared) return invalid_value;
	auto c = std::make_shared<Call>(Call{f, {gx, gy, gz}, {bx, by, bz}, shared, {}, {}});
	size_t words = 0;
	for (unsigned i = 0; i < f->stub->count; i++) words += (f->stub->sizes[i] + 15) / 16 * 2;
	c->held.resize(words);
	for (unsigned i = 0, at = 0; i < f->stub->count; i++) {
		memcpy(&c->held[at], params[i], f->stub->sizes[i]);
		c->at.push_back(at);
		at += (f->stub->sizes[i] + 15) / 16 * 2;
	}
	return put(s, {[c] { c->run(); }, nullptr, nullptr});
}

API void fakecuda_counters(Counters *to) {
	LOCK;
	*to = counters;
	to->live_handles = streams.size() + events.size() + graphs.size();
}

static const std::map<Result, const char *> names = {
	{ok, "CUDA_SUCCESS"}, {invalid_value, "CUDA_ERROR_INVALID_VALUE"}, {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"}, {not_initialized, "CUDA_ERROR_NOT_INITIALIZED"},
	{no_device, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {invalid_image, "CUDA_ERROR_INVALID_IMAGE"}, {invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
	{invalid_handle, "CUDA_ERROR_INVALID_HANDLE"}, {not_found, "CUDA_ERROR_NOT_FOUND"}, {not_ready, "CUDA_ERROR_NOT_READY"},
	{capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}, 
	{capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE"}, {capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"}, {capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
	{capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
};
API Result cuGetErrorName(Result r, const char **text) {
	auto i = names.find(r);
	*text = i == names.end() ? nullptr : i->second;
	return *text ? ok : invalid_value;
}
API Result cuGetErrorString(Result r, const char **text) { return cuGetErrorName(r, text); }

// ---- cuBLAS

// The few entries that are used. Products are summed up in double, and rounded once. Each
// needs a workspace of its caller's, whose ends it writes over: nothing else may be there.

enum { blas_not_initialized = 1, blas_invalid_value = 7, blas_mapping = 11, blas_not_supported = 15 };
struct Blas { Stream *stream; uint64_t workspace; size_t bytes; };
static std::set<Blas *> handles;

API int cublasCreate_v2(Blas **h) {
	LOCK;
	if (!initialized || !current || forbidden()) return blas_not_initialized;
	handles.insert(*h = new Blas{});
	return 0;
}
API int cublasDestroy_v2(Blas *h) {
	LOCK;
	if (!handles.erase(h)) return blas_not_initialized;
	delete h;
	return 0;
}
API int cublasGetVersion_v2(Blas *h, int *v) { LOCK; *v = 130100; return handles.count(h) ? 0 : blas_not_initialized; }
API int cublasSetStream_v2(Blas *h, Stream *s) {
	LOCK;
	if (!handles.count(h)) return blas_not_initialized;
	if (!known(s)) return blas_invalid_value;
	*h = {s, 0, 0}; // the workspace is the library's own again
	return 0;
}
API int cublasSetWorkspace_v2(Blas *h, uint64_t at, size_t bytes) {
	LOCK;
	if (!handles.count(h)) return blas_not_initialized;
	if (at % 256 || !inside(at, bytes)) return blas_invalid_value;
	h->workspace = at;
	h->bytes = bytes;
	return 0;
}
API int cublasSetMathMode(Blas *h, int mode) { LOCK; return handles.count(h) ? mode == 0 || mode == 2 || mode == 16 ? 0 : blas_not_supported : blas_not_initialized; }

static double real_at(uint64_t p, int type, int64_t i) {
	if (type == 0) return ((const float *)p)[i];
	uint16_t h = ((const uint16_t *)p)[i];
	uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, 4);
	if (type == 14) return f;
	int e = h >> 10 & 31, m = h & 1023;
	double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h >> 15 ? -v : v;
}

// tf32 is a real rounded to 10 bits of fraction, as tensor cores see a float.
static double tf32(double v) {
	float f = (float)v;
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~0x1fffu; // ties away from 0
	memcpy(&f, &bits, 4);
	return f;
}

// narrowed is a real as a 16-bit float of so many bits of fraction, the exponents of which
// begin at 2^low.
static uint16_t narrowed(double v, int fraction, int low) {
	uint16_t sign = std::signbit(v) ? 0x8000 : 0, inf = (uint16_t)(0x7fff >> fraction << fraction);
	v = fabs(v);
	if (v != v) return inf | 1;
	if (std::isinf(v)) return sign | inf;
	int e = v > 0 ? std::max(ilogb(v), low) : low;
	double n = nearbyint(ldexp(v, fraction - e)); // in units of the last place: a carry moves into the exponent
	uint64_t bits = (uint64_t)n + ((uint64_t)(e - low) << fraction);
	return sign | (uint16_t)std::min<uint64_t>(bits, inf);
}
static void put_real(uint64_t p, int type, int64_t i, double v) {
	if (type == 0) ((float *)p)[i] = (float)v;
	else ((uint16_t *)p)[i] = type == 2 ? narrowed(v, 10, -14) : narrowed(v, 7, -126);
}

// Side is a matrix of a batch, column by column.
struct Side { uint64_t at; int lead; int64_t stride; };

// spans reports whether a batch of matrices lies in device memory.
static bool spans(const Side &s, int rows, int columns, int batch, size_t size) {
	return s.lead >= std::max(rows, 1) && s.stride >= 0 && inside(s.at, size * ((int64_t)(columns - 1) * s.lead + rows + (batch - 1) * s.stride));
}

API int cublasGemmStridedBatchedEx(Blas *h, int ta, int tb, int m, int n, int k, const float *alpha, uint64_t a, int atype, int lda, long long sa, uint64_t b, int btype, int ldb, long long sb,
		const float *beta, uint64_t c, int ctype, int ldc, long long sc, int batch, int compute, int algorithm) {
	LOCK;
	if (!handles.count(h) || !current) return blas_not_initialized;
	if (atype != btype || btype != ctype || (ctype != 0 && ctype != 2 && ctype != 14) || (compute != 68 && (compute != 77 || ctype != 0)) || algorithm != -1) return blas_not_supported;
	size_t size = ctype == 0 ? 4 : 2;
	Side A{a, lda, sa}, B{b, ldb, sb}, C{c, ldc, sc};
	if (m < 1 || n < 1 || k < 1 || batch < 1 || ta < 0 || ta > 1 || tb < 0 || tb > 1 || !spans(A, ta ? k : m, ta ? m : k, batch, size) || !spans(B, tb ? n : k, tb ? k : n, batch, size) ||
		!spans(C, m, n, batch, size)) return blas_invalid_value;
	if (!h->bytes) return blas_mapping; // it would allocate
	counters.launches++;
	counters.products++;
	if (mode == null) return 0;
	uint64_t work = h->workspace;
	size_t bytes = h->bytes;
	float scale = *alpha, keep = *beta;
	auto seen = [=](uint64_t p, int64_t i) { double v = real_at(p, ctype, i); return compute == 77 ? tf32(v) : v; };
	Result r = put(h->stream, {[=] {
		size_t edge = std::min<size_t>(bytes, 4096);
		memset((void *)work, 0xa5, edge);
		memset((void *)(work + bytes - edge), 0x5a, edge);
		for (int64_t s = 0; s < batch; s++)
			for (int64_t j = 0; j < n; j++)
				for (int64_t i = 0; i < m; i++) {
					double sum = 0;
					for (int64_t l = 0; l < k; l++)
						sum += seen(A.at, s * A.stride + (ta ? l + i * A.lead : i + l * A.lead)) * seen(B.at, s * B.stride + (tb ? j + l * B.lead : l + j * B.lead));
					int64_t at = s * C.stride + i + j * C.lead;
					put_real(C.at, ctype, at, scale * sum + (keep != 0 ? keep * real_at(C.at, ctype, at) : 0));
				}
	}, nullptr, nullptr});
	return r == ok ? 0 : blas_mapping;
}

// ---- cuDNN

// The few entries that are used. A convolution is summed up in double, and rounded once. It
// needs a workspace of its caller's, which it writes over, and runs by one algorithm alone:
// the others of the list are not to be chosen.

enum { dnn_not_initialized = 1001, dnn_bad_param = 2000, dnn_not_supported = 3000, dnn_allocation = 4004, dnn_execution = 5000 };
enum { dnn_any_math = 0, dnn_tensor_cores = 1, dnn_converting = 2, dnn_fma = 3 };
enum Pass { forward, backward_data, backward_filter };
struct Dnn { Stream *stream; };
struct Dims { int type, count, d[5]; }; // a tensor or a filter
struct Sliding { int axes, pad[3], stride[3], dilation[3], groups, math; };
static std::set<void *> objects; // handles and descriptors
static std::string dnn_fault;    // what fails: see Fake.FailDNN
static const char *dnn_reason = "";

API void fakecuda_fail_dnn(const char *what) { LOCK; dnn_fault = what; }
static struct DnnFromEnvironment {
	DnnFromEnvironment() { if (const char *what = getenv("FAKECUDA_DNN")) dnn_fault = what; }
} dnn_from_environment;

template <class T> static T *made() {
	T *t = new T{};
	objects.insert(t);
	counters.live_objects++;
	return t;
}
template <class T> static int unmade(T *t) {
	if (!objects.erase(t)) { dnn_reason = "it is freed already"; return dnn_bad_param; }
	counters.live_objects--;
	delete t;
	return 0;
}
static int bad(const char *reason) { dnn_reason = reason; return dnn_bad_param; }
static int unsupported(const char *reason) { dnn_reason = reason; return dnn_not_supported; }

API size_t cudnnGetVersion() { return 92801; }
API size_t cudnnGetCudartVersion() { return dnn_fault == "cuda" ? 99000 : 13000; }
API void cudnnGetLastErrorString(char *to, size_t n) { LOCK; snprintf(to, n, "%s", dnn_reason); }
API int cudnnCreate(Dnn **h) {
	LOCK;
	if (!initialized || !current || forbidden()) return dnn_not_initialized;
	if (dnn_fault == "create") { dnn_reason = "no device memory"; return dnn_allocation; }
	*h = made<Dnn>();
	return 0;
}
API int cudnnDestroy(Dnn *h) { LOCK; return unmade(h); }
API int cudnnSetStream(Dnn *h, Stream *s) {
	LOCK;
	if (!objects.count(h) || !known(s)) return bad("an unknown stream or handle");
	h->stream = s;
	return 0;
}
API int cudnnCreateTensorDescriptor(Dims **t) { LOCK; *t = made<Dims>(); return 0; }
API int cudnnCreateFilterDescriptor(Dims **t) { LOCK; *t = made<Dims>(); return 0; }
API int cudnnCreateConvolutionDescriptor(Sliding **c) {
	LOCK;
	if (dnn_fault == "descriptor") return unsupported("no descriptor");
	*c = made<Sliding>();
	return 0;
}
API int cudnnDestroyTensorDescriptor(Dims *t) { LOCK; return unmade(t); }
API int cudnnDestroyFilterDescriptor(Dims *t) { LOCK; return unmade(t); }
API int cudnnDestroyConvolutionDescriptor(Sliding *c) { LOCK; return unmade(c); }
static int set_dims(Dims *t, int type, int count, const int *d) {
	if (!objects.count(t)) return bad("an unknown descriptor");
	if (count < 4 || count > 5) return unsupported("tensors have 4 or 5 axes");
	if (type != 0 && type != 2 && type != 9) return unsupported("an unknown type");
	*t = {type, count, {}};
	for (int i = 0; i < count; i++) {
		if (d[i] < 1) return bad("an axis of no length");
		t->d[i] = d[i];
	}
	return 0;
}
API int cudnnSetTensorNdDescriptor(Dims *t, int type, int count, const int *d, const int *steps) {
	LOCK;
	int r = set_dims(t, type, count, d);
	for (int i = count - 1, step = 1; !r && i >= 0; step *= d[i--])
		if (steps[i] != step) r = unsupported("a tensor that is not dense");
	return r;
}
API int cudnnSetFilterNdDescriptor(Dims *t, int type, int format, int count, const int *d) {
	LOCK;
	return format ? unsupported("filters have channels first") : set_dims(t, type, count, d);
}
API int cudnnSetConvolutionNdDescriptor(Sliding *c, int axes, const int *pad, const int *stride, const int *dilation, int mode, int type) {
	LOCK;
	if (!objects.count(c) || axes < 2 || axes > 3) return bad("an unknown descriptor, or axes other than 2 or 3");
	if (mode != 1 || type != 0) return unsupported("expected a cross-correlation in float32");
	*c = {axes, {}, {}, {}, 1, dnn_any_math};
	for (int a = 0; a < axes; a++) {
		if (pad[a] < 0 || stride[a] < 1 || dilation[a] < 1) return bad("expected pads from 0 on, strides and dilations from 1 on");
		c->pad[a] = pad[a], c->stride[a] = stride[a], c->dilation[a] = dilation[a];
	}
	return 0;
}
API int cudnnSetConvolutionGroupCount(Sliding *c, int n) { LOCK; if (!objects.count(c) || n < 1) return bad("no groups"); c->groups = n; return 0; }
API int cudnnSetConvolutionMathType(Sliding *c, int m) { LOCK; if (!objects.count(c) || m < 0 || m > 3) return bad("an unknown arithmetic"); c->math = m; return 0; }

// agree reports whether a convolution of image with filter makes the result.
static bool agree(const Dims *image, const Dims *filter, const Dims *result, const Sliding *c) {
	for (const void *p : {(const void *)image, (const void *)filter, (const void *)result, (const void *)c})
		if (!objects.count((void *)p)) return false;
	if (image->type != filter->type || image->type != result->type || image->count != c->axes + 2 || filter->count != image->count || result->count != image->count) return false;
	if (image->d[0] != result->d[0] || image->d[1] != filter->d[1] * c->groups || result->d[1] != filter->d[0] || filter->d[0] % c->groups) return false;
	for (int a = 0; a < c->axes; a++) {
		int room = image->d[2 + a] + 2 * c->pad[a] - (filter->d[2 + a] - 1) * c->dilation[a] - 1;
		if (room < 0 || room / c->stride[a] + 1 != result->d[2 + a]) return false;
	}
	return true;
}

struct Perf { int algorithm, status; float time; size_t memory; int determinism, math, reserved[3]; };
static_assert(sizeof(Perf) == 48, "as in cudnn_cnn.h");

static size_t workspace_of(Pass pass, const Dims *filter, int algorithm) {
	if (algorithm != 1 || dnn_fault == "workspace") return (size_t)1 << 40;
	return pass == backward_data && filter->d[2] == 1 ? 0 : 512 + 4 * (size_t)filter->d[0]; // some need none
}

// list_algorithms lists those that must not be chosen before the one that may.
static int list_algorithms(Pass pass, Dnn *h, const Dims *image, const Dims *filter, const Dims *result, const Sliding *c, int most, int *count, Perf *to) {
	LOCK;
	if (!objects.count(h) || !current) return dnn_not_initialized;
	if (!agree(image, filter, result, c)) return bad("the shapes do not agree");
	if (dnn_fault == "list") return unsupported("no engine");
	std::vector<Perf> list;
	auto add = [&](int algorithm, int status, int determinism, int math) { list.push_back({algorithm, status, 1, workspace_of(pass, filter, algorithm), determinism, math, {}}); };
	if (pass != forward) add(0, 0, 0, c->math);          // atomic sums
	if (pass == backward_filter) add(3, 0, 1, c->math);  // likewise, whatever the list says
	add(pass == forward ? 4 : 2, 0, 1, c->math);         // by Fourier
	add(pass == forward ? 7 : 5, 0, 1, c->math);         // by Winograd, in a large workspace
	add(1, dnn_not_supported, 1, c->math);
	if (image->type == 0) add(1, 0, 1, c->math == dnn_fma ? dnn_tensor_cores : dnn_converting); // TF32, or float16
	if (image->type == 0 && c->math == dnn_any_math) add(7, 0, 1, dnn_tensor_cores); // by Winograd
	// Without tensor cores there is nothing for bfloat16.
	if (dnn_fault != "algorithms" && (image->type != 9 || c->math != dnn_fma)) add(1, 0, 1, image->type == 0 ? c->math == dnn_fma ? dnn_fma : dnn_tensor_cores : c->math == dnn_fma ? dnn_fma : dnn_tensor_cores);
	*count = std::min<int>(most, list.size());
	std::copy_n(list.begin(), *count, to);
	return 0;
}
API int cudnnGetConvolutionForwardAlgorithm_v7(Dnn *h, Dims *x, Dims *w, Sliding *c, Dims *y, int most, int *count, Perf *to) { return list_algorithms(forward, h, x, w, y, c, most, count, to); }
API int cudnnGetConvolutionBackwardDataAlgorithm_v7(Dnn *h, Dims *w, Dims *y, Sliding *c, Dims *x, int most, int *count, Perf *to) { return list_algorithms(backward_data, h, x, w, y, c, most, count, to); }
API int cudnnGetConvolutionBackwardFilterAlgorithm_v7(Dnn *h, Dims *x, Dims *y, Sliding *c, Dims *w, int most, int *count, Perf *to) { return list_algorithms(backward_filter, h, x, w, y, c, most, count, to); }

static int workspace_size(Pass pass, Dnn *h, const Dims *image, const Dims *filter, const Dims *result, const Sliding *c, int algorithm, size_t *to) {
	LOCK;
	if (!objects.count(h) || !current) return dnn_not_initialized;
	if (!agree(image, filter, result, c)) return bad("the shapes do not agree");
	*to = workspace_of(pass, filter, algorithm);
	return 0;
}
API int cudnnGetConvolutionForwardWorkspaceSize(Dnn *h, Dims *x, Dims *w, Sliding *c, Dims *y, int algorithm, size_t *to) { return workspace_size(forward, h, x, w, y, c, algorithm, to); }
API int cudnnGetConvolutionBackwardDataWorkspaceSize(Dnn *h, Dims *w, Dims *y, Sliding *c, Dims *x, int algorithm, size_t *to) { return workspace_size(backward_data, h, x, w, y, c, algorithm, to); }
API int cudnnGetConvolutionBackwardFilterWorkspaceSize(Dnn *h, Dims *x, Dims *y, Sliding *c, Dims *w, int algorithm, size_t *to) { return workspace_size(backward_filter, h, x, w, y, c, algorithm, to); }

// Operand is a dense tensor of images x channels x three axes, of which two may be given. Its
// type is numbered as in cuBLAS.
struct Operand {
	uint64_t at;
	int type;
	int64_t d[5], length;
	Operand(const Dims *t, uint64_t p) : at(p), type(t->type == 9 ? 14 : t->type), d{t->d[0], t->d[1], 1, 1, 1}, length(1) {
		for (int i = 2; i < t->count; i++) d[i + 5 - t->count] = t->d[i];
		for (int64_t n : d) length *= n;
	}
	size_t bytes() const { return length * (type == 0 ? 4 : 2); }
	bool meets(const Operand &o) const { return at < o.at + o.bytes() && o.at < at + bytes(); }
	std::vector<double> values() const {
		std::vector<double> v(length);
		for (int64_t i = 0; i < length; i++) v[i] = real_at(at, type, i);
		return v;
	}
	int64_t index(int64_t n, int64_t c, const int64_t *p) const { return (((n * d[1] + c) * d[2] + p[0]) * d[3] + p[1]) * d[4] + p[2]; }
};

// slide visits the operands of each multiplication of a convolution: by their indices.
template <class F> static void slide(const Operand &image, const Operand &filter, const Operand &result, const Sliding &c, F f) {
	int64_t rows = filter.d[0] / c.groups, o[3], k[3], i[3];
	auto inside = [&](int a) { // the axis of the image, if it has the place
		int s = a - 3 + c.axes;
		i[a] = s < 0 ? 0 : o[a] * c.stride[s] - c.pad[s] + k[a] * c.dilation[s];
		return i[a] >= 0 && i[a] < image.d[2 + a];
	};
	for (int64_t n = 0; n < result.d[0]; n++)
		for (int64_t m = 0; m < result.d[1]; m++)
			for (o[0] = 0; o[0] < result.d[2]; o[0]++) for (o[1] = 0; o[1] < result.d[3]; o[1]++) for (o[2] = 0; o[2] < result.d[4]; o[2]++)
				for (int64_t ch = 0; ch < filter.d[1]; ch++)
					for (k[0] = 0; k[0] < filter.d[2]; k[0]++) for (k[1] = 0; k[1] < filter.d[3]; k[1]++) for (k[2] = 0; k[2] < filter.d[4]; k[2]++)
						if (inside(0) && inside(1) && inside(2))
							f(image.index(n, m / rows * filter.d[1] + ch, i), filter.index(m, ch, k), result.index(n, m, o));
}

static int convolve(Pass pass, Dnn *h, const float *alpha, const Dims *xd, uint64_t x, const Dims *wd, uint64_t w, const Dims *yd, uint64_t y, const Sliding *c, int algorithm, uint64_t work, size_t bytes, const float *beta) {
	LOCK;
	if (!objects.count(h) || !current) return dnn_not_initialized;
	if (!agree(xd, wd, yd, c)) return bad("the shapes do not agree");
	if (algorithm != 1 || (c->math != dnn_fma && c->math != dnn_tensor_cores) || (xd->type == 9 && c->math == dnn_fma)) return unsupported("an algorithm that must not be chosen");
	if (dnn_fault == "run") { dnn_reason = "no kernel"; return dnn_execution; }
	Operand X(xd, x), W(wd, w), Y(yd, y);
	const Operand &out = pass == forward ? Y : pass == backward_data ? X : W;
	for (const Operand *o : {&X, &W, &Y}) {
		if (o->at % 16 || !inside(o->at, o->bytes())) return bad("a tensor outside of device memory, or not aligned");
		if (o != &out && o->meets(out)) return bad("the output lies on an operand");
	}
	size_t needed = workspace_of(pass, wd, algorithm);
	if (bytes < needed || (needed && (work % 16 || !inside(work, bytes)))) return bad("a workspace that is too small, or outside of device memory");
	counters.launches++;
	counters.convolutions++;
	if (mode == null) return 0;
	float scale = *alpha, keep = *beta;
	Sliding s = *c;
	Result r = put(h->stream, {[=] {
		if (needed) memset((void *)work, 0xa5, needed);
		std::vector<double> a = X.values(), b = W.values(), d = Y.values();
		if (X.type == 0 && s.math == dnn_tensor_cores)
			for (std::vector<double> *list : {&a, &b, &d})
				for (double &v : *list) v = tf32(v);
		std::vector<double> &sums = pass == forward ? d : pass == backward_data ? a : b;
		std::vector<double> before = sums;
		std::fill(sums.begin(), sums.end(), 0);
		slide(X, W, Y, s, [&](int64_t i, int64_t k, int64_t o) {
			if (pass == forward) d[o] += a[i] * b[k];
			else if (pass == backward_data) a[i] += d[o] * b[k];
			else b[k] += a[i] * d[o];
		});
		const Operand &to = pass == forward ? Y : pass == backward_data ? X : W;
		for (int64_t i = 0; i < to.length; i++) put_real(to.at, to.type, i, scale * sums[i] + (keep != 0 ? keep * before[i] : 0));
	}, nullptr, nullptr});
	return r == ok ? 0 : dnn_execution;
}
API int cudnnConvolutionForward(Dnn *h, const float *alpha, Dims *xd, uint64_t x, Dims *wd, uint64_t w, Sliding *c, int algorithm, uint64_t work, size_t bytes, const float *beta, Dims *yd, uint64_t y) {
	return convolve(forward, h, alpha, xd, x, wd, w, yd, y, c, algorithm, work, bytes, beta);
}
API int cudnnConvolutionBackwardData(Dnn *h, const float *alpha, Dims *wd, uint64_t w, Dims *yd, uint64_t y, Sliding *c, int algorithm, uint64_t work, size_t bytes, const float *beta, Dims *xd, uint64_t x) {
	return convolve(backward_data, h, alpha, xd, x, wd, w, yd, y, c, algorithm, work, bytes, beta);
}
API int cudnnConvolutionBackwardFilter(Dnn *h, const float *alpha, Dims *xd, uint64_t x, Dims *yd, uint64_t y, Sliding *c, int algorithm, uint64_t work, size_t bytes, const float *beta, Dims *wd, uint64_t w) {
	return convolve(backward_filter, h, alpha, xd, x, wd, w, yd, y, c, algorithm, work, bytes, beta);
}

// ---- NVRTC

enum { rtc_out_of_memory = 1, rtc_invalid_option = 5, rtc_compilation = 6 };
struct Program { std::string source, name, log, image; std::map<std::string, std::string> headers; };

API int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
API int nvrtcGetNumSupportedArchs(int *n) { *n = 4; return 0; }
API int nvrtcGetSupportedArchs(int *list) { list[0] = 75; list[1] = 80; list[2] = 90; list[3] = 120; return 0; }
// tensor_header is the text of <cuda_tensor.h>. Programs that do not include it do not depend on it.
static const char tensor_header[] =
#include "tensor.inc"
;

API int nvrtcCreateProgram(Program **p, const char *source, const char *name, int n, const char **texts, const char **files) {
	*p = new Program;
	(*p)->source = source;
	(*p)->name = name ? name : "program.cu";
	for (int i = 0; i < n; i++) {
		(*p)->headers[files[i]] = texts[i];
		if (strstr(texts[i], "<cuda_tensor.h>")) (*p)->headers["cuda_tensor.h"] = tensor_header;
	}
	return 0;
}
API int nvrtcDestroyProgram(Program **p) { delete *p; *p = nullptr; return 0; }

static std::string quoted(const std::string &text) {
	std::string q = "'";
	for (char c : text) q += c == '\'' ? std::string("'\\''") : std::string(1, c);
	return q + "'";
}
static std::string content(const std::string &path) {
	std::stringstream s;
	s << std::ifstream(path, std::ios::binary).rdbuf();
	return s.str();
}

// accepted turns an option of NVRTC into one of the compiler. It reports false for an
// option that NVRTC does not have.
static bool accepted(const std::string &option, std::string *flags) {
	if (!option.compare(0, 2, "-D")) { *flags += " " + quoted(option); return true; }
	for (const char *ignored : {"--gpu-architecture=sm_", "--gpu-architecture=compute_", "--std=c++17", "-default-device", "--fmad=", "--use_fast_math", "--ptxas-options=", "-lineinfo", "--maxrregcount=", "-I", "--include-path="})
		if (!option.compare(0, strlen(ignored), ignored)) return true;
	return false;
}

// kept_at is the file of the cache for what is compiled of a program with a command. The
// command names the folder of cuda_cpu.h, whose name is a hash of it and of the compiler.
static std::string kept_at(const std::string &folder, const Program *p, const std::string &command) {
	uint64_t h[2] = {14695981039346656037u, 1469598103934665603u};
	for (uint64_t &x : h) {
		x = hash(hash(hash(x, command), p->name), p->source);
		for (auto &one : p->headers) x = hash(hash(x, one.first), one.second);
	}
	char name[40];
	snprintf(name, sizeof name, "/%016llx%016llx.bin", (unsigned long long)h[0], (unsigned long long)h[1]);
	return folder + name;
}

// keep writes the file beside and renames it, for other processes read it at any time.
static void keep(const std::string &path, const std::string &image) {
	std::string beside = path + ".XXXXXX";
	int file = mkstemp(&beside[0]);
	if (file < 0) return; // it is compiled again the next time
	bool whole = write(file, image.data(), image.size()) == (ssize_t)image.size();
	close(file);
	if (!whole || rename(beside.c_str(), path.c_str())) unlink(beside.c_str());
}

// code are the compiler's options for kernels. Most kernels run once or twice, so that what
// counts is the time to compile them: -Og takes six tenths of -O1's.
static const char code[] = "-std=c++17 -Og -w -ffp-contract=off -fno-math-errno -fno-exceptions -fno-asynchronous-unwind-tables -fPIC -fvisibility=hidden";

// precompile compiles cuda_cpu.h itself, once for its folder: without it, the headers of the C++
// library take more time than a small kernel. GCC passes over one that it cannot use.
static void precompile(const std::string &compiler, const std::string &include, const char *fma) {
#ifndef __clang__ // which refuses one that was made with other definitions
	static std::mutex one;
	std::lock_guard<std::mutex> lock(one);
	static bool tried = false;
	std::string header = include + "/cuda_cpu.h", made = header + ".gch", beside = made + "." + std::to_string(getpid());
	if (tried || !access(made.c_str(), F_OK)) return;
	tried = true;
	std::string command = quoted(compiler) + " " + code + fma + " -x c++-header " + quoted(header) + " -o " + quoted(beside) + " 2>/dev/null";
	if (system(command.c_str()) || rename(beside.c_str(), made.c_str())) unlink(beside.c_str());
#endif
}

API int nvrtcCompileProgram(Program *p, int n, const char **options) {
	{ LOCK; counters.compiles++; }
	std::string flags;
	for (int i = 0; i < n; i++)
		if (!strcmp(options[i], "-D") && i + 1 < n) flags += " " + quoted(std::string("-D") + options[++i]);
		else if (!accepted(options[i], &flags)) { p->log = std::string("unknown option ") + options[i]; return rtc_invalid_option; }
	const char *compiler = getenv("FAKECUDA_CXX"), *include = getenv("FAKECUDA_INCLUDE"), *tmp = getenv("TMPDIR");
	// fmaf is one instruction where the processor has it, else a call. No contraction of other
	// products and sums; no code between modules is shared.
	const char *fma = __builtin_cpu_supports("fma") ? " -mfma" : "";
	flags += fma;
	std::string command = quoted(compiler ? compiler : "c++") + " " + code + " -shared -nostdlib -Wl,-Bsymbolic -x c++ -fmax-errors=5" +
		" -include " + quoted(std::string(include ? include : ".") + "/cuda_cpu.h") + flags;
	if (count_only) {
		LOCK;
		uint64_t h = hash(hash(1, flags), p->source);
		for (auto &one : p->headers) h = hash(hash(h, one.first), one.second);
		tally.compiled += h; // on several threads: in any order
		p->image.assign(magic, sizeof magic).append(8, 0);
		return 0;
	}
	std::string kept = include ? kept_at(include, p, command) : "";
	p->image = content(kept);
	if (!p->image.empty()) return 0;
	if (include) precompile(compiler ? compiler : "c++", include, fma);
	std::string folder = std::string(tmp ? tmp : "/tmp") + "/fakenvrtcXXXXXX";
	if (!mkdtemp(&folder[0])) return rtc_out_of_memory;
	std::ofstream(folder + "/" + p->name) << p->source;
	for (auto &h : p->headers) std::ofstream(folder + "/" + h.first) << h.second;
	int status = system(("cd " + quoted(folder) + " && " + command + " -I. " + quoted(p->name) + " -x none -lm -lc -lgcc -o out.so 2>log").c_str());
	p->log = content(folder + "/log");
	if (status == 0) {
		std::string library = content(folder + "/out.so");
		uint64_t length = library.size();
		p->image.assign(magic, sizeof magic);
		p->image.append((const char *)&length, 8);
		p->image += library;
		if (!kept.empty()) keep(kept, p->image);
	}
	(void)!system(("rm -rf " + quoted(folder)).c_str());
	return status == 0 ? 0 : rtc_compilation;
}
API int nvrtcGetProgramLogSize(Program *p, size_t *n) { *n = p->log.size() + 1; return 0; }
API int nvrtcGetProgramLog(Program *p, char *text) { memcpy(text, p->log.c_str(), p->log.size() + 1); return 0; }
API int nvrtcGetCUBINSize(Program *p, size_t *n) { *n = p->image.size(); return 0; }
API int nvrtcGetCUBIN(Program *p, char *to) { memcpy(to, p->image.data(), p->image.size()); return 0; }
API int nvrtcGetPTXSize(Program *p, size_t *n) { return nvrtcGetCUBINSize(p, n); }
API int nvrtcGetPTX(Program *p, char *to) { return nvrtcGetCUBIN(p, to); }
API const char *nvrtcGetErrorString(int r) { return r == rtc_compilation ? "NVRTC_ERROR_COMPILATION" : r == rtc_invalid_option ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR"; }

// Go sets its own environment, which C does not see.
API void fakecuda_setenv(const char *name, const char *value) { setenv(name, value, 1); }
