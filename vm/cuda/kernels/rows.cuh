// Lines of elements that teams of threads work on together, and reductions over the
// threads of a team, in a fixed order: the bits do not depend on timing.
#pragma once
#include "prelude.cuh"

struct Plus {
	template <class A> __device__ A operator()(A a, A b) const { return a + b; }
};
// A NaN is larger than any number.
struct Larger {
	template <class A> __device__ A operator()(A a, A b) const { return a != a || a > b ? a : b; }
};

template <class A> static __device__ __forceinline__ A lowest();
template <> __device__ __forceinline__ float lowest<float>() { return __int_as_float((int)0xff800000u); }
template <> __device__ __forceinline__ double lowest<double>() { return __longlong_as_double((long long)0xfff0000000000000ull); }

static __device__ __forceinline__ float exp_of(float x) { return expf(x); }
static __device__ __forceinline__ double exp_of(double x) { return exp(x); }
static __device__ __forceinline__ float log_of(float x) { return logf(x); }
static __device__ __forceinline__ double log_of(double x) { return log(x); }
static __device__ __forceinline__ float root_of(float x) { return sqrtf(x); }
static __device__ __forceinline__ double root_of(double x) { return sqrt(x); }
static __device__ __forceinline__ float size_of(float x) { return fabsf(x); }
static __device__ __forceinline__ double size_of(double x) { return fabs(x); }

// exchange gives the value of the lane whose number differs in the bits d.
template <class A> static __device__ __forceinline__ A exchange(A v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }

// Lines describes how the lines of a tensor are shared out: line l is n elements that lie
// step elements apart, the first at l / step * n * step + l % step. With along, the
// threads of a team are neighbours in x, and y counts the teams of a block: for lines
// whose elements are neighbours. Else a team is the threads of one x, which have
// neighbouring lines beside them. A team has a power of two of threads.
struct Lines {
	i64 count;
	int n, step;
	int kept;   // the elements fit the dynamic shared memory
	int along;
	int wide;   // a thread takes four neighbouring elements at once
	int packed; // all four have an address that allows to load them together
};

// Line is what a thread has of a line: the elements first, first + by, ..., or of a wide
// line those fours. In shared memory they lie at slot, slot + slots, ..., where no other
// thread reads or writes.
struct Line {
	i64 number, at;
	int first, by, slot, slots;
	bool real; // else the grid has more teams than there are lines
	__device__ explicit Line(const Lines &s) {
		number = s.along ? (i64)blockIdx.x * blockDim.y + threadIdx.y : (i64)blockIdx.x * blockDim.x + threadIdx.x;
		real = number < s.count;
		if (!real) number = s.count - 1;
		at = s.step == 1 ? number * s.n : number / s.step * s.step * s.n + number % s.step;
		first = s.along ? threadIdx.x : threadIdx.y;
		by = s.along ? blockDim.x : blockDim.y;
		slot = threadIdx.y * blockDim.x + threadIdx.x;
		slots = blockDim.x * blockDim.y;
	}
	__device__ bool leads() const { return real && first == 0; }
};

// team combines the values of the threads of a team, and gives each the result. It must
// be called by all threads of a block.
template <class A, class F> static __device__ A team(A v, bool along, F f) {
	__shared__ A part[256];
	int thread = threadIdx.y * blockDim.x + threadIdx.x;
	if (!along) {
		part[thread] = v;
		for (int h = blockDim.y / 2; h; h >>= 1) {
			__syncthreads();
			if (threadIdx.y < h) part[thread] = f(part[thread], part[thread + h * blockDim.x]);
		}
		__syncthreads();
		v = part[threadIdx.x];
		__syncthreads(); // part is free again
		return v;
	}
	for (int d = 1; d < 32 && d < blockDim.x; d *= 2) {
		A other = exchange(v, d);
		v = threadIdx.x & d ? f(other, v) : f(v, other);
	}
	if (blockDim.x <= 32) return v;
	int warps = blockDim.x / 32;
	if (thread % 32 == 0) part[thread / 32] = v;
	__syncthreads();
	v = part[thread / 32 / warps * warps + thread % warps];
	for (int d = 1; d < warps; d *= 2) {
		A other = exchange(v, d);
		v = threadIdx.x & d ? f(other, v) : f(v, other);
	}
	__syncthreads();
	return v;
}

// ---- The elements of a line, one by one or four at once

template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Pack { T v[4]; };

// visit calls f(element, slot) for the elements of a thread.
template <class F> static __device__ __forceinline__ void visit(const Lines &s, const Line &l, F f) {
	int k = l.slot;
	if (!s.wide) {
		for (int i = l.first; i < s.n; i += l.by, k += l.slots) f(i, k);
		return;
	}
	for (int i = 4 * l.first; i < s.n; i += 4 * l.by)
		for (int j = 0; j < 4; j++, k += l.slots) f(i + j, k);
}

// read calls f(element, slot, value) for the elements of a thread, in the same order.
template <class T, class F> static __device__ __forceinline__ void read(const T *x, const Lines &s, const Line &l, F f) {
	int k = l.slot;
	if (!s.wide) {
#pragma unroll 4
		for (int i = l.first; i < s.n; i += l.by, k += l.slots) f(i, k, load(x + (i64)i * s.step));
		return;
	}
#pragma unroll 2
	for (int i = 4 * l.first; i < s.n; i += 4 * l.by) {
		Pack<T> p;
		if (s.packed) p = *(const Pack<T> *)(x + i);
		else for (int j = 0; j < 4; j++) p.v[j] = x[i + j];
#pragma unroll
		for (int j = 0; j < 4; j++, k += l.slots) f(i + j, k, load(p.v + j));
	}
}

// write stores f(element, value) in the elements of a thread; value is that of x, or
// with kept that of the slot.
template <class T, class A, class F> static __device__ __forceinline__ void write(T *y, const T *x, const A *kept, const Lines &s, const Line &l, F f) {
	int k = l.slot;
	if (!s.wide) {
#pragma unroll 4
		for (int i = l.first; i < s.n; i += l.by, k += l.slots) {
			i64 at = (i64)i * s.step;
			store(y + at, f(i, s.kept ? kept[k] : (A)load(x + at)));
		}
		return;
	}
#pragma unroll 2
	for (int i = 4 * l.first; i < s.n; i += 4 * l.by) {
		Pack<T> p;
		if (s.kept) p = Pack<T>();
		else if (s.packed) p = *(const Pack<T> *)(x + i);
		else for (int j = 0; j < 4; j++) p.v[j] = x[i + j];
#pragma unroll
		for (int j = 0; j < 4; j++, k += l.slots) store(p.v + j, f(i + j, s.kept ? kept[k] : (A)load(p.v + j)));
		if (s.packed) *(Pack<T> *)(y + i) = p;
		else for (int j = 0; j < 4; j++) y[i + j] = p.v[j];
	}
}
