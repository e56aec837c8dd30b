// Operators on quantized tensors, from bytes of type LEFT to bytes of type RESULT.
#include "index.cuh"
#include "pool.cuh"
#include "quantity.cuh"
#include "rows.cuh"

typedef LEFT X;
typedef RESULT Y;

// FUNCTION numbers what becomes of a real.
enum { STAYS, SIGMOID, LEAKY };

static __device__ double applied(int function, double x, double alpha) {
	if (function == SIGMOID) {
		if (x < 0) {
			double e = exp(x);
			return e / (1 + e);
		}
		return 1 / (1 + exp(-x));
	}
	if (function == LEAKY) return x > 0 ? x : alpha * x;
	return x;
}

// look_up maps count words, which are bytes or with four fours of bytes, through a table
// that each block of 256 threads makes. Every length words are a row; the rows of y begin
// stride words apart.
KERNEL(look_up, (Y *y, const X *x, Quantity<X> from, Quantity<Y> to, u32 count, Divider length, u32 stride, int four, int function, double alpha)) {
	__shared__ Y table[256];
	float v = dequantized((X)(u8)threadIdx.x, *from.scale, from.point());
	table[threadIdx.x] = quantized<Y>(function == STAYS ? v : (float)applied(function, v, alpha), *to.scale, to.point());
	__syncthreads();
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 row = length.quotient(i);
		i64 at = (i64)row * stride + (i - row * length.by);
		if (!four) {
			y[at] = table[(u8)x[i]];
			continue;
		}
		Pack<X> p = ((const Pack<X> *)x)[i];
		Pack<Y> q;
#pragma unroll
		for (int k = 0; k < 4; k++) q.v[k] = table[(u8)p.v[k]];
		((Pack<Y> *)y)[at] = q;
	}
}

// channel_means writes the mean of each line, whose sum is exact.
KERNEL(channel_means, (Y *y, const X *x, Lines s, Quantity<X> from, Quantity<Y> to)) {
	Line l(s);
	i64 sum = 0;
	read(x + l.at, s, l, [&](int, int, X v) { sum += v; });
	sum = team(sum, s.along, Plus());
	if (!l.leads()) return;
	float mean = (float)((double)(sum - (i64)s.n * from.point()) * (double)*from.scale / (double)s.n);
	y[l.number] = quantized<Y>(mean, *to.scale, to.point());
}

// softmax divides by the scale of y with an inverse that is rounded down, as ONNX Runtime
// does.
KERNEL(softmax, (Y *y, const X *x, Lines s, Quantity<X> from, Quantity<Y> to)) {
	__shared__ double powers[256];
	for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 256; i += blockDim.x * blockDim.y) powers[i] = exp(-(double)i * (double)*from.scale);
	__syncthreads();
	Line l(s);
	int most = is_signed<X>() ? -128 : 0;
	read(x + l.at, s, l, [&](int, int, X v) { most = v > most ? v : most; });
	most = team(most, s.along, Larger());
	double sum = 0;
	read(x + l.at, s, l, [&](int, int, X v) { sum += powers[most - v]; });
	sum = team(sum, s.along, Plus());
	if (!l.real) return;
	const double low = is_signed<Y>() ? -128 : 0, high = low + 255;
	double inverse = floor((double)(1 / *to.scale)), zero = to.point();
	visit(s, l, [&](int i, int) {
		i64 at = l.at + (i64)i * s.step;
		double v = rint(powers[most - x[at]] * inverse / sum) + zero;
		y[at] = (Y)(int)(v >= low ? v > high ? high : v : low);
	});
}

// average_bytes adds the reals up as the host does: first the column under each tap of a row.
KERNEL(average_bytes, (Y *y, const X *x, Window s, u32 count, int padded, Quantity<X> from, Quantity<Y> to)) {
	const float scale = *from.scale, step = *to.scale;
	const X zero = from.point();
	const Y shift = to.point();
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		Place<X> p = place(s, x, o);
		float sum = 0;
		for (int w = p.w.from; w < p.w.to; w++) {
			float column = 0;
			for (int d = p.d.from; d < p.d.to; d++)
				for (int h = p.h.from; h < p.h.to; h++) {
					int row = (((int)p.d.start + d * s.dilation[0]) * s.in[1] + (int)p.h.start + h * s.dilation[1]) * s.in[2] + (int)p.w.start;
					column += __fmul_rn((float)((int)p.image[row + w * s.dilation[2]] - (int)zero), scale);
				}
			sum += column;
		}
		float rows = (float)p.d.counted(s, 0, padded) * (float)p.h.counted(s, 1, padded), columns = (float)p.w.counted(s, 2, padded);
		y[o] = quantized<Y>(sum / ((rows > 1 ? rows : 1) * (columns > 1 ? columns : 1)), step, shift);
	}
}
