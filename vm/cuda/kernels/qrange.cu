// The scale and zero point with which reals and 0 fit into 8 bits.
#include "qproduct.cuh"

static __device__ __forceinline__ void widen_range(float &low, float &high, float l, float h) {
	if (l < low) low = l;
	if (h > high) high = h;
}

// The range of the values of all threads of a block, for thread 0.
static __device__ __forceinline__ void range_of_block(float &low, float &high) {
	__shared__ float lows[8], highs[8];
	for (int d = 16; d; d >>= 1) {
		float l = __shfl_xor_sync(0xffffffffu, low, d), h = __shfl_xor_sync(0xffffffffu, high, d);
		widen_range(low, high, l, h);
	}
	if (threadIdx.x % 32 == 0) lows[threadIdx.x / 32] = low, highs[threadIdx.x / 32] = high;
	__syncthreads();
	if (threadIdx.x == 0)
		for (int w = 1; w < 8; w++) widen_range(low, high, lows[w], highs[w]);
}

// ranges writes the range of 0 and the elements of each block, of 256 threads.
KERNEL(ranges, (float *parts, const float *x, i64 n)) {
	float low = 0, high = 0;
	for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) widen_range(low, high, x[i], x[i]);
	range_of_block(low, high);
	if (threadIdx.x == 0) parts[2 * blockIdx.x] = low, parts[2 * blockIdx.x + 1] = high;
}

// scale_of is one block of 256 threads.
KERNEL(scale_of, (float *scale, u8 *zero, const float *parts, int n)) {
	float low = 0, high = 0;
	for (int i = threadIdx.x; i < n; i += blockDim.x) widen_range(low, high, parts[2 * i], parts[2 * i + 1]);
	range_of_block(low, high);
	if (threadIdx.x) return;
	float s = (high - low) / 255, z = 0;
	if (s != 0) {
		z = -low / s;
		z = rintf(z < 0 ? 0 : z > 255 ? 255 : z);
	}
	*scale = s;
	*zero = (u8)z;
}

KERNEL(quantize, (u8 *y, const float *x, const float *scale, const u8 *zero, i64 n)) {
	float s = *scale;
	int z = *zero;
	for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) y[i] = s == 0 ? 0 : byte_of<u8>(x[i] / s, z);
}
