// DeformConv: the elements of images under a kernel whose taps are shifted by fractions, as the
// matrices that the weights multiply.
#include "prelude.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

struct Deform {
	int height, width, rows, columns; // of an image, and of the result
	int kernelHeight, kernelWidth, strides[2], dilations[2], pads[2];
	int channels, shifts; // shifts: groups of channels with shifts of their own
};

// between interpolates a plane at (y, x); outside of it are zeros.
static __device__ C between(const T *plane, const Deform &s, C y, C x) {
	if (!(y > -1 && y < (C)s.height && x > -1 && x < (C)s.width)) return 0;
	C top = floor(y), left = floor(x), fy = y - top, fx = x - left, sum = 0;
#pragma unroll
	for (int k = 0; k < 4; k++) {
		int row = (int)top + k / 2, column = (int)left + k % 2;
		C weight = (k / 2 ? fy : 1 - fy) * (k % 2 ? fx : 1 - fx);
		if (row >= 0 && row < s.height && column >= 0 && column < s.width) sum += weight * load(plane + (i64)row * s.width + column);
	}
	return sum;
}

// see writes count elements of matrices: for each channel and tap of an image those at all
// places of the result. factor may be null.
KERNEL(see, (T *matrix, const T *x, const T *shift, const T *factor, Deform s, u32 count)) {
	const u32 places = (u32)(s.rows * s.columns), taps = (u32)(s.kernelHeight * s.kernelWidth);
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 line = i / places, o = i - line * places, plane = line / taps, tap = line - plane * taps;
		u32 image = plane / s.channels, group = (plane - image * s.channels) / (s.channels / s.shifts);
		i64 at = (((i64)image * s.shifts + group) * taps + tap) * places;
		int row = (int)(o / s.columns), column = (int)(o % s.columns), down = (int)tap / s.kernelWidth, across = (int)tap % s.kernelWidth;
		C y = (C)(row * s.strides[0] - s.pads[0] + down * s.dilations[0]) + load(shift + 2 * at + o);
		C v = (C)(column * s.strides[1] - s.pads[1] + across * s.dilations[1]) + load(shift + 2 * at + places + o);
		C seen = between(x + (i64)plane * s.height * s.width, s, y, v);
		store(matrix + i, factor ? seen * load(factor + at + o) : seen);
	}
}
