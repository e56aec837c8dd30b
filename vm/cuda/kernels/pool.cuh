// Windows that move over an image.
#pragma once
#include "prelude.cuh"

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
template <class T> struct Place {
	Reach d, h, w;
	const T *image;
	u32 plane;
	__device__ Place(const Window &s, const T *x, u32 q, u32 row, u32 column, u32 depth)
		: d(s, 0, depth), h(s, 1, row), w(s, 2, column), image(x + (i64)q * s.in[0] * s.in[1] * s.in[2]), plane(q) {}
};
template <class T> static __device__ Place<T> place(const Window &s, const T *x, u32 o) {
	u32 q = o / s.out[2], column = o - q * s.out[2], p = q / s.out[1], row = q - p * s.out[1];
	u32 plane = p / s.out[0];
	return Place<T>(s, x, plane, row, column, p - plane * s.out[0]);
}

// each calls f(element, index in the image) for the elements under a window, and after
// each row of them end().
template <class T, class F, class E> static __device__ __forceinline__ void each(const Window &s, const Place<T> &p, F f, E end) {
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
