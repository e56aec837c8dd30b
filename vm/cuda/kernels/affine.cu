// AffineGrid: points that are spread evenly over [-1, 1] are mapped by a matrix for each
// image.
#include "index.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

struct Affine {
	u32 total;       // points, of all images
	u32 corners;     // -1 and 1 are the centres of the first and the last element
	Divider over[3]; // the lengths of the axes, the last one first
};

// A thread maps a point. Its coordinates are those of the last axis first.
template <int D> static __device__ __forceinline__ void map(T *y, const T *theta, const Affine &s) {
	for (u32 p = blockIdx.x * blockDim.x + threadIdx.x; p < s.total; p += gridDim.x * blockDim.x) {
		C at[D + 1];
		u32 image = p;
#pragma unroll
		for (int k = 0; k < D; k++) {
			u32 n = s.over[k].by, rest = s.over[k].quotient(image), i = image - rest * n;
			at[k] = !s.corners ? (C)(2 * i + 1) / (C)n - 1 : n > 1 ? (C)(2 * i) / (C)(n - 1) - 1 : (C)-1;
			image = rest;
		}
		at[D] = 1;
#pragma unroll
		for (int r = 0; r < D; r++) {
			C sum = 0;
#pragma unroll
			for (int k = 0; k <= D; k++) sum += (C)load(theta + ((i64)image * D + r) * (D + 1) + k) * at[k];
			store(y + ((i64)p * D + r), sum);
		}
	}
}

#define PARAMS (T * __restrict__ y, const T *__restrict__ theta, Affine s)
KERNEL(map2, PARAMS) { map<2>(y, theta, s); }
KERNEL(map3, PARAMS) { map<3>(y, theta, s); }
