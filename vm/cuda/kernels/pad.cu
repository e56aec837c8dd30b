// Padding, and what keeps a part of a tensor at its place. ELEMENT is an unsigned
// integer as wide as the elements; MODE says what lies outside of an axis.
#include "index.cuh"

typedef ELEMENT T;

// The element, of n, that is copied to position i outside of an axis; -1 is the
// constant.
struct Constant {
	static __device__ int take(int, int) { return -1; }
};
struct Edge {
	static __device__ int take(int i, int n) { return i < 0 ? 0 : n - 1; }
};
struct Wrap {
	static __device__ int take(int i, int n) {
		i %= n;
		return i < 0 ? i + n : i;
	}
};
struct Reflect {
	static __device__ int take(int i, int n) {
		if (n == 1) return 0;
		int round = 2 * (n - 1);
		i %= round;
		if (i < 0) i += round;
		return i < n ? i : round - i;
	}
};

// Axes of the output, each with the elements that are added in front (cropped, if
// negative), and with the length and the stride of the input.
template <int R> struct Padded {
	Divider over[R];
	int before[R], n[R], from[R];
};

// pad has the constant at value, or, if that is null, in bits.
template <int R> static __device__ __forceinline__ void pad(T *__restrict__ y, const T *__restrict__ x, const T *__restrict__ value, u64 bits, u32 count, const Padded<R> &axes) {
	T constant = value ? *value : (T)bits;
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 rest = i;
		int from = 0;
		bool inside = true;
#pragma unroll
		for (int a = R - 1; a >= 0; a--) {
			u32 q = a ? axes.over[a].quotient(rest) : 0;
			int c = (int)(rest - q * axes.over[a].by) - axes.before[a];
			rest = q;
			if (c < 0 || c >= axes.n[a]) c = MODE::take(c, axes.n[a]);
			inside = inside && c >= 0;
			from += c * axes.from[a];
		}
		y[i] = inside ? x[from] : constant;
	}
}

KERNEL(pad2, (T *y, const T *x, const T *value, u64 bits, u32 count, Padded<2> axes)) { pad(y, x, value, bits, count, axes); }
KERNEL(pad4, (T *y, const T *x, const T *value, u64 bits, u32 count, Padded<4> axes)) { pad(y, x, value, bits, count, axes); }
KERNEL(pad8, (T *y, const T *x, const T *value, u64 bits, u32 count, Padded<8> axes)) { pad(y, x, value, bits, count, axes); }
