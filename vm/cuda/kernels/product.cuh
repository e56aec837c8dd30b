// Products of matrices, C = A·B, tile by tile in shared memory. What A and B are is
// known to loaders, which fetch a tile of k columns of A or rows of B; so a convolution
// is a product without a matrix in memory. Each element is summed in rising k.
#pragma once
#include "index.cuh"

// KERNEL_FOR is KERNEL for blocks of at most that many threads, of which an SM holds at
// least that many blocks.
#ifdef CUDA_ON_CPU
#define KERNEL_FOR(threads, blocks, name, params) KERNEL(name, params)
#else
#define KERNEL_FOR(threads, blocks, name, params) extern "C" __global__ void __launch_bounds__(threads, blocks) name params
#endif

static __device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }
static __device__ __forceinline__ int multiply_add(int a, int b, int c) { return (int)((u32)a * (u32)b + (u32)c); }
static __device__ __forceinline__ u32 multiply_add(u32 a, u32 b, u32 c) { return a * b + c; }
static __device__ __forceinline__ i64 multiply_add(i64 a, i64 b, i64 c) { return (i64)((u64)a * (u64)b + (u64)c); }
static __device__ __forceinline__ u64 multiply_add(u64 a, u64 b, u64 c) { return a * b + c; }

// Quad is four neighbours, which are moved together.
template <class T> struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Quad { T v[4]; };

// Tile is the part of C that a block computes: m x n elements, k at a time. Warps stand
// in WM rows and WN columns, their lanes in 4 rows and 8 columns, and a thread has QM x QN
// squares of 4 x 4 elements, 16 rows and 32 columns apart.
template <int QM, int QN, int WM, int WN, int K> struct Tile {
	static constexpr int qm = QM, qn = QN, wn = WN;
	static constexpr int m = 16 * QM * WM, n = 32 * QN * WN, k = K, threads = 32 * WM * WN;
	static __device__ __forceinline__ int row() { return threadIdx.x / 32 / WN * (16 * QM) + threadIdx.x % 32 / 8 * 4; }
	static __device__ __forceinline__ int column() { return threadIdx.x / 32 % WN * (32 * QN) + threadIdx.x % 8 * 4; }
};
typedef Tile<2, 2, 4, 2, 8> Tile128;
typedef Tile<2, 1, 2, 2, 16> Tile64;
typedef Tile<2, 1, 1, 4, 16> Tile32x128;
typedef Tile<1, 1, 2, 1, 16> Tile32;

// Stage is a tile of A and one of B in shared memory, by k. The rows are longer by 4
// elements, so that neither those who write along k nor those who write across it meet
// in a bank.
template <class L, class C> struct alignas(16) Stage {
	C a[L::k * (L::m + 4)], b[L::k * (L::n + 4)];
};

// Sums are a thread's elements of C.
template <class L, class C> struct Sums {
	C v[4 * L::qm][4 * L::qn];
	__device__ __forceinline__ void clear() {
#pragma unroll
		for (int i = 0; i < 4 * L::qm; i++)
#pragma unroll
			for (int j = 0; j < 4 * L::qn; j++) v[i][j] = 0;
	}
	// add adds the products of a stage. Unrolled any further, the sums of the large tile
	// no longer fit into 128 registers.
	__device__ __forceinline__ void add(const Stage<L, C> &s) { add(s.a, s.b); }
	// The rows of a and b are as long as those of a stage.
	__device__ __forceinline__ void add(const C *a, const C *b) {
		const C *pa = a + L::row(), *pb = b + L::column();
#pragma unroll 2
		for (int k = 0; k < L::k; k++) {
			Quad<C> x[L::qm], y[L::qn];
#pragma unroll
			for (int i = 0; i < L::qm; i++) x[i] = *(const Quad<C> *)(pa + k * (L::m + 4) + 16 * i);
#pragma unroll
			for (int j = 0; j < L::qn; j++) y[j] = *(const Quad<C> *)(pb + k * (L::n + 4) + 32 * j);
#pragma unroll
			for (int i = 0; i < 4 * L::qm; i++)
#pragma unroll
				for (int j = 0; j < 4 * L::qn; j++) v[i][j] = multiply_add(x[i / 4].v[i % 4], y[j / 4].v[j % 4], v[i][j]);
		}
	}
	// each calls f with the row and the column, within the tile, of each four neighbours.
	template <class F> __device__ __forceinline__ void each(F f) {
#pragma unroll
		for (int j = 0; j < L::qn; j++)
#pragma unroll
			for (int i = 0; i < 4 * L::qm; i++) f(L::row() + i / 4 * 16 + i % 4, L::column() + 32 * j, j, &v[i][4 * j]);
	}
};

// Places are the elements of a tile of a side that a thread fetches: each, one after
// another along the length of the side (rows of A, columns of B) or along k.
template <int Length, int K, int Threads> struct Places {
	static constexpr int each = Length * K / Threads;
	int at, k, atStep, kStep;
	__device__ __forceinline__ void choose(bool alongK) {
		if (alongK) {
			at = threadIdx.x / K, k = threadIdx.x % K, atStep = Threads / K, kStep = 0;
		} else {
			at = threadIdx.x % Length, k = threadIdx.x / Length, atStep = 0, kStep = Threads / Length;
		}
	}
	template <class C> __device__ __forceinline__ void put(C *to, const C (&r)[each]) const {
		C *p = to + k * (Length + 4) + at;
		int step = kStep * (Length + 4) + atStep;
#pragma unroll
		for (int i = 0; i < each; i++) p[i * step] = r[i];
	}
};

// Plain reads elements as they are. A reader is told which place of the thread it reads
// for.
template <class T> struct Plain {
	typedef Compute<T> C;
	__device__ __forceinline__ C operator()(const T *p, int) const { return load(p); }
};

// Matrix is a side in memory: elements lie step apart along its length and deep apart
// along k. Steps fit I.
template <class T, class I, int Length, int K, int Threads, class R = Plain<T>> struct Matrix {
	typedef typename R::C C;
	static constexpr int each = Length * K / Threads;
	Places<Length, K, Threads> places;
	R read;
	const T *p;
	I step, next;
	int k, end;
	u32 valid;
	__device__ __forceinline__ void begin(const T *from, i64 step, i64 deep, int first, int length, int k0, int k1) {
		places.choose(step != 1);
		start(from + (first + places.at) * step, step, deep, first, length, k0, k1);
	}
	// column begins a side of which each thread reads one column, which is at from.
	__device__ __forceinline__ void column(const T *from, i64 deep, int first, int length, int k0, int k1) { start(from, 0, deep, first, length, k0, k1); }
	__device__ __forceinline__ void start(const T *from, i64 step, i64 deep, int first, int length, int k0, int k1) {
		k = k0 + places.k, end = k1;
		p = from + k * deep;
		this->step = (I)(places.atStep * step + places.kStep * deep);
		next = (I)(K * deep);
		valid = 0;
#pragma unroll
		for (int i = 0; i < each; i++) valid |= (first + places.at + i * places.atStep < length ? 1u : 0u) << i;
	}
	__device__ __forceinline__ void fetch(C (&r)[each], int) {
		const T *q = p;
#pragma unroll
		for (int i = 0; i < each; i++) {
			r[i] = (valid >> i & 1) && k + i * places.kStep < end ? read(q, i) : (C)0;
			q += step;
		}
		p += next;
		k += K;
	}
	__device__ __forceinline__ void put(C *to, const C (&r)[each]) const { places.put(to, r); }
};

// Unplanned is the plan of loaders that need none. A plan prepares the fetches of the
// tile that begins at k, in one of two slots.
struct Unplanned {
	__device__ __forceinline__ void write(int k, int slot) {}
};

// product adds the products of the columns [k0, k1) of A and rows of B to sums.
template <class L, class C, class P, class A, class B>
static __device__ __forceinline__ void product(Sums<L, C> &sums, P &plan, A &a, B &b, int k0, int k1) {
	__shared__ Stage<L, C> stage[2];
	C nextA[A::each], nextB[B::each];
	int tiles = (k1 - k0 + L::k - 1) / L::k;
	if (tiles <= 0) return;
	plan.write(k0, 0);
	plan.write(k0 + L::k, 1);
	__syncthreads();
	a.fetch(nextA, 0);
	b.fetch(nextB, 0);
	a.put(stage[0].a, nextA);
	b.put(stage[0].b, nextB);
	__syncthreads();
	for (int t = 0; t < tiles; t++) {
		int other = (t + 1) & 1;
		bool more = t + 1 < tiles;
		if (more) {
			a.fetch(nextA, other);
			b.fetch(nextB, other);
		}
		plan.write(k0 + (t + 2) * L::k, t & 1); // which was last read before the barrier
		sums.add(stage[t & 1]);
		if (more) {
			a.put(stage[other].a, nextA);
			b.put(stage[other].b, nextB);
		}
		__syncthreads();
	}
}

// Scale is the type that a sum is scaled in.
template <class C> struct ScaleOf { typedef double type; };
template <> struct ScaleOf<float> { typedef float type; };

// Finish is what becomes of a sum: alpha·sum + beta·bias + added, and then its clamp.
struct Finish {
	float alpha, beta, low, high;
	int clamps, zero;
	i64 biasRow, biasColumn; // steps of the bias
};

// Result is where sums are written: y, or, if a sum is in several parts, the scratch for
// the block's part.
template <class T> struct Result {
	typedef Compute<T> C;
	T *y;
	C *part; // nil: to y
	const T *bias, *added; // nil: none
	const Finish &f;
	__device__ __forceinline__ C finish(i64 at, i64 row, i64 column, C v) const {
		if (f.alpha != 1) v = (C)((typename ScaleOf<C>::type)f.alpha * v);
		if (bias) {
			C c = load(bias + row * f.biasRow + column * f.biasColumn);
			v += f.beta != 1 ? (C)f.beta * c : c;
		}
		if (added) v += (C)load(added + at);
		if (f.clamps) v = v < (C)f.low ? (C)f.low : v > (C)f.high ? (C)f.high : v;
		return v;
	}
	__device__ __forceinline__ void write(i64 at, i64 row, i64 column, C v) const {
		if (part) {
			part[at] = v;
		} else {
			store(y + at, finish(at, row, column, v));
		}
	}
	// write4 writes four neighbours, whose address is a multiple of their size.
	__device__ __forceinline__ void write4(i64 at, i64 row, i64 column, const C *v) const {
		if (part) {
			Quad<C> q;
#pragma unroll
			for (int i = 0; i < 4; i++) q.v[i] = v[i];
			*(Quad<C> *)(part + at) = q;
		} else {
			Quad<T> q;
#pragma unroll
			for (int i = 0; i < 4; i++) store(&q.v[i], finish(at + i, row, column + i, v[i]));
			*(Quad<T> *)(y + at) = q;
		}
	}
};

// add_parts finishes an element whose sum is in several parts, total elements apart.
template <class T> static __device__ __forceinline__ void add_parts(const Result<T> &y, const Compute<T> *parts, u32 total, int count, u32 rows, u32 columns) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
		Compute<T> v = 0;
		for (int s = 0; s < count; s++) v += parts[(i64)s * total + i];
		u32 line = i / columns;
		y.write(i, line % rows, i - line * columns, v);
	}
}
