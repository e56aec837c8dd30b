// Resize: each element is a weighted sum of elements of an image, by the weights of up to
// three axes. ELEMENT is an unsigned integer as wide as the elements if they are only
// copied (COPIES), else their type.
#include "convert.cuh"
#include "index.cuh"

typedef ELEMENT T;
#ifdef COPIES
typedef float W;
#else
typedef WEIGHT W; // of weights, and of sums
#endif

// Side is an axis that is interpolated, and the elements that follow one of it and are
// copied with it.
struct Side {
	Divider over, each; // the length of the axis in the result; the elements of one
	int step, apart;    // distance of two elements of the axis in the image, and of two that are copied
	int taps, table;    // elements for one of the result; where their indices and weights begin
};

// Resize is the shape of the result: planes, and within them the sides.
struct Resize {
	u32 total, planes; // elements of a plane of the result
	int from;          // elements of a plane of the image
	Side side[3];
};

// The planes that a thread computes an element of, with the same indices and weights.
static const int together = 4;

// put writes a sum.
static __device__ __forceinline__ void put(f16 *p, W v) { *p = narrow_f16((float)v); }
static __device__ __forceinline__ void put(bf16 *p, W v) { *p = narrow_bf16((float)v); }
static __device__ __forceinline__ void put(float *p, W v) { *p = (float)v; }
static __device__ __forceinline__ void put(double *p, W v) { *p = v; }
static __device__ __forceinline__ void put(u64 *p, W v) { *p = unsigned_of((double)v); }
template <class I> static __device__ __forceinline__ void put(I *p, W v) { *p = (I)signed_of((double)v); }

// find finds the coordinates at of element e of a plane of the result, and returns the
// offset in the image of what is copied.
template <int D> static __device__ __forceinline__ int find(const Resize &s, u32 e, int (&at)[D]) {
	int off = 0;
#pragma unroll
	for (int a = D - 1; a >= 0; a--) {
		const Side &side = s.side[a];
		u32 rest = side.each.quotient(e);
		off += (int)(e - rest * side.each.by) * side.apart;
		e = rest;
		if (a > 0) {
			rest = side.over.quotient(e);
			at[a] = (int)(e - rest * side.over.by);
			e = rest;
		} else {
			at[a] = (int)e;
		}
	}
	return off;
}

// each calls f with the offsets, in the image and in the result, of an element of each of
// a block's planes.
template <class F> static __device__ __forceinline__ void each(const Resize &s, u32 e, int off, F f) {
	for (u32 first = blockIdx.y * together; first < s.planes; first += gridDim.y * together) {
#pragma unroll
		for (int p = 0; p < together; p++)
			if (first + p < s.planes) f((int)(first + p) * s.from + off, (first + p) * s.total + e);
	}
}

#ifdef COPIES
// copied has one tap along each axis.
template <int D> static __device__ __forceinline__ void copied(T *y, const T *x, const int *from, const Resize &s) {
	for (u32 e = blockIdx.x * blockDim.x + threadIdx.x; e < s.total; e += gridDim.x * blockDim.x) {
		int at[D], off = find(s, e, at);
#pragma unroll
		for (int a = 0; a < D; a++) off += from[s.side[a].table + at[a]] * s.side[a].step;
		each(s, e, off, [&](int i, u32 o) { y[o] = x[i]; });
	}
}
#define PARAMS (T * __restrict__ y, const T *__restrict__ x, const int *__restrict__ from, Resize s)
KERNEL(copied1, PARAMS) { copied<1>(y, x, from, s); }
KERNEL(copied2, PARAMS) { copied<2>(y, x, from, s); }
KERNEL(copied3, PARAMS) { copied<3>(y, x, from, s); }
#else

// weighted leaves out what has no weight, and may be infinite.
static __device__ __forceinline__ W weighted(W weight, W v) { return weight == 0 ? 0 : weight * v; }

// sum adds up an element along the axes from A on. TAPS is the number of taps of each
// axis; 0 if it differs.
template <int D, int A, int TAPS> struct Sum {
	static __device__ __forceinline__ W of(const T *x, const int *from, const W *weight, const Resize &s, const int (&at)[D]) {
		const Side &side = s.side[A];
		int taps = TAPS ? TAPS : side.taps, first = side.table + at[A] * taps;
		W sum = 0;
#pragma unroll
		for (int t = 0; t < taps; t++) sum += weighted(weight[first + t], Sum<D, A + 1, TAPS>::of(x + from[first + t] * side.step, from, weight, s, at));
		return sum;
	}
};
template <int D, int TAPS> struct Sum<D, D, TAPS> {
	static __device__ __forceinline__ W of(const T *x, const int *, const W *, const Resize &, const int (&)[D]) { return (W)load(x); }
};

// mixed writes extra where an index is negative: that element lies outside of the image.
template <int D, int TAPS> static __device__ __forceinline__ void mixed(T *y, const T *x, const int *from, const W *weight, const Resize &s, double extra) {
	for (u32 e = blockIdx.x * blockDim.x + threadIdx.x; e < s.total; e += gridDim.x * blockDim.x) {
		int at[D], off = find(s, e, at);
		bool outside = false;
#pragma unroll
		for (int a = 0; a < D; a++) outside = outside || from[s.side[a].table + at[a] * (TAPS ? TAPS : s.side[a].taps)] < 0;
		each(s, e, off, [&](int i, u32 o) { put(y + o, outside ? (W)extra : Sum<D, 0, TAPS>::of(x + i, from, weight, s, at)); });
	}
}
#define PARAMS (T * __restrict__ y, const T *__restrict__ x, const int *__restrict__ from, const W *__restrict__ weight, Resize s, double extra)
KERNEL(mixed1, PARAMS) { mixed<1, 0>(y, x, from, weight, s, extra); }
KERNEL(mixed2, PARAMS) { mixed<2, 0>(y, x, from, weight, s, extra); }
KERNEL(mixed3, PARAMS) { mixed<3, 0>(y, x, from, weight, s, extra); }
KERNEL(linear1, PARAMS) { mixed<1, 2>(y, x, from, weight, s, extra); }
KERNEL(linear2, PARAMS) { mixed<2, 2>(y, x, from, weight, s, extra); }
KERNEL(linear3, PARAMS) { mixed<3, 2>(y, x, from, weight, s, extra); }
#endif
