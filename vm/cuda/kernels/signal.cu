// DFT and STFT: the matrix that a signal is multiplied with.
#include "prelude.cuh"

typedef ELEMENT T;

// Transform is of n numbers, of which the first used are there. Numbers have in and out parts:
// a real one, or that and an imaginary one.
struct Transform {
	int n, used, in, out, bins;
	int inverse, half; // with both, the numbers behind those are the conjugates of those before
};

// waves writes the matrix, whose rows are the parts of the numbers, times a window, and whose
// columns those of the bins. window may be null.
KERNEL(waves, (T *matrix, const T *window, Transform s, u32 count)) {
	const u32 wide = (u32)(s.bins * s.out);
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 row = i / wide, column = i - row * wide;
		int j = (int)row / s.in, k = (int)column / s.out;
		bool from = (int)row % s.in, to = (int)column % s.out; // the imaginary parts
		double angle = 2 * 3.14159265358979323846 * (double)((i64)j * k % s.n) / (double)s.n;
		double v = from == to ? cos(angle) : sin(angle);
		if (from != to && (to ? !s.inverse : s.inverse)) v = -v;
		if (s.inverse) v /= s.n;
		if (s.inverse && s.half && j > 0 && s.n - j >= s.used) v *= 2;
		if (window) v *= (double)load(window + j);
		store(matrix + i, (T)v);
	}
}
