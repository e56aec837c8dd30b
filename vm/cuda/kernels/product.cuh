// Products of matrices, C = A·B, tile by tile in shared memory. What A and B are is
// known to loaders, which fetch a tile of k columns of A or rows of B; so a convolution
// is a product without a matrix in memory. Each element is summed in rising k.
#pragma once
#include "index.cuh"
#ifdef TENSOR
#include "tensor.cuh"
#endif

// KERNEL_FOR is KERNEL for blocks of at most that many threads, of which an SM holds at
// least that many blocks.
#ifdef CUDA_ON_CPU
#define KERNEL_FOR(threads, blocks, name, params) KERNEL(name, params)
#elif defined(TENSOR) // whose tiles need more registers
#define KERNEL_FOR(threads, blocks, name, params) extern "C" __global__ void __launch_bounds__(threads, threads > 128 ? 1 : 2) name params
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
// squares of 4 x 4 elements, 16 rows and 32 columns apart. S slices of the block's threads
// have a K-th of each k and the same elements, whose sums are added up at the end: so a
// small tile has enough warps, too.
template <int QM, int QN, int WM, int WN, int K, int S = 1> struct Tile {
	static constexpr int qm = QM, qn = QN, across = 32, depth = K, slices = S, warps = WM * WN;
	static constexpr int m = 16 * QM * WM, n = 32 * QN * WN, k = K * S, threads = 32 * WM * WN * S;
	static __device__ __forceinline__ int slice() { return S == 1 ? 0 : threadIdx.x / (32 * warps); }
	static __device__ __forceinline__ int warp() { return S == 1 ? threadIdx.x / 32 : threadIdx.x / 32 % warps; }
	static __device__ __forceinline__ int row() { return warp() / WN * (16 * QM) + threadIdx.x % 32 / 8 * 4; }
	static __device__ __forceinline__ int column() { return warp() % WN * (32 * QN) + threadIdx.x % 8 * 4; }
};
#ifndef TENSOR
typedef Tile<2, 2, 4, 2, 8> Tile128;
typedef Tile<2, 2, 4, 1, 8> Tile128x64;
typedef Tile<2, 2, 2, 2, 8> Tile64x128;
typedef Tile<1, 2, 2, 2, 16> Tile32x128;
typedef Tile<2, 2, 2, 1, 8, 2> Tile64;
typedef Tile<1, 1, 2, 1, 8, 2> Tile32;
#endif

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
	// add adds the products of a stage.
	__device__ __forceinline__ void add(const Stage<L, C> &s) { add(s.a, s.b); }
	// The rows of a and b are as long as those of a stage. What a step of k needs is loaded
	// during the step before.
	__device__ __forceinline__ void add(const C *a, const C *b) {
		const C *pa = a + L::slice() * (L::depth * (L::m + 4)) + L::row(), *pb = b + L::slice() * (L::depth * (L::n + 4)) + L::column();
		Quad<C> x[2][L::qm], y[2][L::qn];
		load(x[0], y[0], pa, pb);
#pragma unroll
		for (int k = 0; k < L::depth; k++) {
			if (k + 1 < L::depth) load(x[(k + 1) & 1], y[(k + 1) & 1], pa + (k + 1) * (L::m + 4), pb + (k + 1) * (L::n + 4));
#pragma unroll
			for (int i = 0; i < 4 * L::qm; i++)
#pragma unroll
				for (int j = 0; j < 4 * L::qn; j++) v[i][j] = multiply_add(x[k & 1][i / 4].v[i % 4], y[k & 1][j / 4].v[j % 4], v[i][j]);
		}
	}
	static __device__ __forceinline__ void load(Quad<C> (&x)[L::qm], Quad<C> (&y)[L::qn], const C *pa, const C *pb) {
#pragma unroll
		for (int i = 0; i < L::qm; i++) x[i] = *(const Quad<C> *)(pa + 16 * i);
#pragma unroll
		for (int j = 0; j < L::qn; j++) y[j] = *(const Quad<C> *)(pb + 32 * j);
	}
	// join adds the sums of the slices to those of the first one, in their order, through
	// shared memory with room for the sums of one.
	__device__ __forceinline__ void join(C *room) {
		Quad<C> *p = (Quad<C> *)room + threadIdx.x % (32 * L::warps);
#pragma unroll
		for (int s = 1; s < L::slices; s++) {
			if (L::slice() == s) {
#pragma unroll
				for (int i = 0; i < 4 * L::qm; i++)
#pragma unroll
					for (int j = 0; j < L::qn; j++) {
						Quad<C> q;
#pragma unroll
						for (int e = 0; e < 4; e++) q.v[e] = v[i][4 * j + e];
						p[(i * L::qn + j) * 32 * L::warps] = q;
					}
			}
			__syncthreads();
			if (L::slice() == 0) {
#pragma unroll
				for (int i = 0; i < 4 * L::qm; i++)
#pragma unroll
					for (int j = 0; j < L::qn; j++) {
						Quad<C> q = p[(i * L::qn + j) * 32 * L::warps];
#pragma unroll
						for (int e = 0; e < 4; e++) v[i][4 * j + e] += q.v[e];
					}
			}
			if (s + 1 < L::slices) __syncthreads();
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
	bool along;
	__device__ __forceinline__ void choose(bool alongK) {
		along = alongK;
		if (alongK) {
			at = threadIdx.x / K, k = threadIdx.x % K, atStep = Threads / K, kStep = 0;
		} else {
			at = threadIdx.x % Length, k = threadIdx.x / Length, atStep = 0, kStep = Threads / Length;
		}
	}
	template <class C, class T, class R> __device__ __forceinline__ void put(C *to, const T (&r)[each], const R &read) const {
		C *p = to + k * (Length + 4) + at;
		int step = kStep * (Length + 4) + atStep;
#pragma unroll
		for (int i = 0; i < each; i++) p[i * step] = read(r[i], i);
	}
#ifdef TENSOR
	// hold puts elements into a side of tensor.cuh.
	template <class E, class T> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const {
		typedef Held<E, Length, K> Side;
		E *p = to + (along ? at * Side::line + k : k * Side::across + at);
		int step = along ? atStep * Side::line : kStep * Side::across;
#pragma unroll
		for (int i = 0; i < each; i++) p[i * step] = bits(r[i]);
	}
#endif
};

// Plain reads elements as they are. A reader is told which place of the thread an element
// belongs to; blank is what stands for one that is not there. Elements are fetched before the
// sums of a tile and read after them: whoever looks at one waits for it.
template <class T> struct Plain {
	typedef Compute<T> C;
	__device__ __forceinline__ T blank(int) const { return T{}; }
	__device__ __forceinline__ C operator()(T v, int) const { return load(&v); }
};

// Matrix is a side in memory: elements lie step apart along its length and deep apart
// along k. Steps fit I. A thread fetches fours of neighbours, along k unless step is 1:
// each at once where all of them lie at a multiple of their size.
template <class T, class I, int Length, int K, int Threads, class R = Plain<T>> struct Matrix {
	typedef T Element;
	typedef typename R::C C;
	static constexpr int each = Length * K / Threads, fours = each / 4;
	R read;
	const T *from;
	I off, step, next, apart; // of the first element; from four to four, from tile to tile, within a four
	int at, k, end, kStep;
	bool alongK, whole;
	u32 valid;
	__device__ __forceinline__ void begin(const T *from, i64 step, i64 deep, int first, int length, int k0, int k1) {
		alongK = step != 1;
		int atStep;
		if (alongK) {
			at = threadIdx.x / (K / 4), k = threadIdx.x % (K / 4) * 4, atStep = Threads / (K / 4), kStep = 0;
		} else {
			at = threadIdx.x % (Length / 4) * 4, k = threadIdx.x / (Length / 4), atStep = 0, kStep = Threads / (Length / 4);
		}
		whole = (u64)from % alignof(Quad<T>) == 0 && (alongK ? deep == 1 && ((step | k0 | k1) & 3) == 0 : ((deep | length) & 3) == 0);
		this->from = from;
		off = (I)((first + at) * step + (k0 + k) * deep);
		apart = (I)(alongK ? deep : step);
		this->step = (I)(atStep * step + kStep * deep);
		next = (I)(K * deep);
		k += k0, end = k1;
		valid = 0;
#pragma unroll
		for (int e = 0; e < each; e++) valid |= (first + place(e) < length ? 1u : 0u) << e;
	}
	// place is where, along the length, element e of the thread lies.
	__device__ __forceinline__ int place(int e) const { return alongK ? at + e / 4 * (Threads / (K / 4)) : at + e % 4; }
	// again moves the side in memory and begins its k anew, which has come to back.
	__device__ __forceinline__ void again(I move, int back) { off += move, k -= back; }
	__device__ __forceinline__ void fetch(T (&r)[each], int) {
		I q = off;
		if (whole) {
#pragma unroll
			for (int i = 0; i < fours; i++) {
				Quad<T> four;
#pragma unroll
				for (int j = 0; j < 4; j++) four.v[j] = read.blank(4 * i + j);
				if ((valid >> 4 * i & 1) && k + i * kStep < end) four = *(const Quad<T> *)(from + q);
#pragma unroll
				for (int j = 0; j < 4; j++) r[4 * i + j] = four.v[j];
				q += step;
			}
		} else {
#pragma unroll
			for (int i = 0; i < fours; i++) {
#pragma unroll
				for (int j = 0; j < 4; j++)
					r[4 * i + j] = (valid >> (4 * i + j) & 1) && k + i * kStep + (alongK ? j : 0) < end ? from[q + j * apart] : read.blank(4 * i + j);
				q += step;
			}
		}
		off += next;
		k += K;
	}
	__device__ __forceinline__ void put(C *to, const T (&r)[each]) const {
		C *p = to + (u32)k % K * (Length + 4) + at;
		if (alongK) {
#pragma unroll
			for (int e = 0; e < each; e++) p[e % 4 * (Length + 4) + e / 4 * (Threads / (K / 4))] = read(r[e], e);
		} else {
#pragma unroll
			for (int i = 0; i < fours; i++) {
				Quad<C> four;
#pragma unroll
				for (int j = 0; j < 4; j++) four.v[j] = read(r[4 * i + j], 4 * i + j);
				*(Quad<C> *)(p + i * (Threads / (Length / 4) * (Length + 4))) = four;
			}
		}
	}
	__device__ __forceinline__ bool along() const { return alongK; }
#ifdef TENSOR
	// hold puts elements into a side of tensor.cuh.
	template <class E> __device__ __forceinline__ void hold(E *to, const T (&r)[each]) const {
		typedef Held<E, Length, K> Side;
		int in = (u32)k % K;
		E *p = to + (alongK ? at * Side::line + in : in * Side::across + at);
		int step = alongK ? Threads / (K / 4) * Side::line : Threads / (Length / 4) * Side::across;
#pragma unroll
		for (int i = 0; i < fours; i++) {
			Quad<E> four;
#pragma unroll
			for (int j = 0; j < 4; j++) four.v[j] = bits(r[4 * i + j]);
			*(Quad<E> *)(p + i * step) = four;
		}
	}
#endif
};

// Unplanned is the plan of loaders that need none. A plan prepares the fetches of the
// tile that begins at k, in one of two slots.
struct Unplanned {
	__device__ __forceinline__ void write(int k, int slot) {}
};

// product adds the products of the columns [k0, k1) of A and rows of B to sums. Those that
// count are the sums of the threads for which it returns true.
template <class L, class C, class P, class A, class B>
static __device__ __forceinline__ bool product(Sums<L, C> &sums, P &plan, A &a, B &b, int k0, int k1) {
	__shared__ Stage<L, C> stage[2];
	typename A::Element nextA[A::each];
	typename B::Element nextB[B::each];
	int tiles = (k1 - k0 + L::k - 1) / L::k;
	if (tiles <= 0) return L::slice() == 0;
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
	if (L::slices > 1) sums.join(stage[0].a);
	return L::slice() == 0;
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
	// write4 writes count of four neighbours of a row, which are apart. Those of a wide
	// result lie together, at a multiple of their size.
	template <class I> __device__ __forceinline__ void write4(const I (&at)[4], i64 row, i64 column, C *v, int count, bool wide) const {
		wide = wide && count >= 4;
		if (part) {
			put4(part, at, v, count, wide);
			return;
		}
		if (f.alpha != 1) {
#pragma unroll
			for (int i = 0; i < 4; i++) v[i] = (C)((typename ScaleOf<C>::type)f.alpha * v[i]);
		}
		if (bias) {
#pragma unroll
			for (int i = 0; i < 4; i++) {
				C c = i < count ? load(bias + (row * f.biasRow + (column + i) * f.biasColumn)) : (C)0;
				v[i] += f.beta != 1 ? (C)f.beta * c : c;
			}
		}
		if (added) {
#pragma unroll
			for (int i = 0; i < 4; i++) v[i] += i < count ? (C)load(added + at[i]) : (C)0;
		}
		if (f.clamps) {
#pragma unroll
			for (int i = 0; i < 4; i++) v[i] = v[i] < (C)f.low ? (C)f.low : v[i] > (C)f.high ? (C)f.high : v[i];
		}
		put4(y, at, v, count, wide);
	}
	template <class E, class I> static __device__ __forceinline__ void put4(E *to, const I (&at)[4], const C *v, int count, bool wide) {
		Quad<E> q;
#pragma unroll
		for (int i = 0; i < 4; i++) store(&q.v[i], v[i]);
		if (wide) {
			*(Quad<E> *)(to + at[0]) = q;
			return;
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (i < count) to[at[i]] = q.v[i];
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
