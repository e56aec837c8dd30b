// The place of the largest element of a line.
#pragma once
#include "rows.cuh"

// Best is an element and its place in its line.
template <class A> struct Best {
	A v;
	int at;
};

template <class A> static __device__ __forceinline__ Best<A> exchange(Best<A> b, int d) {
	b.v = exchange(b.v, d);
	b.at = exchange(b.at, d);
	return b;
}

// Better takes the larger of two elements, or with least the smaller; of equal ones the
// earlier, or with last the later.
struct Better {
	int least, last;
	template <class A> __device__ Best<A> operator()(Best<A> a, Best<A> b) const {
		bool more = least ? b.v < a.v : b.v > a.v, fewer = least ? a.v < b.v : a.v > b.v;
		if (more) return b;
		if (fewer) return a;
		return (b.at > a.at) == (last != 0) ? b : a;
	}
};

// best finds the best element of the line that begins at x. A NaN is never better than
// another element, and as the first element it stays the best.
template <class T> static __device__ Best<Compute<T>> best(const T *x, const Lines &s, const Line &l, Better f) {
	Best<Compute<T>> b = {load(x), 0};
#pragma unroll 4
	for (int i = l.first; i < s.n; i += l.by) {
		Compute<T> v = load(x + (i64)i * s.step);
		if (v == v && b.v == b.v) b = f(b, Best<Compute<T>>{v, i});
	}
	return team(b, s.along, f);
}
