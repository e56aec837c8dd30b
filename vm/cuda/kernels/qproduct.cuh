// What products of 8-bit integers share: their sums are exact, and are scaled and rounded
// as on the host.
#pragma once
#include "product.cuh"

// Shifted reads bytes less their zero points, one for each of N places of the thread.
template <class T, int N> struct Shifted {
	typedef int C;
	int zero[N];
	__device__ __forceinline__ T blank(int i) const { return (T)zero[N == 1 ? 0 : i]; }
	__device__ __forceinline__ int operator()(T v, int i) const { return (int)v - zero[N == 1 ? 0 : i]; }
};

// Scaling is what becomes of a sum: alpha·a·b/y is its scale, after terms were added.
template <class Out> struct Scaling {
	const float *b, *y;     // scales; y: nil for 1
	const Out *zero;        // of bytes; nil for 0
	const int *terms;       // nil: none
	const float *bias;      // of reals, one for each column; nil: none
	i64 termRow, termColumn;
	int countA, countB; // scales of a and b
	float alpha;
	int unused;
};

static __device__ __forceinline__ int lowest_of(i8) { return -128; }
static __device__ __forceinline__ int lowest_of(u8) { return 0; }

// byte_of rounds a number, in units of the scale, to a byte, ties to even, and saturates.
// NaN becomes the least byte.
template <class T> static __device__ __forceinline__ T byte_of(float units, int zero) {
	int least = lowest_of(T());
	float low = (float)(least - zero), high = (float)(least + 255 - zero);
	if (!(units > low)) units = low;
	if (units > high) units = high;
	return (T)((int)rintf(units) + zero);
}

static __device__ __forceinline__ void finish_sum(int *y, int v, float, const Scaling<int> &, i64) { *y = v; }
static __device__ __forceinline__ void finish_sum(float *y, int v, float scale, const Scaling<float> &s, i64 column) {
	float x = (float)v * scale;
	*y = s.bias ? x + s.bias[column] : x;
}
template <class T> static __device__ __forceinline__ void finish_sum(T *y, int v, float scale, const Scaling<T> &s, i64) {
	*y = byte_of<T>((float)v * scale, s.zero ? (int)*s.zero : 0);
}

// write_sum writes the sum of an element, whose scales are numbers a and b of each side;
// scales are those of the left side, or of an image.
template <class Out> static __device__ __forceinline__ void write_sum(Out *y, int v, const float *scales, const Scaling<Out> &s, i64 row, i64 column, u32 a, u32 b) {
	if (s.terms) v = (int)((u32)v + (u32)s.terms[row * s.termRow + column * s.termColumn]);
	float scale = 1;
	if (scales) {
		scale = s.alpha * (scales[s.countA > 1 ? a % s.countA : 0] * s.b[s.countB > 1 ? b % s.countB : 0]);
		if (s.y) scale = scale / *s.y;
	}
	finish_sum(y, v, scale, s, column);
}
