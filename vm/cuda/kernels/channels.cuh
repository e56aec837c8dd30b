// The channels of a tensor of planes: [outer, channels, inner] elements, of which each
// channel has its planes in all images. With one image channels are rows.
#pragma once
#include "rows.cuh"

// Channels describes how channels are shared out to teams of threads that are neighbours
// in x; y counts the teams of a block. Blocks of one y of the grid have the same part of
// each channel. Threads take units: elements, or with wide four neighbouring ones.
struct Channels {
	int count, inner;
	int image;              // elements from a plane to the next one of its channel
	int units, part;        // of a channel, and of a block
	int plane;              // units of a plane
	int byPlanes, byUnits;  // the threads of a team, in planes and units
	int wide;
	int packed;             // the four have an address that allows to load them together
};

// Channel is what a thread has of a channel: the units first, first + blockDim.x, ...
struct Channel {
	int number, first, end;
	bool real, leads;
	__device__ explicit Channel(const Channels &c) {
		number = blockIdx.x * blockDim.y + threadIdx.y;
		real = number < c.count;
		if (!real) number = c.count - 1;
		leads = real && threadIdx.x == 0;
		first = blockIdx.y * c.part + threadIdx.x;
		end = c.units - blockIdx.y * c.part < c.part ? c.units : (blockIdx.y + 1) * c.part;
	}
	// The place of the channel among the parts that a launch writes, and the number of them.
	__device__ __forceinline__ i64 slot(const Channels &c) const { return (i64)blockIdx.y * c.count + number; }
};

// Few are N elements in the type that kernels compute in.
template <class T, int N> struct Few { Compute<T> v[N]; };

template <int N, class T> static __device__ __forceinline__ Few<T, N> few(const T *p, const Channels &c) {
	Few<T, N> r;
	if constexpr (N == 1) {
		r.v[0] = load(p);
	} else {
		Pack<T> q;
		if (c.packed) q = *(const Pack<T> *)p;
		else for (int j = 0; j < N; j++) q.v[j] = p[j];
#pragma unroll
		for (int j = 0; j < N; j++) r.v[j] = load(q.v + j);
	}
	return r;
}

template <int N, class T> static __device__ __forceinline__ void put(T *p, const Few<T, N> &r, const Channels &c) {
	if constexpr (N == 1) {
		store(p, r.v[0]);
	} else {
		Pack<T> q;
#pragma unroll
		for (int j = 0; j < N; j++) store(q.v + j, r.v[j]);
		if (c.packed) *(Pack<T> *)p = q;
		else for (int j = 0; j < N; j++) p[j] = q.v[j];
	}
}

template <int N, class F> static __device__ __forceinline__ void over(const Channels &c, const Channel &own, F f) {
	int n = own.first / c.plane, u = own.first - n * c.plane, base = own.number * c.inner;
#pragma unroll 4
	for (int t = own.first; t < own.end; t += blockDim.x) {
		f(base + n * c.image + u * N);
		u += c.byUnits;
		n += c.byPlanes;
		if (u >= c.plane) u -= c.plane, n++;
	}
}

// Width is a number of elements.
template <int N> struct Width { static constexpr int n = N; };

// each calls f(width, place) for the units of a thread, in the order of the places.
template <class F> static __device__ __forceinline__ void each(const Channels &c, const Channel &own, F f) {
	if (c.wide) over<4>(c, own, [&](int at) { f(Width<4>(), at); });
	else over<1>(c, own, [&](int at) { f(Width<1>(), at); });
}

struct Join {
	template <class A> __device__ A operator()(A a, const A &b) const {
		a.join(b);
		return a;
	}
};

// joined adds up the parts of a channel, which lie stride apart, from the first to the last.
template <class A> static __device__ __forceinline__ A joined(const A *parts, int many, int stride) {
	A sum = parts[0];
#pragma unroll 15
	for (int p = 1; p < many; p++) sum.join(parts[(i64)p * stride]);
	return sum;
}
