// CUDA C as host C++. The fake NVRTC includes this file before a kernel's source. The
// driver runs the threads (fibres.h); what it shares with each kernel's library is in
// shared.h. Whatever is compiled here is compiled for each
// kernel anew, so that it is as little as can be.
#include "shared.h"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define CUDA_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static // the driver runs one launch at a time
#define __constant__ static const
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

// ---- Vectors

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

// ---- The driver

namespace fake {

static Fibre *self;
static Block *block;
static uint64_t float_atomics;
static void (*wait)(State, const char *);

template <class... A> struct Sizes { static constexpr size_t list[sizeof...(A) + 1] = {sizeof(A)..., 0}; };
template <auto F> struct Call;
template <class... A, void (*F)(A...)> struct Call<F> {
	template <size_t... I> static void spread(void **p, std::index_sequence<I...>) { F(*(std::remove_const_t<std::remove_reference_t<A>> *)p[I]...); }
	static void call(void *p) { spread((void **)p, std::index_sequence_for<A...>{}); }
};
template <class... A> constexpr const size_t *sizes_of(void (*)(A...)) { return Sizes<A...>::list; }
template <class... A> constexpr unsigned count_of(void (*)(A...)) { return sizeof...(A); }

} // namespace fake

extern "C" __attribute__((visibility("default"))) const fake::Library fake_library;
const fake::Library fake_library = {&fake::self, &fake::block, &fake::float_atomics, &fake::wait};

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
	if (std::is_floating_point_v<V>) fake::float_atomics++;
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

template <class V> static inline V max(V a, V b) { return a < b ? b : a; }
template <class V> static inline V min(V a, V b) { return b < a ? b : a; }
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
