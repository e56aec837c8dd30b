// Products of matrices of 8-bit integers.
#include "qproduct.cuh"

typedef LEFT A;
typedef RIGHT B;
typedef RESULT Y;

// QMatMul is a batch of products as MatMul of matmul.cu. countA and countB are the numbers
// of zero points, which belong to rows of a and columns of b.
struct QMatMul {
	int m, n, k, axes, countA, countB;
	i64 aRow, aDeep, bColumn, bDeep, yRow;
	int length[6];
	i64 aStep[6], bStep[6], yStep[6];
};

template <class L> static __device__ __forceinline__ void qmatmul(Y *y, const A *a, const B *b, const A *zeroA, const B *zeroB, const QMatMul &s, const float *scales, const Scaling<Y> &f) {
	u32 high = (s.m + L::m - 1) / L::m, wide = (s.n + L::n - 1) / L::n, block = blockIdx.x;
	int m0 = block % high * L::m;
	block /= high;
	int n0 = block % wide * L::n;
	block /= wide;
	i64 atA = 0, atB = 0, to = 0;
	for (int i = s.axes - 1; i >= 0; i--) {
		u32 rest = block / s.length[i], c = block - rest * s.length[i];
		atA += c * s.aStep[i], atB += c * s.bStep[i], to += c * s.yStep[i];
		block = rest;
	}
	// The rows and columns of all batches are numbered together.
	u32 rowA = s.k ? atA / s.k : 0, columnB = s.k ? atB / s.k : 0;
	Unplanned plan;
	typedef Matrix<A, i64, L::m, L::k, L::threads, Shifted<A, L::m * L::k / L::threads>> Left;
	typedef Matrix<B, i64, L::n, L::k, L::threads, Shifted<B, L::n * L::k / L::threads>> Right;
	Left left;
	Right right;
	left.begin(a + atA, s.aRow, s.aDeep, m0, s.m, 0, s.k);
	right.begin(b + atB, s.bColumn, s.bDeep, n0, s.n, 0, s.k);
#pragma unroll
	for (int i = 0; i < Left::each; i++) left.read.zero[i] = zeroA ? (int)zeroA[(rowA + m0 + left.place(i)) % s.countA] : 0;
#pragma unroll
	for (int i = 0; i < Right::each; i++) right.read.zero[i] = zeroB ? (int)zeroB[(columnB + n0 + right.place(i)) % s.countB] : 0;
	Sums<L, int> sums;
	sums.clear();
	if (!product(sums, plan, left, right, 0, s.k)) return;
	sums.each([&](int row, int column, int, const int *v) {
		row += m0, column += n0;
		if (row >= s.m) return;
		Y *p = y + to + row * s.yRow + column;
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (column + i < s.n) write_sum(p + i, v[i], scales, f, row, column + i, rowA + row, columnB + column + i);
	});
}

#define PARAMS (Y *y, const A *a, const B *b, const A *zeroA, const B *zeroB, QMatMul s, const float *scales, Scaling<Y> f)
KERNEL_FOR(128, 3, product64, PARAMS) { qmatmul<Tile64>(y, a, b, zeroA, zeroB, s, scales, f); }
KERNEL_FOR(128, 3, product32, PARAMS) { qmatmul<Tile32>(y, a, b, zeroA, zeroB, s, scales, f); }
