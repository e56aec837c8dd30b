// GridSample: an image is sampled at the points of a grid, from 1, 2 or 4 elements along
// each axis (TAPS).
#include "prelude.cuh"

typedef ELEMENT T;

enum Padding { zeros, border, reflection };

// Image is the shape of the image and of what is sampled: outputs points in each of the
// images, and inputs elements in each channel of them.
struct Image {
	int images, channels, inputs, outputs;
	int padding, corners;
	int n[3], step[3]; // the lengths of the axes, and the distance of two elements
};

// The channels that a thread samples at a point.
static const int together = 16;

// Axis samples along one axis of an image, with n elements.
struct Axis {
	int n, padding, corners;
	// place converts a coordinate in [-1, 1] to elements. What is no number, or too far away,
	// lies at the least place.
	__device__ float place(float x) const {
		float at = corners ? __fmul_rn((x + 1) / 2, (float)(n - 1)) : (__fmul_rn(x + 1, (float)n) - 1) / 2;
		return at > -0x1p62f && at < 0x1p62f ? at : least();
	}
	__device__ float least() const { return corners ? 0 : -0.5f; }
	__device__ float largest() const { return corners ? (float)n - 1 : (float)n - 0.5f; }
	// reflect reflects x at the ends until it lies between them.
	__device__ float reflect(float x) const {
		float low = least(), high = largest(), length = high - low;
		if (length <= 0) return low;
		float over = x > high ? x - high : low - x, times = floorf(over / length);
		float rest = over - __fmul_rn(times, length);
		bool even = fmodf(times, 2) == 0;
		return even == (x < low) ? low + rest : high - rest;
	}
	// inside moves a coordinate into the image, as the padding says.
	__device__ float inside(float x) const {
		if (x >= least() && x <= largest() || padding == zeros) return x;
		if (padding == border) return x != x ? x : fminf(fmaxf(x, 0), (float)(n - 1));
		return reflect(x);
	}
	// element is the index of the element at a whole coordinate, -1 if there is none.
	__device__ int element(float i) const {
		if (i >= 0 && i < (float)n) return (int)i;
		if (i != i || padding == zeros) return -1;
		if (padding == border) return i < 0 ? 0 : n - 1;
		float x = reflect(i);
		return x > 0 ? min((int)x, n - 1) : 0;
	}
};

// cubic is the weight of an element at a distance (Keys 1981, with a = -0.75).
static __device__ __forceinline__ float far_cubic(float d) { return ((-0.75f * d + 3.75f) * d - 6) * d + 3; }
static __device__ __forceinline__ float near_cubic(float d) { return (1.25f * d - 2.25f) * d * d + 1; }

// Taps are the elements along one axis that a coordinate reads, and their weights.
template <int N> struct Taps {
	int at[N];
	float weight[N];
	__device__ void find(const Axis &a, float x, int step) {
		x = a.place(x);
		if (N == 1) x = rintf(x);
		if (N != 4 || a.padding != border) x = a.inside(x); // else only the elements that it reads are
		float from = N == 1 ? truncf(x) : floorf(x), t = x - from;
		if (N == 1) weight[0] = 1;
		if (N == 2) weight[0] = 1 - t, weight[N - 1] = t;
		if (N == 4) weight[0] = far_cubic(t + 1), weight[N / 4] = near_cubic(t), weight[N / 2] = near_cubic(1 - t), weight[N - 1] = far_cubic(2 - t);
#pragma unroll
		for (int i = 0; i < N; i++) {
			int k = a.element(from + (N == 4 ? i - 1 : i));
			at[i] = k < 0 ? -1 : k * step;
		}
	}
};

// Sum adds up weighted elements along the axes from A on. An offset below 0 is outside.
template <int D, int A, int N> struct Sum {
	static __device__ __forceinline__ float of(const T *x, const Taps<N> (&taps)[D], int off, float weight) {
		float sum = 0;
#pragma unroll
		for (int i = 0; i < N; i++)
			if (taps[A].at[i] >= 0) sum += Sum<D, A + 1, N>::of(x, taps, off + taps[A].at[i], weight * taps[A].weight[i]);
		return sum;
	}
};
template <int D, int N> struct Sum<D, D, N> {
	static __device__ __forceinline__ float of(const T *x, const Taps<N> (&)[D], int off, float weight) { return weight * load(x + off); }
};

template <int D, int N> static __device__ __forceinline__ void sample(T *y, const T *x, const T *grid, const Image &s) {
	u32 points = (u32)s.images * s.outputs;
	for (u32 p = blockIdx.x * blockDim.x + threadIdx.x; p < points; p += gridDim.x * blockDim.x) {
		u32 image = p / s.outputs, o = p - image * s.outputs;
		Taps<N> taps[D];
#pragma unroll
		for (int a = 0; a < D; a++) taps[a].find(Axis{s.n[a], s.padding, s.corners}, load(grid + ((i64)p * D + (D - 1 - a))), s.step[a]);
		for (int c = blockIdx.y * together; c < s.channels; c += gridDim.y * together)
			for (int k = c; k < min(c + together, s.channels); k++) {
				i64 plane = (i64)image * s.channels + k;
				store(y + (plane * s.outputs + o), Sum<D, 0, N>::of(x + plane * s.inputs, taps, 0, 1));
			}
	}
}

#define PARAMS (T * __restrict__ y, const T *__restrict__ x, const T *__restrict__ grid, Image s)
#define SAMPLES(N) \
	KERNEL(sample1_##N, PARAMS) { sample<1, N>(y, x, grid, s); } \
	KERNEL(sample2_##N, PARAMS) { sample<2, N>(y, x, grid, s); } \
	KERNEL(sample3_##N, PARAMS) { sample<3, N>(y, x, grid, s); }
#define EXPANDED(N) SAMPLES(N)
EXPANDED(TAPS)
