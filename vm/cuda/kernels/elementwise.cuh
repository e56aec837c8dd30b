// What generated kernels of elementwise operators are made of: the functions of one
// element are in the files that this one includes, by family.
#pragma once
#include "activation.cuh"
#include "arithmetic.cuh"
#include "convert.cuh"

template <class T, int N> struct Numbers { T v[N]; };

// Four consecutive elements, whose address is a multiple of their size or of 16 bytes.
template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four { T v[4]; };

// four loads four elements, or, if only m are left, m of them, and the first in the place
// of the others. four_apart does so at any address.
template <class T, class I> PER_ELEMENT Four<T> four_apart(const T *p, I m) {
	Four<T> x;
#pragma unroll
	for (int k = 0; k < 4; k++) x.v[k] = p[k < m ? k : 0];
	return x;
}
template <class T, class I> PER_ELEMENT Four<T> four(const T *p, I m) {
	return m >= 4 ? *(const Four<T> *)p : four_apart(p, m);
}

// put stores four elements, or the first m of them if only m are left. put_apart does so
// at any address.
template <class T, class I> PER_ELEMENT void put_apart(T *p, const Four<T> &x, I m) {
#pragma unroll
	for (int k = 0; k < 4; k++) {
		if (k < m) p[k] = x.v[k];
	}
}
template <class T, class I> PER_ELEMENT void put(T *p, const Four<T> &x, I m) {
	if (m >= 4) {
		*(Four<T> *)p = x;
	} else {
		put_apart(p, x, m);
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
