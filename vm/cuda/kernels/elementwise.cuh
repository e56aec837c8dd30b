// What generated kernels of elementwise operators are made of: the functions of one
// element are in the files that this one includes, by family.
#pragma once
#include "activation.cuh"
#include "arithmetic.cuh"
#include "convert.cuh"
#include "random.cuh"

template <class T, int N> struct Numbers { T v[N]; };

// Four consecutive elements, whose address is a multiple of their size or of 16 bytes.
template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four { T v[4]; };

// four loads four elements, and put stores them. four_apart and put_apart do so at any
// address.
template <class T> PER_ELEMENT Four<T> four(const T *p) { return *(const Four<T> *)p; }
template <class T> PER_ELEMENT Four<T> four_apart(const T *p) { return {p[0], p[1], p[2], p[3]}; }
template <class T> PER_ELEMENT void put(T *p, const Four<T> &x) { *(Four<T> *)p = x; }
template <class T> PER_ELEMENT void put_apart(T *p, const Four<T> &x) {
#pragma unroll
	for (int k = 0; k < 4; k++) p[k] = x.v[k];
}

// four_of loads m < 4 elements, and the first in the place of the others. put_of stores m.
template <class T, class I> PER_ELEMENT Four<T> four_of(const T *p, I m) {
	return {p[0], p[1 < m ? 1 : 0], p[2 < m ? 2 : 0], p[0]};
}
template <class T, class I> PER_ELEMENT void put_of(T *p, const Four<T> &x, I m) {
#pragma unroll
	for (int k = 0; k < 3; k++) {
		if (k < m) p[k] = x.v[k];
	}
}

// LOADED keeps loads before the stores that follow, also where an output lies on an input
// of another type.
#define LOADED asm volatile("" ::: "memory")

// cut divides an index below 2^31 by d, and returns the remainder. The multiplier and the
// shift are those of d.
PER_ELEMENT u32 cut(u32 &n, u32 d, u32 multiplier, u32 shift) {
	u32 whole = ((u32)((u64)n * multiplier >> 32) + n) >> shift;
	u32 rest = n - whole * d;
	n = whole;
	return rest;
}
PER_ELEMENT u64 cut(u64 &n, u64 d) {
	u64 rest = n % d;
	n /= d;
	return rest;
}
