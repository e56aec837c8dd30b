// Running sums and products along lines.
#include "rows.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Running is the sum or the product so far.
struct Running {
	C v, rest; // rest: what rounding has cut off a sum of reals (Kahan 1965)
	bool product;
	__device__ explicit Running(bool p) : v(p ? 1 : 0), rest(0), product(p) {}
	__device__ C with(C a) const { return product ? v * a : v + a; }
	__device__ void take(C a) {
		if (product) {
			v *= a;
			return;
		}
		C y = a - rest, t = v + y;
		C lost = (t - v) - y;
		rest = lost == lost ? lost : (C)0; // not after an infinity
		v = t;
	}
};

// What a running sum leaves out, and its direction.
struct Way {
	int product, exclusive, reverse;
};

// cumulate_rows has a warp for each line of neighbouring elements: it takes 32 of them at
// once.
KERNEL(cumulate_rows, (T *y, const T *x, i64 lines, int n, Way way)) {
	i64 line = (i64)blockIdx.x * blockDim.y + threadIdx.y;
	if (line >= lines) return; // a whole warp
	x += line * n;
	y += line * n;
	int lane = threadIdx.x;
	C none = way.product ? 1 : 0;
	Running sum(way.product);
	for (int from = 0; from < n; from += 32) {
		int i = way.reverse ? n - 1 - from - lane : from + lane;
		bool inside = from + lane < n;
		C v = inside ? load(x + i) : none;
		for (int d = 1; d < 32; d *= 2) {
			C before = __shfl_sync(0xffffffffu, v, (lane - d) & 31);
			if (lane >= d) v = way.product ? before * v : before + v;
		}
		C before = __shfl_sync(0xffffffffu, v, (lane - 1) & 31);
		if (lane == 0) before = none;
		if (inside) store(y + i, sum.with(way.exclusive ? before : v));
		sum.take(__shfl_sync(0xffffffffu, v, 31));
	}
}

// cumulate_columns has a thread for each line of elements that lie step apart.
KERNEL(cumulate_columns, (T *y, const T *x, i64 lines, int n, i64 step, Way way)) {
	i64 line = (i64)blockIdx.x * blockDim.x + threadIdx.x;
	if (line >= lines) return;
	i64 at = line / step * step * n + line % step;
	if (way.reverse) {
		at += (n - 1) * step;
		step = -step;
	}
	Running sum(way.product);
#pragma unroll 4
	for (int i = 0; i < n; i++, at += step) {
		C v = load(x + at);
		if (way.exclusive) store(y + at, sum.v);
		sum.take(v);
		if (!way.exclusive) store(y + at, sum.v);
	}
}
