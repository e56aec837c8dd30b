// Convolutions as products whose depth runs through the channels of one tap, then through
// those of the next: where a position lies in the image is found once for a tap. With
// GRADIENT the result is the gradient of the weights: the columns of a block are channels
// of one tap, and the depth runs through the positions of one image after another. Either
// way the depth has an outer axis (taps, images) and an inner one (channels, positions),
// which is padded to a multiple of a tile's. With SPREAD, see below.
#include "product.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef INDEX Index;

// Conv is a convolution. Offsets are in elements, lists are along the three axes of space.
struct Conv {
	int m, n;             // channels of the result in a group; positions in all images (GRADIENT: channels of the image in a group)
	int inner, k, chunk;  // length of the inner axis; depth with padding; depth of a part of the sum
	int parts, pitch;     // parts of the sum; columns of a part in memory
	int groups, wide, taps; // wide: four positions of y lie at a multiple of their size
	Divider padded;       // inner axis with its padding
	Divider positions, out12, out2, taps12, taps2; // out12: positions along the last two axes
	Divider columns;      // of a tap (GRADIENT)
	int in[3], start[3], stride[3], dilation[3];
	int wTap[3], yStep[3];
	i64 partStart, partTotal;
	i64 xImage, xGroup, xChannel, wStart, wGroup, wRow, wDeep, wImage, yStart, yImage, yGroup, yRow;
};

// Place is three coordinates.
struct Place {
	int at[3];
	__device__ __forceinline__ Place(u32 i, const Divider &by12, const Divider &by2) {
		at[0] = by12.quotient(i);
		i -= at[0] * by12.by;
		at[1] = by2.quotient(i), at[2] = i - at[1] * by2.by;
	}
};

// weights is where, in w, element outer of the outer axis begins.
static __device__ __forceinline__ Index weights(const Conv &s, int outer) {
#ifdef GRADIENT
	return outer * (Index)s.wImage;
#else
	Place tap(outer, s.taps12, s.taps2);
	return (Index)tap.at[0] * s.wTap[0] + (Index)tap.at[1] * s.wTap[1] + (Index)tap.at[2] * s.wTap[2];
#endif
}

// Weights is the side of the channels of the result.
template <class L> struct Weights {
	Matrix<T, Index, L::m, L::k, L::threads> side;
	typedef T Element;
	static constexpr int each = L::m * L::k / L::threads;
	const Conv &s;
	int outer, inner;
	__device__ __forceinline__ Weights(const Conv &s, const T *w, int m0, int k0) : s(s) {
		outer = s.padded.quotient(k0), inner = k0 - outer * s.padded.by;
		side.begin(w + weights(s, outer), s.wRow, s.wDeep, m0, s.m, inner, s.inner);
#ifdef GRADIENT
		side.whole = side.whole && s.wImage % 4 == 0;
#else
		side.whole = side.whole && ((s.wTap[0] | s.wTap[1] | s.wTap[2]) & 3) == 0;
#endif
	}
	__device__ __forceinline__ void fetch(T (&r)[each], int slot) {
		if (inner == s.padded.by) {
			side.again(weights(s, outer + 1) - weights(s, outer) - (Index)inner * (Index)s.wDeep, inner);
			inner = 0, outer++;
		}
		side.fetch(r, slot);
		inner += L::k;
	}
	__device__ __forceinline__ void put(C *to, const T (&r)[each]) const { side.put(to, r); }
#ifdef TENSOR
	template <class E> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const { side.hold(to, r); }
#endif
	__device__ __forceinline__ bool along() const { return side.along(); }
};

#ifdef GRADIENT
// Image is the side of the image's channels: a thread has one position of each tile, in
// several channels.
template <class L> struct Image {
	Places<L::n, L::k, L::threads> places;
	typedef T Element;
	static constexpr int each = L::n * L::k / L::threads;
	const Conv &s;
	const T *x;
	Index step;
	int start[3], inner;
	u32 valid;
	__device__ __forceinline__ Image(const Conv &s, const T *from, int tap, int n0, int k0) : s(s) {
		places.choose(true);
		Place t(tap, s.taps12, s.taps2);
#pragma unroll
		for (int a = 0; a < 3; a++) start[a] = s.start[a] + t.at[a] * s.dilation[a];
		int image = s.padded.quotient(k0);
		inner = k0 - image * s.padded.by + places.k;
		x = from + image * s.xImage + (n0 + places.at) * s.xChannel;
		step = places.atStep * (Index)s.xChannel;
		valid = 0;
#pragma unroll
		for (int i = 0; i < each; i++) valid |= (n0 + places.at + i * places.atStep < s.n ? 1u : 0u) << i;
	}
	__device__ __forceinline__ void fetch(T (&r)[each], int) {
		if (inner >= (int)s.padded.by) inner -= s.padded.by, x += s.xImage;
		Place p(inner, s.out12, s.out2);
		int at[3];
#pragma unroll
		for (int a = 0; a < 3; a++) at[a] = start[a] + p.at[a] * s.stride[a];
		bool inside = inner < s.inner && (u32)at[0] < (u32)s.in[0] && (u32)at[1] < (u32)s.in[1] && (u32)at[2] < (u32)s.in[2];
		const T *q = x + (((Index)at[0] * s.in[1] + at[1]) * s.in[2] + at[2]);
		u32 there = inside ? valid : 0;
#pragma unroll
		for (int i = 0; i < each; i++) r[i] = there >> i & 1 ? q[i * step] : T{};
		inner += L::k;
	}
	__device__ __forceinline__ void put(C *to, const T (&r)[each]) const { places.put(to, r, Plain<T>()); }
#ifdef TENSOR
	template <class E> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const { places.hold(to, r); }
#endif
	__device__ __forceinline__ bool along() const { return true; }
};
#else
// Image is the side of the positions: a thread has one position, in several channels of
// each tile.
template <class L> struct Image {
	Places<L::n, L::k, L::threads> places;
	typedef T Element;
	static constexpr int each = L::n * L::k / L::threads;
	const Conv &s;
	const T *x;
	Index start, next, step; // start: of the position, less its tap
	int at[3], tap, inner, end; // end: of the channels of the tap
	__device__ __forceinline__ Image(const Conv &s, const T *from, int n0, int k0) : s(s), x(from) {
		places.choose(false);
		int n = min(n0 + places.at, s.n - 1), image = s.positions.quotient(n);
		Place p(n - image * s.positions.by, s.out12, s.out2);
#pragma unroll
		for (int a = 0; a < 3; a++) at[a] = s.start[a] + p.at[a] * s.stride[a];
		start = (Index)image * (Index)s.xImage + places.k * (Index)s.xChannel + (((Index)at[0] * s.in[1] + at[1]) * s.in[2] + at[2]);
		step = places.kStep * (Index)s.xChannel;
		tap = s.padded.quotient(k0), inner = k0 - tap * s.padded.by;
		aim();
	}
	// aim finds the tap, of which the next channel is number inner.
	__device__ __forceinline__ void aim() {
		Place t(tap, s.taps12, s.taps2);
		int d[3];
#pragma unroll
		for (int a = 0; a < 3; a++) d[a] = t.at[a] * s.dilation[a];
		bool inside = (u32)(at[0] + d[0]) < (u32)s.in[0] && (u32)(at[1] + d[1]) < (u32)s.in[1] && (u32)(at[2] + d[2]) < (u32)s.in[2];
		end = inside ? s.inner - places.k : 0;
		next = start + (((Index)d[0] * s.in[1] + d[1]) * s.in[2] + d[2]) + inner * (Index)s.xChannel;
	}
	__device__ __forceinline__ void fetch(T (&r)[each], int) {
		if (inner == (int)s.padded.by) {
			inner = 0, tap++;
			aim();
		}
#pragma unroll
		for (int i = 0; i < each; i++) r[i] = inner + i * places.kStep < end ? x[next + i * step] : T{};
		next += L::k * (Index)s.xChannel;
		inner += L::k;
	}
	__device__ __forceinline__ void put(C *to, const T (&r)[each]) const { places.put(to, r, Plain<T>()); }
#ifdef TENSOR
	template <class E> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const { places.hold(to, r); }
#endif
	__device__ __forceinline__ bool along() const { return false; }
};
#endif

// column is where, in y, column n of the product lies.
static __device__ __forceinline__ Index column(const Conv &s, int n) {
#ifdef GRADIENT
	int tap = s.columns.quotient(n);
	return tap + (n - tap * (int)s.columns.by) * (Index)s.yStep[2];
#else
	int image = s.positions.quotient(n);
	Place p(n - image * s.positions.by, s.out12, s.out2);
	return (Index)image * (Index)s.yImage + (Index)p.at[0] * s.yStep[0] + (Index)p.at[1] * s.yStep[1] + (Index)p.at[2] * s.yStep[2];
#endif
}

template <class L> static __device__ __forceinline__ void conv(T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, const Conv &s, u32 block, const Finish &f) {
	u32 high = (s.m + L::m - 1) / L::m;
	int m0 = block % high * L::m;
	block /= high;
	int group = block % s.groups, n0 = block / s.groups;
#ifdef GRADIENT
	int across = (s.n + L::n - 1) / L::n, tap = n0 / across;
	n0 = (n0 - tap * across) * L::n;
	int first = tap * s.n; // column of the tap
#else
	n0 *= L::n;
	const int first = 0;
#endif
	if (n0 >= s.n || blockIdx.y >= s.parts) return;
	int k0 = blockIdx.y * s.chunk, k1 = min(s.k, k0 + s.chunk);
	Weights<L> left(s, w + group * s.wGroup + s.wStart, m0, k0);
#ifdef GRADIENT
	Image<L> right(s, x + group * s.xGroup, tap, n0, k0);
#else
	Image<L> right(s, x + group * s.xGroup, n0, k0);
#endif
	Unplanned plan;
	Sums<L, C> sums;
	sums.clear();
	if (!product(sums, plan, left, right, k0, k1)) return;
	bool whole = s.parts == 1;
	Result<T> result{y, whole ? nullptr : parts + s.partStart + blockIdx.y * s.partTotal, bias, added, f};
	bool wide = whole ? s.wide : (first & 3) == 0;
	Index to[L::qn][4], start = whole ? group * (Index)s.yGroup + (Index)s.yStart : (Index)group * s.m * s.pitch;
	Index step = whole ? (Index)s.yRow : (Index)s.pitch;
#pragma unroll
	for (int j = 0; j < L::qn; j++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int n = first + n0 + L::column() + L::across * j + i;
			to[j][i] = start + (whole ? column(s, n) : n);
		}
	sums.each([&](int row, int column, int j, C *v) {
		row += m0, column += n0;
		if (row >= s.m || column >= s.n) return;
		Index at[4];
#pragma unroll
		for (int i = 0; i < 4; i++) at[i] = to[j][i] + row * step;
		result.write4(at, group * s.m + row, 0, v, s.n - column, wide);
	});
}

// finish_parts writes the sums whose parts lie in scratch.
static __device__ __forceinline__ void finish_parts(T *y, const C *parts, const T *bias, const T *added, const Conv &s, const Finish &f) {
	u32 i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
	if (s.parts == 1 || i >= (u32)s.partTotal) return;
	int row = i / s.pitch, n = i - row * s.pitch, group = row / s.m;
	Quad<C> sum = *(const Quad<C> *)(parts + s.partStart + i);
	for (int part = 1; part < s.parts; part++) {
		Quad<C> q = *(const Quad<C> *)(parts + s.partStart + part * s.partTotal + i);
#pragma unroll
		for (int j = 0; j < 4; j++) sum.v[j] += q.v[j];
	}
	Index start = group * (Index)s.yGroup + (Index)s.yStart + (row - group * s.m) * (Index)s.yRow, at[4];
#pragma unroll
	for (int j = 0; j < 4; j++) at[j] = start + column(s, n + j);
	Result<T> result{y, nullptr, bias, added, f};
#ifdef GRADIENT
	int columns = s.n * s.taps;
#else
	int columns = s.n;
#endif
	result.write4(at, row, 0, sum.v, columns - n, s.wide);
}

#ifdef SPREAD
// A transposed convolution is one convolution for each remainder of the positions by the
// strides: block b belongs to number b % count of them.
struct Convs {
	Conv list[8];
	int count, zero;
};
#define PARAMS (T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, Convs s, Finish f)
#define CALL(L) conv<L>(y, parts, x, w, bias, added, s.list[blockIdx.x % s.count], blockIdx.x / s.count, f)
KERNEL(finish, (T *y, const C *parts, const T *bias, const T *added, Convs s, Finish f)) { finish_parts(y, parts, bias, added, s.list[blockIdx.y], f); }
#else
#define PARAMS (T *y, C *parts, const T *x, const T *w, const T *bias, const T *added, Conv s, Finish f)
#define CALL(L) conv<L>(y, parts, x, w, bias, added, s, blockIdx.x, f)
KERNEL(finish, (T *y, const C *parts, const T *bias, const T *added, Conv s, Finish f)) { finish_parts(y, parts, bias, added, s, f); }
#endif
#ifdef WIDE_TILES
KERNEL_FOR(256, 2, conv128, PARAMS) { CALL(Tile128); }
KERNEL_FOR(128, 3, conv128x64, PARAMS) { CALL(Tile128x64); }
KERNEL_FOR(128, 4, conv64x128, PARAMS) { CALL(Tile64x128); }
KERNEL_FOR(128, 4, conv32x128, PARAMS) { CALL(Tile32x128); }
#endif
KERNEL_FOR(128, sizeof(C) > 4 ? 2 : 3, conv64, PARAMS) { CALL(Tile64); }
KERNEL_FOR(128, sizeof(C) > 4 ? 3 : 4, conv32, PARAMS) { CALL(Tile32); }
