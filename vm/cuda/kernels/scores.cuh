// Tiles of 64 x 64 numbers that are computed as products, changed where they lie, in registers,
// and then are the left side of further products: the scores of attention and their gradients.
// With TENSOR both products run on tensor cores; of 16 bits, a number is the left side as two of
// them, and what is left of it is less than float32 sums round.
#pragma once
#include "product.cuh"
#include "rows.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef INDEX Index; // of an element of a matrix

constexpr int tile_size = 64, tile_threads = 128;

// Side is a matrix in memory: its elements lie step apart along its length, deep along what a
// product sums over.
struct Side {
	const T *from;
	i64 step, deep;
	int length;
};

// any reports whether one of a block's threads says so.
static __device__ __forceinline__ bool any(bool mine) {
	__shared__ int votes[tile_threads / 32];
	int vote = __any_sync(0xffffffffu, mine);
	if (threadIdx.x % 32 == 0) votes[threadIdx.x / 32] = vote;
	__syncthreads();
	bool all = votes[0] || votes[1] || votes[2] || votes[3];
	__syncthreads(); // votes is free again
	return all;
}

#ifdef TENSOR
typedef Tensor<1, 8, 4, 1> Scores; // a warp has 16 rows, and all columns
constexpr int slots = 2;           // rows of a thread
// row is that of a slot.
static __device__ __forceinline__ int row(int slot) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * slot; }
// join combines the values of the lanes that share a row.
template <class F> static __device__ __forceinline__ C join(C v, F f) {
	v = f(v, exchange(v, 1));
	return f(v, exchange(v, 2));
}
#else
typedef Tile<1, 2, 4, 1, 16> Scores; // a thread has 4 rows of 8, and 8 lanes share a row
constexpr int slots = 4;
static __device__ __forceinline__ int row(int slot) { return Scores::row() + slot; }
template <class F> static __device__ __forceinline__ C join(C v, F f) {
#pragma unroll
	for (int d = 1; d < 8; d *= 2) {
		C other = exchange(v, d); // all lanes at the same place
		v = threadIdx.x & d ? f(other, v) : f(v, other);
	}
	return v;
}
#endif
static_assert(Scores::m == tile_size && Scores::n == tile_size && Scores::threads == tile_threads, "a tile of scores");

// Grid is a thread's numbers of a tile.
struct Grid {
	Sums<Scores, C> sums;
	// multiply computes the products of rows from top and columns from left on, over depth.
	__device__ __forceinline__ void multiply(const Side &a, int top, const Side &b, int left, int depth) {
		Unplanned plan;
		Matrix<T, Index, Scores::m, Scores::k, Scores::threads> above;
		Matrix<T, Index, Scores::n, Scores::k, Scores::threads> beside;
		above.begin(a.from, a.step, a.deep, top, a.length, 0, depth);
		beside.begin(b.from, b.step, b.deep, left, b.length, 0, depth);
		sums.clear();
		product(sums, plan, above, beside, 0, depth);
	}
	static constexpr int each = tile_size * tile_size / tile_threads;
	// at is number i of a thread, which lies in a slot and a column.
	__device__ __forceinline__ C &at(int i) {
#ifdef TENSOR
		return sums.v[0][i / 4][i % 4];
#else
		return sums.v[i / 8][i % 8];
#endif
	}
	static __device__ __forceinline__ int slot(int i) {
#ifdef TENSOR
		return i % 4 / 2;
#else
		return i / 8;
#endif
	}
	static __device__ __forceinline__ int column(int i) {
#ifdef TENSOR
		return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
#else
		return Scores::column() + i % 8 / 4 * 32 + i % 4;
#endif
	}
};

#ifdef TENSOR
static __device__ __forceinline__ void narrow(f16 &y, float x) { y = narrow_f16(x); }
static __device__ __forceinline__ void narrow(bf16 &y, float x) { y = narrow_bf16(x); }

// Left is 16 rows of a tile, and as many columns as an mma sums over, from its mma k on.
template <class E> struct Left {
	u32 high[4], low[4];
	__device__ __forceinline__ Left(const Grid &tile, int k) {
#pragma unroll
		for (int r = 0; r < 4; r++) {
			const float *c = tile.sums.v[0][2 * k + r / 2] + r % 2 * 2;
			split(high[r], low[r], c[0], c[1]);
		}
	}
	// split makes the 16-bit numbers of two, and of what those leave of them.
	static __device__ __forceinline__ void split(u32 &high, u32 &low, float x, float y) {
		E a, b, c, d;
		narrow(a, x), narrow(b, y);
		narrow(c, x - widen(a)), narrow(d, y - widen(b));
		high = a.bits | (u32)b.bits << 16, low = c.bits | (u32)d.bits << 16;
	}
	__device__ __forceinline__ void add(float (&sums)[4], u32 b0, u32 b1) const {
		mma(sums, low, b0, b1, E());
		mma(sums, high, b0, b1, E());
	}
};
// Of float32, a lane needs one number in each of columns t and t + 4 of 8, and has 2t and 2t + 1.
template <> struct Left<float> {
	u32 a[4];
	__device__ __forceinline__ Left(const Grid &tile, int k) {
		const float *c = tile.sums.v[0][k];
		int lane = threadIdx.x % 32, from = lane / 4 * 4 + lane % 4 / 2;
#pragma unroll
		for (int r = 0; r < 4; r++) {
			float even = __shfl_sync(0xffffffffu, c[r % 2 * 2], from + r / 2 * 2), odd = __shfl_sync(0xffffffffu, c[r % 2 * 2 + 1], from + r / 2 * 2);
			a[r] = bits(lane % 2 ? odd : even);
		}
	}
	__device__ __forceinline__ void add(float (&sums)[4], u32 b0, u32 b1) const { mma(sums, a, b0, b1, float()); }
};
#else
// Aligned is shared memory that four neighbours are moved in at once.
template <int N> struct alignas(16) Aligned { C v[N]; };
#endif

// Totals are a thread's sums of 64 rows and N columns, of products whose left side are tiles.
template <int N> struct Totals {
#ifdef TENSOR
	static constexpr int K = Scores::k;
	float v[N / 8][4];
	static constexpr int each = 4 * (N / 8);
	__device__ __forceinline__ C &at(int i) { return v[i / 4][i % 4]; }
	static __device__ __forceinline__ int slot(int i) { return i % 4 / 2; }
	static __device__ __forceinline__ int column(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
#else
	static constexpr int K = N > 64 ? 8 : 16;
	typedef Tile<1, N / 32, 4, 1, K> Values;
	Sums<Values, C> sums;
	static constexpr int each = 4 * (N / 8);
	__device__ __forceinline__ C &at(int i) { return sums.v[i / (N / 8)][i % (N / 8)]; }
	static __device__ __forceinline__ int slot(int i) { return i / (N / 8); }
	static __device__ __forceinline__ int column(int i) { return Values::column() + i % (N / 8) / 4 * 32 + i % 4; }
#endif
	__device__ __forceinline__ void clear() {
#pragma unroll
		for (int i = 0; i < each; i++) at(i) = 0;
	}
	// times multiplies the rows of the slots.
	__device__ __forceinline__ void times(const C (&factor)[slots]) {
#pragma unroll
		for (int i = 0; i < each; i++) at(i) *= factor[slot(i)];
	}
	// add adds the product of a tile, whose columns are [k0, k1), and of columns from left on.
	__device__ __forceinline__ void add(const Grid &tile, const Side &b, int left, int k0, int k1) {
		Matrix<T, Index, N, K, tile_threads> right;
		T next[N * K / tile_threads];
		right.begin(b.from, b.step, b.deep, left, b.length, k0, k1);
		right.fetch(next, 0);
#ifdef TENSOR
		typedef Fragments<Bits<T>, N, K> Values;
		__shared__ typename Values::Side stage[2];
		right.hold(stage[0].v, next);
		__syncthreads();
		constexpr int stages = tile_size / K;
#pragma unroll
		for (int t = 0; t < stages; t++) {
			if (t + 1 < stages) right.fetch(next, 0);
			Values values(stage[t & 1], 0, right.along());
#pragma unroll
			for (int step = 0; step < Scores::steps; step++) {
				Left<T> a(tile, t * Scores::steps + step);
#pragma unroll
				for (int j = 0; j < N / 16; j++) {
					u32 r[4];
					values.load(r, j, step);
					a.add(v[2 * j], r[0], r[2]);
					a.add(v[2 * j + 1], r[1], r[3]);
				}
			}
			if (t + 1 < stages) right.hold(stage[(t + 1) & 1].v, next);
			__syncthreads();
		}
#else
		__shared__ Aligned<tile_size * (tile_size + 4)> tiles; // by column
		__shared__ Aligned<K * (N + 4)> stage[2];
#pragma unroll
		for (int j = 0; j < 8; j++) {
			Quad<C> p;
#pragma unroll
			for (int i = 0; i < 4; i++) p.v[i] = tile.sums.v[i][j];
			*(Quad<C> *)(tiles.v + Grid::column(j) * (tile_size + 4) + row(0)) = p;
		}
		right.put(stage[0].v, next);
		__syncthreads();
		int stages = (k1 - k0 + K - 1) / K;
		for (int t = 0; t < stages; t++) {
			if (t + 1 < stages) right.fetch(next, 0);
			sums.add(tiles.v + t * K * (tile_size + 4), stage[t & 1].v);
			if (t + 1 < stages) right.put(stage[(t + 1) & 1].v, next);
			__syncthreads();
		}
#endif
	}
	// write stores the numbers, times a factor for each slot, at steps apart by row and by column.
	__device__ __forceinline__ void write(T *to, int top, int rows, i64 down, int left, int columns, i64 across, const C (&factor)[slots]) {
#pragma unroll
		for (int i = 0; i < each; i++) {
			int r = top + row(slot(i)), c = left + column(i);
			if (r < rows && c < columns) store(to + (r * down + c * across), at(i) * factor[slot(i)]);
		}
	}
};
