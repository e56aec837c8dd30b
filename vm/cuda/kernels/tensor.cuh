// Tiles of products on tensor cores (mma.sync), for product.cuh: 16-bit operands, or float32
// rounded to TF32, and float32 sums. A file that is compiled with TENSOR has these tiles under
// the names of the others.
//
// The operands of a tile lie in shared memory as they were fetched, along k or across it, in 8
// rows of 16 bytes for each matrix that ldmatrix loads. The rows are longer by 16 bytes, so that
// eight of them, one below the other, meet in no bank.
#pragma once
#include "prelude.cuh"
#ifdef CUDA_ON_CPU
#include <cuda_tensor.h>
#endif

// Bits is how an operand of an mma is held: 16 bits, or the 32 of a float with 10 bits of
// fraction.
template <class T> struct BitsOf { typedef u16 type; };
template <> struct BitsOf<float> { typedef u32 type; };
template <class T> using Bits = typename BitsOf<T>::type;

static __device__ __forceinline__ u16 bits(f16 x) { return x.bits; }
static __device__ __forceinline__ u16 bits(bf16 x) { return x.bits; }
static __device__ __forceinline__ u32 bits(float x) {
#ifdef CUDA_ON_CPU
	return fake_tf32(x);
#else
	u32 y;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
	return y;
#endif
}

// mma adds the product of a (16 x 32 bytes) and b (32 bytes x 8) to c (16 x 8). How the elements
// are spread over the lanes of a warp is PTX's: "Matrix Fragments for mma.m16n8k16", and
// "mma.m16n8k8" for TF32.
#ifdef CUDA_ON_CPU
static inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) { fake::mma<16>(c, a, b0, b1, [](u32 r, int i) { return fake_half_to_float((u16)(r >> 16 * i)); }, FAKE_HERE); }
static inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) { fake::mma<16>(c, a, b0, b1, [](u32 r, int i) { return fake::as<float>(r >> 16 * i << 16); }, FAKE_HERE); }
static inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, float) { fake::mma<8>(c, a, b0, b1, [](u32 r, int) { return fake::as<float>(r & ~0x1fffu); }, FAKE_HERE); }
#else
#define MMA(T, shape, type) \
	static __device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, T) { \
		asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
	}
MMA(f16, "m16n8k16", "f16")
MMA(bf16, "m16n8k16", "bf16")
MMA(float, "m16n8k8", "tf32")
#endif

// load_matrices loads four matrices of 8 rows of 16 bytes. Lane i names row i % 8 of matrix i / 8.
// A lane gets 4 bytes of each: of its row i / 4, or, if they are turned, of two rows.
template <bool Turned> static __device__ __forceinline__ void load_matrices(u32 (&r)[4], const void *row) {
#ifdef CUDA_ON_CPU
	fake::load_matrices<Turned>(r, row, FAKE_HERE);
#else
	u32 at;
	asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(at) : "l"(row));
	if (Turned) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
	else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
#endif
}

// Held is a side of a tile in shared memory: Length lines of K elements if it lies along k, else
// K lines of Length elements.
template <class E, int Length, int K> struct alignas(16) Held {
	static constexpr int more = 16 / sizeof(E), line = K + more, across = Length + more;
	E v[Length * line > K * across ? Length * line : K * across];
};

// Fragments loads parts of a side: 16 lines of its length, and as much of k as one mma has. Each
// is four registers: of lines 0 to 7 and 8 to 15 in the first half of that k, then in the second.
// So they are an A, or the B's of two mma.
template <class E, int Length, int K> struct Fragments {
	typedef Held<E, Length, K> Side;
	static constexpr int half = 16 / sizeof(E); // of the k of an mma
	const E *from;
	int step, next; // from 16 lines to the next, from an mma's k to the next
	bool along;
	__device__ __forceinline__ Fragments(const Side &side, int first, bool along) : along(along) {
		int lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, deep = lane / 16 * half;
		if (along) {
			from = side.v + (first + low + second) * Side::line + deep;
			step = 16 * Side::line, next = 2 * half;
		} else {
			if (sizeof(E) == 2) from = side.v + (deep + low) * Side::across + first + second;
			else from = side.v + lane % 4 * Side::across + first + lane / 4;
			step = 16, next = 2 * half * Side::across;
		}
	}
	__device__ __forceinline__ void load(u32 (&r)[4], int i, int k) const {
		const E *p = from + i * step + k * next;
		if (along) {
			load_matrices<false>(r, p);
		} else if (sizeof(E) == 2) {
			load_matrices<true>(r, p);
		} else { // there is no turning of 32 bits
			r[0] = p[0], r[1] = p[8];
			r[2] = p[half * Side::across], r[3] = p[half * Side::across + 8];
		}
	}
};

// Tensor is a tile of tensor cores: WM x WN warps, each of QM x QN mma of 16 x 8 elements.
template <int QM, int QN, int WM, int WN> struct Tensor {
	typedef ELEMENT T;
	static constexpr int qm = QM, qn = QN, across = 8, slices = 1, each_k = 32 / sizeof(Bits<T>), steps = 2;
	static constexpr int m = 16 * QM * WM, n = 8 * QN * WN, k = steps * each_k, threads = 32 * WM * WN;
	static __device__ __forceinline__ int slice() { return 0; }
	static __device__ __forceinline__ int top() { return threadIdx.x / 32 / WN * (16 * QM); }
	static __device__ __forceinline__ int left() { return threadIdx.x / 32 % WN * (8 * QN); }
	// row and column are those of the first four neighbours that Sums::each gives a thread.
	static __device__ __forceinline__ int row() { return top() + threadIdx.x % 32 / 4 + threadIdx.x % 2 * 8; }
	static __device__ __forceinline__ int column() { return left() + threadIdx.x % 4 / 2 * 4; }
};
typedef Tensor<4, 4, 2, 4> Tile128;
typedef Tensor<4, 4, 2, 2> Tile128x64;
typedef Tensor<4, 4, 1, 4> Tile64x128;
typedef Tensor<2, 4, 1, 4> Tile32x128;
typedef Tensor<2, 4, 2, 2> Tile64;
typedef Tensor<1, 2, 2, 2> Tile32;

template <class L, class C> struct Sums;
template <int QM, int QN, int WM, int WN> struct Sums<Tensor<QM, QN, WM, WN>, float> {
	typedef Tensor<QM, QN, WM, WN> L;
	typedef typename L::T T;
	float v[QM][QN][4];
	__device__ __forceinline__ void clear() {
#pragma unroll
		for (int i = 0; i < QM; i++)
#pragma unroll
			for (int j = 0; j < QN; j++)
#pragma unroll
				for (int e = 0; e < 4; e++) v[i][j][e] = 0;
	}
	// add adds the products of a stage, in rising k.
	template <class A, class B> __device__ __forceinline__ void add(const A &left, const B &right) {
#pragma unroll
		for (int k = 0; k < L::steps; k++) {
			u32 a[QM][4], b[QN / 2][4];
#pragma unroll
			for (int i = 0; i < QM; i++) left.load(a[i], i, k);
#pragma unroll
			for (int j = 0; j < QN / 2; j++) right.load(b[j], j, k);
#pragma unroll
			for (int i = 0; i < QM; i++)
#pragma unroll
				for (int j = 0; j < QN; j++) mma(v[i][j], a[i], b[j / 2][j % 2], b[j / 2][j % 2 + 2], T());
		}
	}
	// each calls f as the sums of other tiles do. A thread has two neighbours of two rows, 8 apart:
	// it gives one of these to the lane beside it, and gets as much of the other.
	template <class F> __device__ __forceinline__ void each(F f) {
		bool odd = threadIdx.x % 2;
#pragma unroll
		for (int j = 0; j < QN; j++)
#pragma unroll
			for (int i = 0; i < QM; i++) {
				float *c = v[i][j], four[4];
				float x = __shfl_xor_sync(0xffffffffu, odd ? c[0] : c[2], 1), y = __shfl_xor_sync(0xffffffffu, odd ? c[1] : c[3], 1);
				four[0] = odd ? x : c[0], four[1] = odd ? y : c[1];
				four[2] = odd ? c[2] : x, four[3] = odd ? c[3] : y;
				f(L::row() + 16 * i, L::column() + 8 * j, j, four);
			}
	}
};

// product is that of product.cuh.
template <int QM, int QN, int WM, int WN, class P, class A, class B>
static __device__ __forceinline__ bool product(Sums<Tensor<QM, QN, WM, WN>, float> &sums, P &plan, A &a, B &b, int k0, int k1) {
	typedef Tensor<QM, QN, WM, WN> L;
	typedef Fragments<Bits<typename L::T>, L::m, L::k> Left;
	typedef Fragments<Bits<typename L::T>, L::n, L::k> Right;
	__shared__ typename Left::Side left[2];
	__shared__ typename Right::Side right[2];
	typename A::Element nextA[A::each];
	typename B::Element nextB[B::each];
	int tiles = (k1 - k0 + L::k - 1) / L::k;
	if (tiles <= 0) return true;
	plan.write(k0, 0);
	plan.write(k0 + L::k, 1);
	__syncthreads();
	a.fetch(nextA, 0);
	b.fetch(nextB, 0);
	a.hold(left[0].v, nextA);
	b.hold(right[0].v, nextB);
	__syncthreads();
	for (int t = 0; t < tiles; t++) {
		int other = (t + 1) & 1;
		bool more = t + 1 < tiles;
		if (more) {
			a.fetch(nextA, other);
			b.fetch(nextB, other);
		}
		plan.write(k0 + (t + 2) * L::k, t & 1); // which was last read before the barrier
		sums.add(Left(left[t & 1], L::top(), a.along()), Right(right[t & 1], L::left(), b.along()));
		if (more) {
			a.hold(left[other].v, nextA);
			b.hold(right[other].v, nextB);
		}
		__syncthreads();
	}
	return true;
}
