// Index arithmetic of the kernels that move elements. Offsets within a launch fit 32
// bits; the host cuts larger copies.
#pragma once
#include "prelude.cuh"

// The widest element that a thread loads at once.
struct alignas(16) u128 { u64 low, high; };

// Divides by a number that does not change, without a division: n / by for n < 2^31.
struct Divider {
	u32 by, factor, shift;
	__device__ __forceinline__ u32 quotient(u32 n) const { return (u32)((u64)(n << 1) * factor >> 32) >> shift; }
};

// Axes that a kernel runs through, with the strides of an input and an output. The
// first axis needs no divider.
template <int R> struct Axes {
	Divider over[R];
	int from[R], to[R];
	// Finds the offsets of element i of the axes.
	__device__ __forceinline__ void find(u32 i, int &x, int &y) const {
		x = y = 0;
#pragma unroll
		for (int a = R - 1; a > 0; a--) {
			u32 q = over[a].quotient(i);
			int c = (int)(i - q * over[a].by);
			i = q;
			x += c * from[a];
			y += c * to[a];
		}
		x += (int)i * from[0];
		y += (int)i * to[0];
	}
};
