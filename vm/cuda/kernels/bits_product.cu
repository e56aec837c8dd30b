// Products of many rows and packed numbers, y = a·bᵀ: the numbers are widened when a tile of
// them goes to shared memory.
#include "bits.cuh"
#include "product.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef INDEX Index; // of an element of a
typedef ZERO Z;      // of the zero points: u8 for packed ones
typedef Zeros<Z, BITS> Zeroes;

// BitProduct describes m rows of a and n rows of b, of k numbers each. A row of b has blocks
// of 1 << shift numbers.
struct BitProduct {
	int m, n, k, chunk; // chunk: k of a part of the sum
	i64 total;          // elements of y
	int blocks, shift;
	int wide, zero; // wide: four columns of y lie at a multiple of their size
	const T *scales;
	const Z *zeros;
};

template <int bits> struct FourOf;
template <> struct FourOf<2> { typedef u8 type; };
template <> struct FourOf<4> { typedef u16 type; };
template <> struct FourOf<8> { typedef u32 type; };

// Packed is b as a side of a product. A thread fetches fours of numbers, each of which lies
// in one block.
template <int Length, int K, int Threads> struct Packed {
	typedef typename FourOf<BITS>::type Four;
	struct Element {
		Four four;
		T scale;
		Z zero;
		int block;
	};
	static constexpr int each = Length * K / Threads / 4, apart = Threads / (K / 4);
	const BitProduct &s;
	const u8 *b;
	i64 wide; // bytes of a row
	int row, at, k, end;
	__device__ __forceinline__ Packed(const u8 *b, const BitProduct &s, int first, int k0, int k1) : s(s), b(b) {
		wide = ((i64)s.blocks << s.shift) * BITS / 8;
		at = threadIdx.x / (K / 4), k = k0 + threadIdx.x % (K / 4) * 4;
		row = first + at, end = k1;
	}
	__device__ __forceinline__ void fetch(Element (&r)[each], int) {
		int block = k >> s.shift;
#pragma unroll
		for (int i = 0; i < each; i++) {
			i64 j = row + i * apart;
			r[i] = Element{};
			if (j >= s.n || k >= end) continue;
			r[i].four = *(const Four *)(b + j * wide + (i64)k * BITS / 8);
			r[i].scale = s.scales[j * s.blocks + block];
			r[i].zero = Zeroes::read(s.zeros, j, s.blocks, block);
			r[i].block = block;
		}
		k += K;
	}
	__device__ __forceinline__ void put(float *to, const Element (&r)[each]) const {
		float *p = to + (u32)k % K * (Length + 4) + at;
#pragma unroll
		for (int i = 0; i < each; i++) {
			Bits<BITS> numbers(r[i].four);
			float zero = Zeroes::of(r[i].zero, r[i].block), scale = load(&r[i].scale);
#pragma unroll
			for (int j = 0; j < 4; j++) p[j * (Length + 4) + i * apart] = Zeroes::less(numbers.at(j), zero) * scale;
		}
	}
};

template <class L> static __device__ __forceinline__ void multiply(T *y, C *parts, const T *a, const u8 *b, const T *bias, const BitProduct &s, const Finish &f) {
	u32 high = (s.m + L::m - 1) / L::m;
	int m0 = blockIdx.x % high * L::m, n0 = blockIdx.x / high * L::n;
	int k0 = blockIdx.y * s.chunk, k1 = min(s.k, k0 + s.chunk);
	Unplanned plan;
	Matrix<T, Index, L::m, L::k, L::threads> left;
	left.begin(a, s.k, 1, m0, s.m, k0, k1);
	Packed<L::n, L::k, L::threads> right(b, s, n0, k0, k1);
	Sums<L, C> sums;
	sums.clear();
	if (!product(sums, plan, left, right, k0, k1)) return;
	Result<T> result{y, parts ? parts + blockIdx.y * s.total : nullptr, bias, nullptr, f};
	sums.each([&](int row, int column, int, C *v) {
		row += m0, column += n0;
		if (row >= s.m || column >= s.n) return;
		i64 at[4] = {(i64)row * s.n + column};
#pragma unroll
		for (int i = 1; i < 4; i++) at[i] = at[0] + i;
		result.write4(at, row, column, v, s.n - column, s.wide);
	});
}

#define PARAMS (T *y, C *parts, const T *a, const u8 *b, const T *bias, const T *, BitProduct s, Finish f)
#define CALL(L) multiply<L>(y, parts, a, b, bias, s, f)
KERNEL_FOR(256, 2, bits128, PARAMS) { CALL(Tile128); }
KERNEL_FOR(128, 3, bits128x64, PARAMS) { CALL(Tile128x64); }
KERNEL_FOR(128, 3, bits64x128, PARAMS) { CALL(Tile64x128); }
KERNEL_FOR(128, 4, bits32x128, PARAMS) { CALL(Tile32x128); }
KERNEL_FOR(128, 3, bits64, PARAMS) { CALL(Tile64); }
KERNEL_FOR(128, 4, bits32, PARAMS) { CALL(Tile32); }
