// Convolutions of 8-bit integers. The padding adds nothing: it is a zero point.
#include "conv.cuh"
#include "qproduct.cuh"

typedef LEFT A;   // of the weights
typedef RIGHT B;  // of the image
typedef RESULT Y;

template <class L> static __device__ __forceinline__ void qconv(Y *y, const B *x, const A *w, const B *zeroX, const A *zeroW, int countW, const Slide &s, const float *scales, const Scaling<Y> &f) {
	u32 high = (s.m + L::m - 1) / L::m, block = blockIdx.x;
	int m0 = block % high * L::m;
	block /= high;
	int group = block % s.groups, n0 = block / s.groups * L::n;
	typedef Matrix<A, Index, L::m, L::k, L::threads, Shifted<A, L::m * L::k / L::threads>> Left;
	Left left;
	left.begin(w + group * s.wGroup, s.wRow, 1, m0, s.m, 0, s.k);
#pragma unroll
	for (int i = 0; i < Left::each; i++) left.read.zero[i] = zeroW ? (int)zeroW[(u32)(group * s.m + m0 + left.place(i)) % countW] : 0;
	__shared__ Tap taps[2][L::k];
	Taps<L> plan{taps, s, s.k};
	Image<B, L, false, Shifted<B, 1>> right;
	right.begin(x + group * s.xGroup, s, taps, n0);
	right.read.zero[0] = zeroX ? (int)*zeroX : 0;
	Sums<L, int> sums;
	sums.clear();
	if (!product(sums, plan, left, right, 0, s.k)) return;
	sums.each([&](int row, int column, int, const int *v) {
		row += m0, column += n0;
		if (row >= s.m) return;
		int channel = group * s.m + row;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (column + i >= s.n) return;
			u32 image = s.positions.quotient(column + i);
			write_sum(y + image * s.yImage + channel * s.yRow + (column + i - image * s.positions.by), v[i], scales, f, channel, 0, 0, channel);
		}
	});
}

#define PARAMS (Y *y, const B *x, const A *w, const B *zeroX, const A *zeroW, int countW, Slide s, const float *scales, Scaling<Y> f)
KERNEL_FOR(128, 3, conv64, PARAMS) { qconv<Tile64>(y, x, w, zeroX, zeroW, countW, s, scales, f); }
KERNEL_FOR(128, 3, conv32, PARAMS) { qconv<Tile32>(y, x, w, zeroX, zeroW, countW, s, scales, f); }

// direct is for groups of few channels: each thread computes an element.
KERNEL(direct, (Y *y, const B *x, const A *w, const B *zeroX, const A *zeroW, int countW, Slide s, const float *scales, Scaling<Y> f)) {
	u32 i = blockIdx.x * blockDim.x + threadIdx.x, line = s.positions.quotient(i), channels = s.groups * s.m, image = line / channels;
	if (i >= s.total) return;
	int channel = line - image * channels, group = channel / s.m;
	Column c(s, i - line * s.positions.by);
	int zx = zeroX ? (int)*zeroX : 0, zw = zeroW ? (int)zeroW[channel % countW] : 0, sum = 0;
	int start[3];
	for (int a = 0; a < 3; a++) start[a] = s.start[a] + c.at[a] * s.stride[a];
	x += image * s.xImage + group * s.xGroup;
	w += channel * s.wRow;
	for (u32 k = 0; k < (u32)s.k; x += s.xChannel)
		for (u32 t = 0; t < s.taps.by; t++, k++) {
			u32 j0 = s.taps12.quotient(t), r = t - j0 * s.taps12.by, j1 = s.taps2.quotient(r), j2 = r - j1 * s.taps2.by;
			int a0 = start[0] + j0 * s.dilation[0], a1 = start[1] + j1 * s.dilation[1], a2 = start[2] + j2 * s.dilation[2];
			if ((u32)a0 < (u32)s.in[0] && (u32)a1 < (u32)s.in[1] && (u32)a2 < (u32)s.in[2])
				sum += ((int)x[(a0 * s.in[1] + a1) * s.in[2] + a2] - zx) * ((int)w[k] - zw);
		}
	write_sum(y + i, sum, scales, f, channel, 0, 0, channel);
}
