// Products of matrices in memory: MatMul, Gemm, Einsum.
#include "product.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef INDEX Index; // of an element of a and b

// MatMul is a batch of products, y[m][n] = Σ a[m][k]·b[k][n]; steps are in elements. The
// batch has up to 6 axes.
struct MatMul {
	int m, n, k, chunk; // chunk: k of a part of the sum
	i64 total;          // elements of y
	i64 aRow, aDeep, bColumn, bDeep, yRow, yColumn;
	int axes, wide; // wide: four columns of y lie at a multiple of their size
	int length[6];
	i64 aStep[6], bStep[6], yStep[6];
};

template <class L> static __device__ __forceinline__ void matmul(T *y, C *parts, const T *a, const T *b, const T *bias, const T *added, const MatMul &s, const Finish &f) {
	u32 high = (s.m + L::m - 1) / L::m, wide = (s.n + L::n - 1) / L::n, block = blockIdx.x;
	int m0 = block % high * L::m;
	block /= high;
	int n0 = block % wide * L::n;
	block /= wide;
	i64 to = 0;
	for (int i = s.axes - 1; i >= 0; i--) {
		u32 rest = block / s.length[i], c = block - rest * s.length[i];
		a += c * s.aStep[i], b += c * s.bStep[i], to += c * s.yStep[i];
		block = rest;
	}
	int k0 = blockIdx.y * s.chunk, k1 = min(s.k, k0 + s.chunk);
	Unplanned plan;
	Matrix<T, Index, L::m, L::k, L::threads> left;
	Matrix<T, Index, L::n, L::k, L::threads> right;
	left.begin(a, s.aRow, s.aDeep, m0, s.m, k0, k1);
	right.begin(b, s.bColumn, s.bDeep, n0, s.n, k0, k1);
	Sums<L, C> sums;
	sums.clear();
	if (!product(sums, plan, left, right, k0, k1)) return;
	Result<T> result{y, parts ? parts + blockIdx.y * s.total : nullptr, bias, added, f};
	sums.each([&](int row, int column, int, C *v) {
		row += m0, column += n0;
		if (row >= s.m || column >= s.n) return;
		i64 at[4] = {to + row * s.yRow + column * s.yColumn};
#pragma unroll
		for (int i = 1; i < 4; i++) at[i] = at[i - 1] + s.yColumn;
		result.write4(at, row, column, v, s.n - column, s.wide);
	});
}

#define PARAMS (T *y, C *parts, const T *a, const T *b, const T *bias, const T *added, MatMul s, Finish f)
#define CALL(L) matmul<L>(y, parts, a, b, bias, added, s, f)
#ifdef WIDE_TILES
KERNEL_FOR(256, 2, product128, PARAMS) { CALL(Tile128); }
KERNEL_FOR(128, 3, product128x64, PARAMS) { CALL(Tile128x64); }
KERNEL_FOR(128, 4, product64x128, PARAMS) { CALL(Tile64x128); }
KERNEL_FOR(128, 4, product32x128, PARAMS) { CALL(Tile32x128); }
#endif
KERNEL_FOR(128, sizeof(C) > 4 ? 2 : 3, product64, PARAMS) { CALL(Tile64); }
KERNEL_FOR(128, sizeof(C) > 4 ? 3 : 4, product32, PARAMS) { CALL(Tile32); }
