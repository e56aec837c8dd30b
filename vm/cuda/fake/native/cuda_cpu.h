// CUDA C as host C++. The fake NVRTC includes this file before a kernel's source. One
// thread of the operating system runs the blocks of a launch one after another; CUDA's
// threads are fibres, which are switched only where they wait: at barriers and warp
// operations. A kernel that never waits runs as a plain loop over its threads.
#pragma once
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <tuple>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#define CUDA_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __shared__ static // the driver runs one launch at a time
#define __constant__ static const
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

// ---- Vectors

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
#define FAKE_VECTORS(T, name) \
	struct alignas(2 * sizeof(T)) name##2 { T x, y; }; \
	struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; }; \
	static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
	static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FAKE_VECTORS(float, float)
FAKE_VECTORS(int, int)
FAKE_VECTORS(unsigned, uint)
FAKE_VECTORS(unsigned short, ushort)
FAKE_VECTORS(unsigned char, uchar)
FAKE_VECTORS(signed char, char)
FAKE_VECTORS(double, double)
FAKE_VECTORS(long long, longlong)
FAKE_VECTORS(unsigned long long, ulonglong)

// ---- Fibres

namespace fake {

enum State { ready, at_block, at_warp, done };

struct Fibre {
	void *sp; // its stack pointer while it waits
	uint3 thread;
	unsigned index; // of the thread in its block
	unsigned exchanges;
	State state;
	const char *where; // it waits
	char *stack;
};

// Block is the block that runs.
struct Block {
	const char *kernel;
	uint3 index;
	dim3 grid, size;
	unsigned threads, next; // next is the first thread that no fibre has begun
	std::vector<Fibre *> fibres, spare;
	void *scheduler; // the stack pointer of run_block
	void (*body)(void *);
	void *params;
	char *shared;               // dynamic
	uint64_t slots[2][1024];    // what the threads exchange, in turns
	unsigned alive_in_warp[32]; // threads that have not ended
};

// The driver runs one launch at a time, so that these need not belong to a thread: access to
// thread-local variables of a loaded library costs a call each.
static Block *block;
static Fibre *self;
static thread_local bool running; // this thread of the operating system runs a kernel

#if !defined(__x86_64__)
#error "fibres are switched by x86-64 instructions"
#endif
extern "C" void fake_switch(void **from, void *to);
// Saves the registers that a function must keep, and goes on where the other fibre stopped.
asm(R"(
.text
.weak fake_switch
.type fake_switch,@function
fake_switch:
 push %rbp
 push %rbx
 push %r12
 push %r13
 push %r14
 push %r15
 mov %rsp,(%rdi)
 mov %rsi,%rsp
 pop %r15
 pop %r14
 pop %r13
 pop %r12
 pop %rbx
 pop %rbp
 ret
)");

static const size_t stack_bytes = 64 << 10;
static const uint64_t stack_end = 0x7374616b5f656e64; // lies at the end of each stack; guard pages would be too many mappings

// begin_thread gives a fibre the next thread of the block.
static void begin_thread(Fibre *f) {
	Block *b = block;
	unsigned i = b->next++;
	f->index = i;
	f->exchanges = 0;
	f->state = ready;
	f->thread = {i % b->size.x, i / b->size.x % b->size.y, i / (b->size.x * b->size.y)};
	self = f;
}

// entry is where a fibre begins. It runs one thread after another, as long as none waits.
static void entry() {
	for (;;) {
		block->body(block->params);
		Fibre *f = self;
		f->state = done;
		block->alive_in_warp[f->index / 32]--;
		if (block->next < block->threads) begin_thread(f);
		else fake_switch(&f->sp, block->scheduler);
	}
}

static Fibre *new_fibre() {
	Block *b = block;
	Fibre *f;
	if (b->spare.empty()) {
		f = new Fibre;
		f->stack = (char *)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(f->stack, &stack_end, sizeof stack_end);
	} else {
		f = b->spare.back();
		b->spare.pop_back();
	}
	void **sp = (void **)(f->stack + stack_bytes) - 1;
	*--sp = (void *)entry; // the switch returns there
	for (int i = 0; i < 6; i++) *--sp = nullptr;
	f->sp = sp;
	b->fibres.push_back(f);
	return f;
}

// wait stops the thread until all that must have reached the same kind of barrier.
static void wait(State s, const char *where) {
	Fibre *f = self;
	f->state = s;
	f->where = where;
	fake_switch(&f->sp, block->scheduler);
	self = f;
}

// release lets threads go on for which everybody has come. It reports false if there are
// none.
static bool release() {
	Block *b = block;
	unsigned alive = 0, waiting = 0, in_warp[32] = {};
	for (Fibre *f : b->fibres) {
		alive += f->state != done;
		waiting += f->state == at_block;
		if (f->state == at_warp) in_warp[f->index / 32]++;
	}
	if (waiting == alive) {
		for (Fibre *f : b->fibres)
			if (f->state == at_block) f->state = ready;
		return alive > 0;
	}
	for (unsigned w = 0; w < 32; w++) {
		if (in_warp[w] == 0 || in_warp[w] != b->alive_in_warp[w]) continue;
		for (Fibre *f : b->fibres)
			if (f->state == at_warp && f->index / 32 == w) f->state = ready;
		return true;
	}
	return false;
}

// stuck ends the process: some threads wait where others never come.
static void stuck() {
	Block *b = block;
	fprintf(stderr, "fake cuda: %s: block %u,%u,%u: threads wait at different barriers:", b->kernel, b->index.x, b->index.y, b->index.z);
	for (Fibre *f : b->fibres)
		if (f->state != done) fprintf(stderr, " thread %u at the %s barrier of %s;", f->index, f->state == at_block ? "block" : "warp", f->where);
	fprintf(stderr, "\n");
	abort();
}

// check_stack ends the process if a thread's variables did not fit.
static void check_stack(const Fibre *f) {
	if (!memcmp(f->stack, &stack_end, sizeof stack_end)) return;
	fprintf(stderr, "fake cuda: %s: a thread has more than %zu bytes of variables\n", block->kernel, stack_bytes);
	abort();
}

static void run_block() {
	Block *b = block;
	for (unsigned w = 0; w < 32; w++) b->alive_in_warp[w] = b->threads > w * 32 ? std::min(32u, b->threads - w * 32) : 0;
	b->next = 0;
	for (;;) {
		bool ran = b->next < b->threads;
		while (b->next < b->threads) {
			Fibre *f = new_fibre();
			begin_thread(f);
			fake_switch(&b->scheduler, f->sp);
		}
		for (size_t i = 0; i < b->fibres.size(); i++) {
			Fibre *f = b->fibres[i];
			if (f->state != ready) continue;
			self = f;
			fake_switch(&b->scheduler, f->sp);
			ran = true;
		}
		if (ran || release()) continue;
		bool ended = std::all_of(b->fibres.begin(), b->fibres.end(), [](Fibre *f) { return f->state == done; });
		if (!ended) stuck();
		break;
	}
	for (const Fibre *f : b->fibres) check_stack(f);
	b->spare.insert(b->spare.end(), b->fibres.begin(), b->fibres.end());
	b->fibres.clear();
}

// ---- Launches

// Stub is what the driver knows of a kernel.
struct Stub {
	const char *name;
	unsigned count;      // of its parameters
	const size_t *sizes; // of them, in bytes
	void (*call)(void *);
};

template <class... A> struct Sizes { static constexpr size_t list[sizeof...(A) + 1] = {sizeof(A)..., 0}; };
template <auto F> struct Call;
template <class... A, void (*F)(A...)> struct Call<F> {
	template <size_t... I> static void spread(void **p, std::index_sequence<I...>) { F(*(std::remove_const_t<std::remove_reference_t<A>> *)p[I]...); }
	static void call(void *p) { spread((void **)p, std::index_sequence_for<A...>{}); }
};
template <class... A> constexpr const size_t *sizes_of(void (*)(A...)) { return Sizes<A...>::list; }
template <class... A> constexpr unsigned count_of(void (*)(A...)) { return sizeof...(A); }

// Signals are the faults that a kernel may cause: an access outside of memory, and a division
// of integers by 0.
static const int signals[2] = {SIGSEGV, SIGFPE};
static struct sigaction before[2];

// fault names the kernel that causes a signal and ends the process. A signal of another
// thread is not ours: what caused it is done again, under the handler before.
static void fault(int number, siginfo_t *info, void *) {
	if (!running) {
		sigaction(number, &before[number == SIGFPE], nullptr);
		return;
	}
	char what[64], text[400];
	if (number == SIGFPE) snprintf(what, sizeof what, "divides by 0");
	else snprintf(what, sizeof what, "touches %p, outside of the device's memory", info->si_addr);
	int n = snprintf(text, sizeof text, "fake cuda: %s: block %u,%u,%u: thread %u %s\n", block->kernel, block->index.x, block->index.y, block->index.z, self->index, what);
	(void)!write(2, text, n);
	_exit(134);
}

static void launch(const Stub *k, void **params, dim3 grid, dim3 size, size_t shared) {
	static Block *mine; // with its spare fibres
	if (!mine) mine = new Block();
	Block *b = block = mine;
	b->kernel = k->name;
	b->grid = grid;
	b->size = size;
	b->threads = size.x * size.y * size.z;
	b->body = k->call;
	b->params = params;
	std::vector<char> room(shared + 16);
	b->shared = (char *)(((uintptr_t)room.data() + 15) & ~(uintptr_t)15);
	struct sigaction ours = {};
	ours.sa_sigaction = fault;
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
	for (int i = 0; i < 2; i++) sigaction(signals[i], &ours, &before[i]);
	running = true;
	for (unsigned z = 0; z < grid.z; z++)
		for (unsigned y = 0; y < grid.y; y++)
			for (unsigned x = 0; x < grid.x; x++) {
				b->index = {x, y, z};
				if (shared) memset(b->shared, 0xff, shared);
				run_block();
			}
	running = false;
	for (int i = 0; i < 2; i++) sigaction(signals[i], &before[i], nullptr);
}

} // namespace fake

extern "C" __attribute__((weak, visibility("default"))) uint64_t fake_float_atomics;
uint64_t fake_float_atomics = 0;
extern "C" __attribute__((weak, visibility("default"))) void fake_launch(const fake::Stub *k, void **params, const unsigned *grid, const unsigned *size, size_t shared) {
	fake::launch(k, params, dim3{grid[0], grid[1], grid[2]}, dim3{size[0], size[1], size[2]}, shared);
}

// KERNEL(name, (parameters)) { … } is a kernel.
#define KERNEL(name, params) \
	void name params; \
	extern "C" __attribute__((visibility("default"))) const fake::Stub stub_##name; \
	const fake::Stub stub_##name = {#name, fake::count_of(name), fake::sizes_of(name), fake::Call<name>::call}; \
	void name params
#define DYNAMIC_SHARED(T, name) T *name = (T *)fake::block->shared

// ---- What a kernel sees

#define threadIdx (fake::self->thread)
#define blockIdx (fake::block->index)
#define blockDim (fake::block->size)
#define gridDim (fake::block->grid)
#define warpSize 32

#define FAKE_TEXT2(x) #x
#define FAKE_TEXT(x) FAKE_TEXT2(x)
#define FAKE_HERE __FILE__ ":" FAKE_TEXT(__LINE__)
#define __syncthreads() fake::wait(fake::at_block, FAKE_HERE)
#define __syncwarp(...) fake::wait(fake::at_warp, FAKE_HERE)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

// exchange gives each thread the value of another one of its warp.
namespace fake {
template <class V> static V exchange(V v, unsigned lane, const char *where) {
	static_assert(sizeof(V) <= 8, "a shuffle moves at most 8 bytes");
	Fibre *f = self;
	unsigned turn = f->exchanges++ & 1, from = f->index / 32 * 32 + lane;
	memcpy(&block->slots[turn][f->index], &v, sizeof v);
	wait(at_warp, where);
	if (from < block->threads) memcpy(&v, &block->slots[turn][from], sizeof v);
	return v;
}
static unsigned lane() { return self->index & 31; }
// gather collects a bit of each thread of the warp for which f says so.
template <class V, class F> static unsigned gather(V v, F f, const char *where) {
	static_assert(sizeof(V) <= 8, "");
	Fibre *me = self;
	unsigned turn = me->exchanges++ & 1, first = me->index / 32 * 32, bits = 0;
	memcpy(&block->slots[turn][me->index], &v, sizeof v);
	wait(at_warp, where);
	for (unsigned i = 0; i < 32 && first + i < block->threads; i++) {
		V w;
		memcpy(&w, &block->slots[turn][first + i], sizeof w);
		if (f(w)) bits |= 1u << i;
	}
	return bits;
}
} // namespace fake
#define __shfl_sync(mask, v, l, ...) fake::exchange((v), (unsigned)(l) & 31, FAKE_HERE)
#define __shfl_xor_sync(mask, v, d, ...) fake::exchange((v), fake::lane() ^ (unsigned)(d), FAKE_HERE)
#define __shfl_down_sync(mask, v, d, ...) fake::exchange((v), fake::lane() + (d) < 32 ? fake::lane() + (d) : fake::lane(), FAKE_HERE)
#define __shfl_up_sync(mask, v, d, ...) fake::exchange((v), fake::lane() >= (unsigned)(d) ? fake::lane() - (d) : fake::lane(), FAKE_HERE)
#define __ballot_sync(mask, p) fake::gather((int)((p) != 0), [](int w) { return w != 0; }, FAKE_HERE)
#define __any_sync(mask, p) (__ballot_sync(mask, p) != 0)
#define __all_sync(mask, p) (__ballot_sync(mask, !(p)) == 0)
template <class V> static unsigned fake_match(V v, const char *where) {
	return fake::gather(v, [v](V w) { return w == v; }, where);
}
#define __match_any_sync(mask, v) fake_match((v), FAKE_HERE)
#define __activemask() 0xffffffffu

// Atomic operations: one thread of the operating system runs all.
template <class V> static V atomicExch(V *p, V v) { V o = *p; *p = v; return o; }
template <class V> static V atomicAdd(V *p, std::common_type_t<V> v) {
	if (std::is_floating_point_v<V>) fake_float_atomics++;
	V o = *p;
	*p = o + v;
	return o;
}
template <class V> static V atomicMax(V *p, std::common_type_t<V> v) { V o = *p; *p = o > v ? o : v; return o; }
template <class V> static V atomicMin(V *p, std::common_type_t<V> v) { V o = *p; *p = o < v ? o : v; return o; }
template <class V> static V atomicOr(V *p, std::common_type_t<V> v) { V o = *p; *p = o | v; return o; }
template <class V> static V atomicAnd(V *p, std::common_type_t<V> v) { V o = *p; *p = o & v; return o; }
template <class V> static V atomicCAS(V *p, std::common_type_t<V> was, std::common_type_t<V> v) { V o = *p; if (o == was) *p = v; return o; }

// ---- Numbers

using std::max;
using std::min;
// Of reals, CUDA's min and max are fmin and fmax: one NaN is left out.
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
// They take two different types, as ?: does.
#define FAKE_MIXED(A, B) \
	static inline auto max(A a, B b) { return a > b ? a : b; } \
	static inline auto max(B a, A b) { return a > b ? a : b; } \
	static inline auto min(A a, B b) { return a < b ? a : b; } \
	static inline auto min(B a, A b) { return a < b ? a : b; }
FAKE_MIXED(int, long long)
FAKE_MIXED(int, unsigned)
static inline double max(float a, double b) { return fmax(a, b); }
static inline double max(double a, float b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin(a, b); }
static inline double min(double a, float b) { return fmin(a, b); }
FAKE_MIXED(unsigned, unsigned long long)

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
#define __expf expf // the C library has functions of these names
#define __logf logf
#define __powf powf
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __int2float_rn(int x) { return (float)x; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x == x ? x : 0; }
template <class V> static inline V __ldg(const V *p) { return *p; }

namespace fake {
template <class To, class From> static inline To as(From x) {
	static_assert(sizeof(To) == sizeof(From), "");
	To y;
	memcpy(&y, &x, sizeof y);
	return y;
}
} // namespace fake
static inline float __int_as_float(int x) { return fake::as<float>(x); }
static inline int __float_as_int(float x) { return fake::as<int>(x); }
static inline float __uint_as_float(unsigned x) { return fake::as<float>(x); }
static inline unsigned __float_as_uint(float x) { return fake::as<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return fake::as<double>(x); }
static inline long long __double_as_longlong(double x) { return fake::as<long long>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
	uint64_t both = (uint64_t)b << 32 | a;
	unsigned r = 0;
	for (int i = 0; i < 4; i++) r |= (unsigned)(both >> ((s >> (4 * i) & 7) * 8) & 0xff) << (8 * i);
	return r;
}
static inline int __dp4a(int a, int b, int c) {
	for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> (8 * i)) * (int)(signed char)(b >> (8 * i));
	return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
	for (int i = 0; i < 4; i++) c += (a >> (8 * i) & 0xff) * (b >> (8 * i) & 0xff);
	return c;
}

// 16-bit reals, in bits. A NaN stays one, and becomes quiet.
static inline float fake_half_to_float(uint16_t h) {
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
	if (e == 31) return fake::as<float>(sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
	float x = e ? ldexpf((float)(m | 1024), (int)e - 25) : ldexpf((float)m, -24);
	return sign ? -x : x;
}
static inline uint16_t fake_float_to_half(float f) {
	uint32_t b = fake::as<uint32_t>(f), a = b & 0x7fffffff;
	uint16_t sign = (uint16_t)(b >> 16 & 0x8000);
	if (a > 0x7f800000) return sign | 0x7fff; // as cvt.rn.f16.f32 does
	if (a >= 0x477ff000) return sign | 0x7c00; // rounds to infinity
	if (a < 0x38800000) { // subnormal: rounded by the addition of 0.5
		float shifted = fake::as<float>(a) + 0.5f;
		return sign | (uint16_t)(fake::as<uint32_t>(shifted) - 0x3f000000);
	}
	return sign | (uint16_t)((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
}
