// Reductions over the threads of a block, in a fixed order: the bits do not depend on
// timing. Blocks have a multiple of 32 threads.
#pragma once
#include "prelude.cuh"

struct Plus {
	template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
// A NaN is larger than any number.
struct Larger {
	template <class T> __device__ T operator()(T a, T b) const { return a != a || a > b ? a : b; }
};
struct Smaller {
	template <class T> __device__ T operator()(T a, T b) const { return a != a || a < b ? a : b; }
};

template <class T> static __device__ T lowest();
template <> __device__ float lowest<float>() { return __int_as_float(0xff800000); }
template <> __device__ double lowest<double>() { return __longlong_as_double(0xfff0000000000000ull); }

static __device__ __forceinline__ float exp_of(float x) { return expf(x); }
static __device__ __forceinline__ double exp_of(double x) { return exp(x); }

// reduce combines the values of all threads of a block, and gives each the result.
template <class T, class F> static __device__ T reduce(T v, F f) {
	__shared__ T part[32];
	for (int d = 16; d; d >>= 1) v = f(v, __shfl_xor_sync(0xffffffffu, v, d));
	int warps = blockDim.x / 32;
	__syncthreads(); // part may still be read
	if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
	__syncthreads();
	v = part[0];
	for (int w = 1; w < warps; w++) v = f(v, part[w]);
	return v;
}
