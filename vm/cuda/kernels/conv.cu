// Convolutions of reals. One of these definitions says how the operands are read:
//   DEEP     neighbouring taps are neighbours in the image, neighbouring positions need not be
//   SPREAD   a transposed convolution; the weights are not dense along the depth
//   SPREAD and DEEP, or SPREAD: also a gradient of weights, read from images as they lie
//   none of them: neighbouring positions are neighbours in the image
#include "conv.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Weights is the side of the channels, if it is not dense along the depth.
template <class L> struct Weights {
	typedef T Element;
	static constexpr int each = L::m * L::k / L::threads;
	Places<L::m, L::k, L::threads> places;
	const T *w;
	const Tap (*list)[L::k];
	Index step;
	int first, length;
	__device__ __forceinline__ void begin(const T *from, const Slide &s, const Tap (*taps)[L::k], int m0) {
		places.choose(true);
		list = taps;
		first = m0 + places.at, length = s.m;
		w = from + first * s.wRow;
		step = places.atStep * s.wRow;
	}
	__device__ __forceinline__ void fetch(T (&r)[each], int slot) {
		const Tap &t = list[slot][places.k];
		const T *p = w + t.w;
#pragma unroll
		for (int i = 0; i < each; i++) r[i] = t.at[0] != far && first + i * places.atStep < length ? p[i * step] : T{};
	}
	__device__ __forceinline__ void put(C *to, const T (&r)[each]) const { places.put(to, r, Plain<T>()); }
#ifdef TENSOR
	template <class E> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const { places.hold(to, r); }
#endif
	__device__ __forceinline__ bool along() const { return true; }
};

template <class L> static __device__ __forceinline__ void conv(T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, const Slide &s, u32 block, const Finish &f) {
	u32 high = (s.m + L::m - 1) / L::m, wide = (s.n + L::n - 1) / L::n;
	int m0 = block % high * L::m;
	block /= high;
	int group = block % s.groups, n0 = block / s.groups * L::n;
	if (n0 >= s.n) return;
	int k0 = blockIdx.y * s.chunk, k1 = min(s.k, k0 + s.chunk);
	x += group * s.xGroup;
	w += group * s.wGroup + s.wStart;
	Sums<L, C> sums;
	sums.clear();
	__shared__ Tap taps[2][L::k];
	Taps<L> plan{taps, s, k1};
#ifdef DEEP
	Image<T, L, true> right;
#else
	Image<T, L, false> right;
#endif
	right.begin(x, s, taps, n0);
#ifdef SPREAD
	Weights<L> left;
	left.begin(w, s, taps, m0);
#else
	Matrix<T, Index, L::m, L::k, L::threads> left;
	left.begin(w, s.wRow, 1, m0, s.m, k0, k1);
#endif
	if (!product(sums, plan, left, right, k0, k1)) return;
	Index to[L::qn][4];
#pragma unroll
	for (int j = 0; j < L::qn; j++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			Column c(s, n0 + L::column() + L::across * j + i);
			to[j][i] = (Index)c.image * (Index)s.yImage + (Index)c.at[0] * s.yStep[0] + (Index)c.at[1] * s.yStep[1] + (Index)c.at[2] * s.yStep[2];
		}
	Index start = group * s.yGroup + s.yStart;
	Result<T> result{y, parts ? parts + blockIdx.y * s.total : nullptr, bias, added, f};
	sums.each([&](int row, int column, int j, C *v) {
		row += m0, column += n0;
		if (row >= s.m || column >= s.n) return;
		Index at[4];
#pragma unroll
		for (int i = 0; i < 4; i++) at[i] = start + row * (Index)s.yRow + to[j][i];
		result.write4(at, group * s.m + row, 0, v, s.n - column, s.wide);
	});
}

#ifdef SPREAD
// A transposed convolution is one convolution for each remainder of the positions by
// the strides: block b belongs to number b % count of them.
struct Slides {
	Slide list[8];
	int count, zero;
};
#define PARAMS (T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, Slides s, Finish f)
#define CALL(L) conv<L>(y, parts, x, w, bias, added, s.list[blockIdx.x % s.count], blockIdx.x / s.count, f)
#else
#define PARAMS (T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, Slide s, Finish f)
#define CALL(L) conv<L>(y, parts, x, w, bias, added, s, blockIdx.x, f)
#endif
#ifdef DEEP // which keeps several positions in registers
#define HELD 1
#else
#define HELD 0
#endif
#ifdef WIDE_TILES
KERNEL_FOR(256, 2 - HELD, conv128, PARAMS) { CALL(Tile128); }
KERNEL_FOR(128, 3, conv128x64, PARAMS) { CALL(Tile128x64); }
KERNEL_FOR(128, 4 - HELD, conv64x128, PARAMS) { CALL(Tile64x128); }
KERNEL_FOR(128, 4 - HELD, conv32x128, PARAMS) { CALL(Tile32x128); }
#endif
KERNEL_FOR(128, sizeof(C) > 4 ? 2 : 3, conv64, PARAMS) { CALL(Tile64); }
KERNEL_FOR(128, sizeof(C) > 4 ? 3 : 4, conv32, PARAMS) { CALL(Tile32); }
