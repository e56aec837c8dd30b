// Pools: each output is computed from the elements of an image under a window.
#include "pool.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

template <class U> static __device__ __forceinline__ U least() { return (U)-1 < (U)0 ? (U)(1u << (8 * sizeof(U) - 1)) : (U)0; }
template <> __device__ __forceinline__ float least<float>() { return __int_as_float((int)0xff800000u); }
template <> __device__ __forceinline__ double least<double>() { return __longlong_as_double((long long)0xfff0000000000000ull); }

// max_pool finds the largest element and, unless places is null, its place in the whole
// tensor, which with columns counts down the columns of an image first.
KERNEL(max_pool, (T *y, i64 *places, const T *x, Window s, u32 count, int columns)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		Place<T> p = place(s, x, o);
		C best = least<C>();
		int at = -1;
		each(s, p, [&](C v, int i) {
			if (at < 0 || v > best || v != v) {
				best = v;
				at = i;
			}
		}, [] {});
		store(y + o, best);
		if (!places) continue;
		if (columns) at = at / s.in[2] / s.in[1] + s.in[0] * (at / s.in[2] % s.in[1] + s.in[1] * (at % s.in[2]));
		places[o] = (i64)p.plane * s.in[0] * s.in[1] * s.in[2] + at;
	}
}

#ifdef REAL
KERNEL(average_pool, (T *y, const T *x, Window s, u32 count, int padded)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		Place<T> p = place(s, x, o);
		C sum = 0, row = 0;
		each(s, p, [&](C v, int) { row += v; }, [&] {
			sum += row;
			row = 0;
		});
		C n = (C)p.d.counted(s, 0, padded) * (C)p.h.counted(s, 1, padded) * (C)p.w.counted(s, 2, padded);
		store(y + o, sum / (n > 1 ? n : 1));
	}
}

static __device__ __forceinline__ float power(float x, double p) { return p == 1 ? fabsf(x) : p == 2 ? x * x : powf(fabsf(x), (float)p); }
static __device__ __forceinline__ double power(double x, double p) { return p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), p); }
static __device__ __forceinline__ float root(float x, double p) { return p == 1 ? x : p == 2 ? sqrtf(x) : powf(x, (float)(1 / p)); }
static __device__ __forceinline__ double root(double x, double p) { return p == 1 ? x : p == 2 ? sqrt(x) : pow(x, 1 / p); }

KERNEL(lp_pool, (T *y, const T *x, Window s, u32 count, double exponent)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		Place<T> p = place(s, x, o);
		C sum = 0, row = 0;
		each(s, p, [&](C v, int) { row += power(v, exponent); }, [&] {
			sum += row;
			row = 0;
		});
		store(y + o, root(sum, exponent));
	}
}
#endif
