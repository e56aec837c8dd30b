// Convolutions as products without a matrix in memory: the rows are channels of the
// result, the columns are its positions in all images, and the depth is input channels
// and taps. What belongs to a position and to a tap adds up, in coordinates as in
// offsets. One of these definitions says how the operands are read:
//   FLAT     each position reads the element at its place
//   DEEP     neighbouring taps are neighbours in the image, neighbouring positions need not be
//   SPREAD   a transposed convolution; the weights are not dense along the depth
//   none of them: neighbouring positions are neighbours in the image
#include "product.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef INDEX Index;

// Slide is a convolution of images with the same weights. Offsets are in elements, and
// each of these lists is along the three axes of space.
struct Slide {
	int m, n, k, chunk; // channels of a group; positions in all images; chunk: k of a part of the sum
	int groups, wide;   // wide: four positions lie at a multiple of their size
	Divider positions, out12, out2, taps, taps12, taps2; // out12: positions along the last two axes
	int in[3], start[3], stride[3], dilation[3];
	int wTap[3], yStep[3];
	i64 total; // elements of y
	i64 xImage, xGroup, xChannel, wStart, wGroup, wRow, wChannel, yStart, yImage, yGroup, yRow;
};

// far is a coordinate outside of any image, also when another one is added.
enum : u32 { far = 1u << 30 };

// Tap is what an element of the depth adds to a position.
template <class I> struct Tap {
	I x, w;
	u32 at[3], zero;
};

// Taps is the plan of a convolution: the taps of a tile.
template <class L> struct Taps {
	Tap<Index> (&list)[2][L::k];
	const Slide &s;
	int end;
	__device__ __forceinline__ void write(int k, int slot) {
		if (threadIdx.x >= L::k) return;
		Tap<Index> t;
		k += threadIdx.x;
		if (k < end) {
			u32 c = s.taps.quotient(k), r = k - c * s.taps.by;
			u32 j0 = s.taps12.quotient(r);
			r -= j0 * s.taps12.by;
			u32 j1 = s.taps2.quotient(r), j2 = r - j1 * s.taps2.by;
			int d0 = (int)j0 * s.dilation[0], d1 = (int)j1 * s.dilation[1], d2 = (int)j2 * s.dilation[2];
			t.x = (Index)c * (Index)s.xChannel + ((Index)d0 * s.in[1] + d1) * s.in[2] + d2;
			t.w = (Index)c * (Index)s.wChannel + (Index)j0 * s.wTap[0] + (Index)j1 * s.wTap[1] + (Index)j2 * s.wTap[2];
			t.at[0] = d0, t.at[1] = d1, t.at[2] = d2;
		} else {
			t.x = t.w = 0;
			t.at[0] = far, t.at[1] = t.at[2] = 0;
		}
		t.zero = 0;
		list[slot][threadIdx.x] = t;
	}
};

// Column is a position in an image.
struct Column {
	int image, at[3];
	__device__ __forceinline__ Column(const Slide &s, int n) {
		image = s.positions.quotient(n);
		u32 r = n - image * s.positions.by;
		at[0] = s.out12.quotient(r);
		r -= at[0] * s.out12.by;
		at[1] = s.out2.quotient(r), at[2] = r - at[1] * s.out2.by;
	}
};

// Image is the side of the positions.
template <class L, bool AlongK> struct Image {
	static constexpr int each = L::n * L::k / L::threads, count = AlongK ? each : 1;
	Places<L::n, L::k, L::threads> places;
	const T *x;
	const Tap<Index> (*list)[L::k];
	int in[3];
	Index off[count];
	u32 at[count][3];
	__device__ __forceinline__ void begin(const T *from, const Slide &s, const Tap<Index> (*taps)[L::k], int first) {
		x = from;
		list = taps;
		places.choose(AlongK);
#pragma unroll
		for (int a = 0; a < 3; a++) in[a] = s.in[a];
#pragma unroll
		for (int i = 0; i < count; i++) {
			int n = first + places.at + i * places.atStep;
			if (n < s.n) {
				Column c(s, n);
#pragma unroll
				for (int a = 0; a < 3; a++) at[i][a] = s.start[a] + c.at[a] * s.stride[a];
				off[i] = (Index)c.image * (Index)s.xImage + ((Index)(int)at[i][0] * in[1] + (int)at[i][1]) * in[2] + (int)at[i][2];
			} else {
				at[i][0] = far, at[i][1] = at[i][2] = 0;
				off[i] = 0;
			}
		}
	}
	__device__ __forceinline__ void fetch(C (&r)[each], int slot) {
#pragma unroll
		for (int i = 0; i < each; i++) {
			const Tap<Index> &t = list[slot][AlongK ? places.k : places.k + i * places.kStep];
			const int p = AlongK ? i : 0;
			bool inside = at[p][0] + t.at[0] < (u32)in[0] && at[p][1] + t.at[1] < (u32)in[1] && at[p][2] + t.at[2] < (u32)in[2];
			r[i] = inside ? (C)load(x + (off[p] + t.x)) : (C)0;
		}
	}
	__device__ __forceinline__ void put(C *to, const C (&r)[each]) const { places.put(to, r); }
};

// Weights is the side of the channels, if it is not dense along the depth.
template <class L> struct Weights {
	static constexpr int each = L::m * L::k / L::threads;
	Places<L::m, L::k, L::threads> places;
	const T *w;
	const Tap<Index> (*list)[L::k];
	Index step;
	int first, length;
	__device__ __forceinline__ void begin(const T *from, const Slide &s, const Tap<Index> (*taps)[L::k], int m0) {
		places.choose(true);
		list = taps;
		first = m0 + places.at, length = s.m;
		w = from + first * s.wRow;
		step = places.atStep * s.wRow;
	}
	__device__ __forceinline__ void fetch(C (&r)[each], int slot) {
		const Tap<Index> &t = list[slot][places.k];
		const T *p = w + t.w;
#pragma unroll
		for (int i = 0; i < each; i++) r[i] = t.at[0] != far && first + i * places.atStep < length ? (C)load(p + i * step) : (C)0;
	}
	__device__ __forceinline__ void put(C *to, const C (&r)[each]) const { places.put(to, r); }
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
#ifdef FLAT
	Unplanned plan;
	Matrix<T, L::m, L::k, L::threads> left;
	Matrix<T, L::n, L::k, L::threads> right;
	left.begin(w, s.wRow, s.wChannel, m0, s.m, k0, k1);
	right.places.choose(false);
	int n = min(n0 + right.places.at, s.n - 1), image = s.positions.quotient(n);
	right.column(x + image * s.xImage + (n - image * (int)s.positions.by), s.xChannel, n0, s.n, k0, k1);
#else
	__shared__ Tap<Index> taps[2][L::k];
	Taps<L> plan{taps, s, k1};
#ifdef DEEP
	Image<L, true> right;
#else
	Image<L, false> right;
#endif
	right.begin(x, s, taps, n0);
#ifdef SPREAD
	Weights<L> left;
	left.begin(w, s, taps, m0);
#else
	Matrix<T, L::m, L::k, L::threads> left;
	left.begin(w, s.wRow, 1, m0, s.m, k0, k1);
#endif
#endif
	product(sums, plan, left, right, k0, k1);
	Index to[L::qn][4];
#pragma unroll
	for (int j = 0; j < L::qn; j++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			Column c(s, n0 + L::column() + 32 * j + i);
			to[j][i] = (Index)c.image * (Index)s.yImage + (Index)c.at[0] * s.yStep[0] + (Index)c.at[1] * s.yStep[1] + (Index)c.at[2] * s.yStep[2];
		}
	Index start = group * s.yGroup + s.yStart;
	Result<T> result{y, parts ? parts + blockIdx.y * s.total : nullptr, bias, added, f};
	sums.each([&](int row, int column, int j, const C *v) {
		row += m0, column += n0;
		if (row >= s.m) return;
		Index at = start + row * (Index)s.yRow;
		int channel = group * s.m + row;
		if (s.wide && column + 4 <= s.n) {
			result.write4(at + to[j][0], channel, 0, v);
			return;
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (column + i < s.n) result.write(at + to[j][i], channel, 0, v[i]);
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
KERNEL_FOR(128, 4 - HELD, conv32x128, PARAMS) { CALL(Tile32x128); }
#endif
KERNEL_FOR(128, 4, conv64, PARAMS) { CALL(Tile64); }
KERNEL_FOR(64, 8, conv32, PARAMS) { CALL(Tile32); }
