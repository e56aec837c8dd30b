// What follows a product: the sum of the parts of its elements, and its activation.
#include "product.cuh"

typedef ELEMENT T;

// finish writes y, of rows x columns elements or several times as many, from its parts.
KERNEL(finish, (T *y, const Compute<T> *parts, const T *bias, const T *added, u32 total, int count, u32 rows, u32 columns, Finish f)) {
	Result<T> result{y, nullptr, bias, added, f};
	add_parts(result, parts, total, count, rows, columns);
}

#ifdef ACTIVATES // of reals

// The activations that the attribute of a fused product can name.
enum { Sigmoid = 1, Tanh, HardSwish, HardSigmoid, LeakyRelu, Elu, ThresholdedRelu, Softplus, Softsign };

static __device__ __forceinline__ double exp_of(double x) { return exp(x); }
static __device__ __forceinline__ float exp_of(float x) { return expf(x); }
static __device__ __forceinline__ double expm1_of(double x) { return expm1(x); }
static __device__ __forceinline__ float expm1_of(float x) { return expm1f(x); }
static __device__ __forceinline__ double log1p_of(double x) { return log1p(x); }
static __device__ __forceinline__ float log1p_of(float x) { return log1pf(x); }
static __device__ __forceinline__ double tanh_of(double x) { return tanh(x); }
static __device__ __forceinline__ float tanh_of(float x) { return tanhf(x); }

template <class C> static __device__ __forceinline__ C activated(int kind, C x, C alpha, C beta) {
	C zero = 0, one = 1, size = x < zero ? -x : x, v;
	switch (kind) {
	case Sigmoid: return one / (one + exp_of(-x));
	case Tanh: return tanh_of(x);
	case HardSwish: v = x / (C)6 + (C)0.5; return x * (v < zero ? zero : v > one ? one : v);
	case HardSigmoid: v = alpha * x + beta; return v < zero ? zero : v > one ? one : v;
	case LeakyRelu: return x < zero ? alpha * x : x;
	case Elu: return x < zero ? alpha * expm1_of(x) : x;
	case ThresholdedRelu: return x > alpha ? x : zero;
	case Softplus: return (x > zero ? x : zero) + log1p_of(exp_of(-size));
	case Softsign: return x / (one + size);
	}
	return x;
}

KERNEL(activate, (T *y, i64 n, int kind, float alpha, float beta)) {
	for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
		store(y + i, activated<Compute<T>>(kind, load(y + i), alpha, beta));
}

#endif
