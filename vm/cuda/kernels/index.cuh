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

// ---- Indices that a tensor holds

// Where a kernel reports an index that lies outside of its axis: the word is lowered to
// the node's number (in the upper half) and the place among the indices. So it ends as
// the first such place of the first such node, whatever the timing. at may be null.
struct Faults {
	u64 *at;
	u64 node; // in the upper half
	__device__ __forceinline__ void report(u32 element) const {
		if (at) atomicMin(at, node | element);
	}
};

// Finds the index that v means on an axis of n elements; a negative one counts from the
// end. It is false for one that lies outside.
template <class I> static __device__ __forceinline__ bool within(I v, u32 n, u32 &index) {
	i64 k = v < 0 ? (i64)v + n : (i64)v;
	index = (u32)k;
	return k >= 0 && k < n;
}
