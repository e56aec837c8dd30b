// The gradient of a BatchNormalization in training, which a step has as some twenty nodes.
// It rounds wherever they do, and its sums are those of reduce.cu: its bits are theirs.
// Each kernel joins the parts of the sums that the one before it has left, so that no
// kernel between them has to.
#include "channels.cuh"

struct Total {
	float v;
	__device__ void join(const Total &b) { v += b.v; }
};

// The sums of a channel's parts: of the image, of the squares of its distances from the
// mean, of the gradient, and of the gradient times the normalized image.
enum { Images, Squares, Gradients, Products, Sums };

struct Gradient {
	Channels c;
	int terms; // of a channel
	float perVariance, perShift, perSlope, epsilon;
};

// place is where the parts of a sum lie: those of all channels, for each part.
static __device__ __forceinline__ float *place(float *parts, const Gradient &g, int sum) { return parts + (i64)sum * gridDim.y * g.c.count; }

// Numbers are those of a channel.
struct Numbers {
	float sums[Sums];
	float mean, inverse;
	// The first many sums are known.
	__device__ Numbers(float *parts, const Gradient &g, const Channel &own, int many) {
		__shared__ float known[8][Sums]; // of the teams of a block
		if (threadIdx.x < many) known[threadIdx.y][threadIdx.x] = joined((const Total *)place(parts, g, threadIdx.x) + own.number, gridDim.y, g.c.count).v;
		__syncthreads();
#pragma unroll
		for (int k = 0; k < Sums; k++) sums[k] = k < many ? known[threadIdx.y][k] : 0;
		mean = sums[Images] / g.terms;
		inverse = 1 / sqrtf(__fadd_rn(__fmul_rn(sums[Squares], g.perVariance), g.epsilon));
	}
	__device__ __forceinline__ float distance(float x) const { return __fsub_rn(x, mean); }
	__device__ __forceinline__ float normal(float x) const { return __fmul_rn(distance(x), inverse); }
};

static __device__ __forceinline__ void leave(float *parts, const Gradient &g, const Channel &own, int k, float sum) {
	sum = team(sum, true, Plus());
	if (own.leads) place(parts, g, k)[own.slot(g.c)] = sum;
}

KERNEL(mean, (const float *x, float *parts, Gradient g)) {
	Channel own(g.c);
	float sum = 0;
	each(g.c, own, [&](auto n, int at) {
		auto v = few<n.n>(x + at, g.c);
#pragma unroll
		for (int j = 0; j < n.n; j++) sum += v.v[j];
	});
	leave(parts, g, own, Images, sum);
}

KERNEL(squares, (const float *x, float *parts, Gradient g)) {
	Channel own(g.c);
	Numbers by(parts, g, own, Squares);
	float sum = 0;
	each(g.c, own, [&](auto n, int at) {
		auto v = few<n.n>(x + at, g.c);
#pragma unroll
		for (int j = 0; j < n.n; j++) {
			float d = by.distance(v.v[j]);
			sum = fmaf(d, d, sum);
		}
	});
	leave(parts, g, own, Squares, sum);
}

KERNEL(products, (const float *x, const float *d, float *parts, Gradient g)) {
	Channel own(g.c);
	Numbers by(parts, g, own, Gradients);
	float sum = 0, product = 0;
	each(g.c, own, [&](auto n, int at) {
		auto v = few<n.n>(x + at, g.c), w = few<n.n>(d + at, g.c);
#pragma unroll
		for (int j = 0; j < n.n; j++) {
			sum += w.v[j];
			product = __fadd_rn(product, __fmul_rn(w.v[j], by.normal(v.v[j])));
		}
	});
	leave(parts, g, own, Gradients, sum);
	leave(parts, g, own, Products, product);
}

// totals writes the sums of the gradient for each channel that are not null.
KERNEL(totals, (float *gradients, float *products, float *parts, int many, Gradient g)) {
	int number = blockIdx.x * blockDim.x + threadIdx.x, sum = many * g.c.count;
	if (number >= g.c.count) return;
	const Total *first = (const Total *)parts + number;
	if (gradients) gradients[number] = joined(first + (i64)Gradients * sum, many, g.c.count).v;
	if (products) products[number] = joined(first + (i64)Products * sum, many, g.c.count).v;
}

// apply writes the gradient of the image, which may overwrite x or d, and what totals
// writes, unless that is null.
KERNEL(apply, (float *y, float *gradients, float *products, const float *x, const float *d, const float *scale, float *parts, Gradient g)) {
	Channel own(g.c);
	Numbers by(parts, g, own, Sums);
	if (gradients && own.leads && blockIdx.y == 0) {
		gradients[own.number] = by.sums[Gradients];
		products[own.number] = by.sums[Products];
	}
	if (!own.real) return;
	float shift = __fmul_rn(by.sums[Gradients], g.perShift), slope = __fmul_rn(by.sums[Products], g.perSlope);
	float factor = __fmul_rn(load(scale + own.number), by.inverse);
	each(g.c, own, [&](auto n, int at) {
		auto v = few<n.n>(x + at, g.c), w = few<n.n>(d + at, g.c);
#pragma unroll
		for (int j = 0; j < n.n; j++)
			w.v[j] = __fmul_rn(__fsub_rn(__fsub_rn(w.v[j], shift), __fmul_rn(by.normal(v.v[j]), slope)), factor);
		put(y + at, w, g.c);
	});
}
