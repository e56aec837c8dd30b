// A convolution as a product without a matrix in memory: the rows are channels of the
// result, the columns are its positions in all images, and the depth is input channels
// and taps. What belongs to a position and to a tap adds up, in coordinates as in
// offsets.
#pragma once
#include "product.cuh"

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
struct Tap {
	Index x, w;
	u32 at[3], zero;
};

// Taps is the plan of a convolution: the taps of a tile.
template <class L> struct Taps {
	Tap (&list)[2][L::k];
	const Slide &s;
	int end;
	__device__ __forceinline__ void write(int k, int slot) {
		if (threadIdx.x >= L::k) return;
		Tap t;
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

// Image is the side of the positions. Along k, neighbouring threads have neighbouring
// taps; else they have neighbouring positions.
template <class T, class L, bool AlongK, class R = Plain<T>> struct Image {
	typedef T Element;
	typedef typename R::C C;
	static constexpr int each = L::n * L::k / L::threads, count = AlongK ? each : 1;
	Places<L::n, L::k, L::threads> places;
	R read;
	const T *x;
	const Tap (*list)[L::k];
	int in[3];
	Index off[count];
	u32 at[count][3];
	__device__ __forceinline__ void begin(const T *from, const Slide &s, const Tap (*taps)[L::k], int first) {
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
	__device__ __forceinline__ void fetch(T (&r)[each], int slot) {
#pragma unroll
		for (int i = 0; i < each; i++) {
			const Tap &t = list[slot][AlongK ? places.k : places.k + i * places.kStep];
			const int p = AlongK ? i : 0;
			bool inside = at[p][0] + t.at[0] < (u32)in[0] && at[p][1] + t.at[1] < (u32)in[1] && at[p][2] + t.at[2] < (u32)in[2];
			r[i] = inside ? x[off[p] + t.x] : read.blank(i);
		}
	}
	__device__ __forceinline__ void put(C *to, const T (&r)[each]) const { places.put(to, r, read); }
#ifdef TENSOR
	template <class E> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const { places.hold(to, r); }
#endif
	__device__ __forceinline__ bool along() const { return AlongK; }
};
