// Col2Im: the sum of blocks that overlap in an image.
#include "pool.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// meets finds the place o of a window at which a tap of it lies on an element of the image,
// along an axis. It is false if there is none.
static __device__ __forceinline__ bool meets(const Window &s, int a, i64 at, int tap, int &o) {
	i64 k = at + s.before[a] - (i64)tap * s.dilation[a];
	o = (int)(k / s.stride[a]);
	return k >= 0 && k % s.stride[a] == 0 && k / s.stride[a] < s.out[a];
}

// add_blocks adds up, for each of count elements of the images, the taps of the windows that
// reach it, in their order. x has the taps of a plane one after the other, and of each tap all
// places of the window.
KERNEL(add_blocks, (T *y, const T *x, Window s, u32 count)) {
	const int taps = s.kernel[0] * s.kernel[1] * s.kernel[2], places = s.out[0] * s.out[1] * s.out[2];
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 row = i / s.in[2], image = row / s.in[1], plane = image / s.in[0];
		const T *p = x + (i64)plane * taps * places;
		C sum = 0;
		for (int d = 0; d < s.kernel[0]; d++) {
			int od, oh, ow;
			if (!meets(s, 0, image - plane * s.in[0], d, od)) continue;
			for (int h = 0; h < s.kernel[1]; h++) {
				if (!meets(s, 1, row - image * s.in[1], h, oh)) continue;
				for (int w = 0; w < s.kernel[2]; w++) {
					if (!meets(s, 2, i - row * s.in[2], w, ow)) continue;
					int tap = (d * s.kernel[1] + h) * s.kernel[2] + w;
					sum += load(p + (i64)tap * places + (od * s.out[1] + oh) * s.out[2] + ow);
				}
			}
		}
		store(y + i, sum);
	}
}
