// Convolutions with few output channels in each group, depthwise ones above all, of which
// tiles would be mostly empty. With SPREAD, direct is a transposed convolution.
#include "product.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Direct is a convolution; lists are along the three axes of space.
struct Direct {
	int m, channels, groups, k; // channels of a group: of the result and of the image; k: depth
	u32 count;                  // threads of direct, positions in all images of correlate
	int chunk;                  // depth of a part of the sum
	Divider positions, out12, out2, blocks, byGroups, taps, taps12, taps2;
	int in[3], kernel[3], stride[3], dilation[3], pad[3];
	int step[3]; // SPREAD: between the taps of a position
	i64 total, xImage, xGroup, xChannel, wGroup, wRow, wChannel, yRow;
};

// Range is the taps of a position along an axis: tap first + i·step reads the element
// at start + i·dilation.
struct Range {
	int first, count, step, start, dilation;
	__device__ __forceinline__ Range(const Direct &s, int a, int at) {
#ifdef SPREAD
		// Every step-th tap meets an element; which is the first depends on the position.
		at += s.pad[a];
		step = s.step[a];
		for (first = 0; first < step && (at - first * s.dilation[a]) % s.stride[a]; first++) {}
		count = first < step ? (s.kernel[a] - first + step - 1) / step : 0;
		start = (at - first * s.dilation[a]) / s.stride[a];
		dilation = -(step * s.dilation[a] / s.stride[a]);
#else
		first = 0, count = s.kernel[a], step = 1, start = at * s.stride[a] - s.pad[a], dilation = s.dilation[a];
#endif
	}
};

// Each thread computes a position in R channels of a group.
template <int R> static __device__ __forceinline__ void direct_conv(T *y, const T *x, const T *w, const T *bias, const T *added, const Direct &s, const Finish &f) {
	u32 i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= s.count) return;
	u32 line = s.positions.quotient(i), position = i - line * s.positions.by;
	u32 o0 = s.out12.quotient(position), rest = position - o0 * s.out12.by;
	u32 o1 = s.out2.quotient(rest), o2 = rest - o1 * s.out2.by;
	u32 part = s.blocks.quotient(line); // image and group
	int row = (line - part * s.blocks.by) * R, group = part - s.byGroups.quotient(part) * s.byGroups.by;
	Range z(s, 0, o0), v(s, 1, o1), u(s, 2, o2);
	x += (i64)part * s.channels * s.xChannel;
	w += group * s.wGroup + row * s.wRow + ((i64)z.first * s.kernel[1] + v.first) * s.kernel[2] + u.first;
	C sum[R];
#pragma unroll
	for (int r = 0; r < R; r++) sum[r] = 0;
	for (int c = 0; c < s.channels; c++, x += s.xChannel, w += s.wChannel)
		for (int j0 = 0, at0 = z.start; j0 < z.count; j0++, at0 += z.dilation) {
			if ((u32)at0 >= (u32)s.in[0]) continue;
			for (int j1 = 0, at1 = v.start; j1 < v.count; j1++, at1 += v.dilation) {
				if ((u32)at1 >= (u32)s.in[1]) continue;
				const T *from = x + (at0 * s.in[1] + at1) * s.in[2];
				const T *by = w + (j0 * z.step * s.kernel[1] + j1 * v.step) * s.kernel[2];
				for (int j2 = 0, at2 = u.start; j2 < u.count; j2++, at2 += u.dilation, by += u.step) {
					if ((u32)at2 >= (u32)s.in[2]) continue;
					C e = load(from + at2);
#pragma unroll
					for (int r = 0; r < R; r++)
						if (R == 1 || row + r < s.m) sum[r] = multiply_add(e, (C)load(by + r * s.wRow), sum[r]);
				}
			}
		}
	Result<T> result{y, nullptr, bias, added, f};
#pragma unroll
	for (int r = 0; r < R; r++)
		if (R == 1 || row + r < s.m) result.write(((i64)part * s.m + row + r) * s.yRow + position, group * s.m + row + r, 0, sum[r]);
}

#define PARAMS (T *y, const T *x, const T *w, const T *bias, const T *added, Direct s, Finish f)
KERNEL(direct1, PARAMS) { direct_conv<1>(y, x, w, bias, added, s, f); }
KERNEL(direct4, PARAMS) { direct_conv<4>(y, x, w, bias, added, s, f); }

#ifndef SPREAD
// correlate is for few positions and a large depth, as in gradients of the weights of
// depthwise convolutions: a block sums up the products of a channel at nine positions.
KERNEL(correlate, (T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, Direct s, Finish f)) {
	const int P = 9, warps = 8;
	__shared__ C shared[P][warps];
	u32 line = blockIdx.x / s.m, row = blockIdx.x % s.m, group = line % s.groups, n0 = line / s.groups * P;
	int start[P][3];
	const T *from[P];
	C sum[P];
#pragma unroll
	for (int p = 0; p < P; p++) {
		u32 n = min(n0 + p, s.count - 1), image = s.positions.quotient(n), rest = n - image * s.positions.by;
		u32 o0 = s.out12.quotient(rest);
		rest -= o0 * s.out12.by;
		u32 o1 = s.out2.quotient(rest), o2 = rest - o1 * s.out2.by;
		start[p][0] = o0 * s.stride[0] - s.pad[0], start[p][1] = o1 * s.stride[1] - s.pad[1], start[p][2] = o2 * s.stride[2] - s.pad[2];
		from[p] = x + image * s.xImage + group * s.xGroup;
		sum[p] = 0;
	}
	w += group * s.wGroup + row * s.wRow;
	int end = min(s.k, (int)(blockIdx.y + 1) * s.chunk);
	for (int k = blockIdx.y * s.chunk + threadIdx.x; k < end; k += blockDim.x) {
		u32 c = s.taps.quotient(k), rest = k - c * s.taps.by;
		u32 j0 = s.taps12.quotient(rest);
		rest -= j0 * s.taps12.by;
		u32 j1 = s.taps2.quotient(rest), j2 = rest - j1 * s.taps2.by;
		int d0 = j0 * s.dilation[0], d1 = j1 * s.dilation[1], d2 = j2 * s.dilation[2];
		C by = load(w + c * s.wChannel + (k - c * s.taps.by));
#pragma unroll
		for (int p = 0; p < P; p++) {
			int a0 = start[p][0] + d0, a1 = start[p][1] + d1, a2 = start[p][2] + d2;
			if ((u32)a0 < (u32)s.in[0] && (u32)a1 < (u32)s.in[1] && (u32)a2 < (u32)s.in[2])
				sum[p] = multiply_add((C)load(from[p] + c * s.xChannel + ((a0 * s.in[1] + a1) * s.in[2] + a2)), by, sum[p]);
		}
	}
#pragma unroll
	for (int p = 0; p < P; p++) {
		for (int d = 16; d; d >>= 1) sum[p] += __shfl_xor_sync(0xffffffffu, sum[p], d);
		if (threadIdx.x % 32 == 0) shared[p][threadIdx.x / 32] = sum[p];
	}
	__syncthreads();
	u32 n = n0 + threadIdx.x;
	if (threadIdx.x >= P || n >= s.count) return;
	C v = shared[threadIdx.x][0];
	for (int i = 1; i < warps; i++) v += shared[threadIdx.x][i];
	u32 image = s.positions.quotient(n), channel = group * s.m + row;
	Result<T> result{y, parts ? parts + blockIdx.y * s.total : nullptr, bias, added, f};
	result.write(((i64)image * s.groups * s.m + channel) * s.yRow + (n - image * s.positions.by), channel, 0, v);
}
#endif
