// Pools: each output is computed from the elements of an image under a window.
#include "prelude.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Window is how a window moves over an image of three axes. before and after count the
// padding.
struct Window {
	int in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
};

static __device__ __forceinline__ int up(i64 a, int b) { return (int)((a + b - 1) / b); }

// Reach is the part of a window that lies within the image along an axis: taps [from, to),
// and where tap 0 is.
struct Reach {
	i64 start;
	int from, to;
	__device__ Reach(const Window &w, int a, int o) {
		start = (i64)o * w.stride[a] - w.before[a];
		from = start < 0 ? up(-start, w.dilation[a]) : 0;
		i64 left = w.in[a] - start;
		to = left < (i64)(w.kernel[a] - 1) * w.dilation[a] + 1 ? (left > 0 ? up(left, w.dilation[a]) : 0) : w.kernel[a];
		if (to < from) to = from;
	}
	// counted is the number of taps in the image, or with padded in its padding, too.
	__device__ int counted(const Window &w, int a, bool padded) const {
		if (!padded) return to - from;
		i64 left = w.in[a] + (i64)w.after[a] - start;
		int n = left > 0 ? (left > (i64)w.kernel[a] * w.dilation[a] ? w.kernel[a] : up(left, w.dilation[a])) : 0;
		return n < w.kernel[a] ? n : w.kernel[a];
	}
};

// Place is an output element: the reach of its window, and the image under it.
struct Place {
	Reach d, h, w;
	const T *image;
	u32 plane;
	__device__ Place(const Window &s, const T *x, u32 q, u32 row, u32 column, u32 depth)
		: d(s, 0, depth), h(s, 1, row), w(s, 2, column), image(x + (i64)q * s.in[0] * s.in[1] * s.in[2]), plane(q) {}
};
static __device__ Place place(const Window &s, const T *x, u32 o) {
	u32 q = o / s.out[2], column = o - q * s.out[2], p = q / s.out[1], row = q - p * s.out[1];
	u32 plane = p / s.out[0];
	return Place(s, x, plane, row, column, p - plane * s.out[0]);
}

// each calls f(element, index in the image) for the elements under a window, and after
// each row of them end().
template <class F, class E> static __device__ __forceinline__ void each(const Window &s, const Place &p, F f, E end) {
	for (int d = p.d.from; d < p.d.to; d++)
		for (int h = p.h.from; h < p.h.to; h++) {
			int row = (((int)p.d.start + d * s.dilation[0]) * s.in[1] + (int)p.h.start + h * s.dilation[1]) * s.in[2] + (int)p.w.start;
#pragma unroll 4
			for (int w = p.w.from; w < p.w.to; w++) {
				int i = row + w * s.dilation[2];
				f(load(p.image + i), i);
			}
			end();
		}
}

template <class U> static __device__ __forceinline__ U least() { return (U)-1 < (U)0 ? (U)(1u << (8 * sizeof(U) - 1)) : (U)0; }
template <> __device__ __forceinline__ float least<float>() { return __int_as_float((int)0xff800000u); }
template <> __device__ __forceinline__ double least<double>() { return __longlong_as_double((long long)0xfff0000000000000ull); }

// max_pool finds the largest element and, unless places is null, its place in the whole
// tensor, which with columns counts down the columns of an image first.
KERNEL(max_pool, (T *y, i64 *places, const T *x, Window s, u32 count, int columns)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		Place p = place(s, x, o);
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
		Place p = place(s, x, o);
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
		Place p = place(s, x, o);
		C sum = 0, row = 0;
		each(s, p, [&](C v, int) { row += power(v, exponent); }, [&] {
			sum += row;
			row = 0;
		});
		store(y + o, root(sum, exponent));
	}
}
#endif
