// Products of a few rows and packed numbers, y = a·bᵀ: each row of b is read once, and
// widened in registers.
#include "bits.cuh"
#include "product.cuh"

typedef ELEMENT T;
typedef ZERO Z; // of the zero points: u8 for packed ones
typedef Zeros<Z, BITS> Zeroes;

// Rows describes m rows of a and n rows of b, of k numbers each. A row of b has blocks of
// 1 << shift numbers, the last of which may be cut in a, and is a multiple of CHUNK bytes.
struct Rows {
	int m, n, k, blocks, shift;
	int together; // four elements of a lie at a multiple of their size
};

// Chunk is what a thread reads of b at once. It lies within a block.
struct alignas(CHUNK) Chunk { u32 word[CHUNK / 4]; };

constexpr int warps = 8, per = 32 / BITS, each = CHUNK / 4 * per;
// What lanes read of a together must not lie in one bank of shared memory: fours of elements
// of two lanes are an odd number of fours apart.
constexpr int pitch = each / 4 | 1;

// Part is a chunk of each of a thread's rows of b, with its block's scale and zero point.
struct Part {
	Chunk chunk[COLUMNS];
	T scale[COLUMNS];
	Z zero[COLUMNS];
	__device__ __forceinline__ void fetch(const u8 *b, const T *scales, const Z *zeros, const Rows &s, int column, int at) {
		int block = at * each >> s.shift;
		i64 wide = ((i64)s.blocks << s.shift) * BITS / 8;
		if (block >= s.blocks) return;
#pragma unroll
		for (int c = 0; c < COLUMNS; c++) {
			i64 row = min(column + c, s.n - 1);
			chunk[c] = *(const Chunk *)(b + row * wide + (i64)at * CHUNK);
			scale[c] = scales[row * s.blocks + block];
			zero[c] = Zeroes::read(zeros, row, s.blocks, block);
		}
	}
};

// stage puts the elements of a from number first on, which 32 lanes need, into shared
// memory; those that are not there are 0.
static __device__ __forceinline__ void stage(Quad<float> (*to)[32 * pitch], const T *a, const Rows &s, int rows, int first) {
	for (int i = 4 * threadIdx.x; i < ROWS * 32 * each; i += 4 * 32 * warps) {
		int r = i / (32 * each), e = i % (32 * each), k = first + e;
		const T *from = a + (i64)r * s.k + k;
		Quad<T> four = {};
		if (r < rows && s.together) {
			if (k < s.k) four = *(const Quad<T> *)from;
		} else if (r < rows) {
#pragma unroll
			for (int j = 0; j < 4; j++)
				if (k + j < s.k) four.v[j] = from[j];
		}
		Quad<float> wide;
#pragma unroll
		for (int j = 0; j < 4; j++) wide.v[j] = load(&four.v[j]);
		to[r][e / each * pitch + e % each / 4] = wide;
	}
}

// A warp has COLUMNS rows of b, of which each lane takes every 32nd chunk, and all ROWS rows
// of a, which the warps of the block share tile by tile. A sum is scaled once per chunk. The
// sums of the lanes are added up as a tree.
KERNEL_FOR(32 * warps, 2, multiply_rows, (T *y, const T *a, const u8 *b, const T *scales, const Z *zeros, const T *bias, Rows s)) {
	__shared__ Quad<float> staged[ROWS][32 * pitch];
	int lane = threadIdx.x % 32, column = (blockIdx.x * warps + threadIdx.x / 32) * COLUMNS;
	int m0 = blockIdx.y * ROWS, rows = min(ROWS, s.m - m0);
	a += (i64)m0 * s.k;
	int chunks = (s.blocks << s.shift) / each;
	float sum[COLUMNS][ROWS];
#pragma unroll
	for (int c = 0; c < COLUMNS; c++)
#pragma unroll
		for (int r = 0; r < ROWS; r++) sum[c][r] = 0;
	Part next;
	next.fetch(b, scales, zeros, s, column, lane);
	for (int first = 0; first < chunks; first += 32) {
		Part now = next;
		__syncthreads(); // the tile before has been read
		stage(staged, a, s, rows, first * each);
		__syncthreads();
		next.fetch(b, scales, zeros, s, column, first + 32 + lane);
		if (first + lane >= chunks) continue;
		int block = (first + lane) * each >> s.shift;
		float zero[COLUMNS], part[COLUMNS][ROWS];
#pragma unroll
		for (int c = 0; c < COLUMNS; c++) {
			zero[c] = Zeroes::of(now.zero[c], block);
#pragma unroll
			for (int r = 0; r < ROWS; r++) part[c][r] = 0;
		}
#pragma unroll
		for (int i = 0; i < each; i += 4) {
			Quad<float> x[ROWS];
#pragma unroll
			for (int r = 0; r < ROWS; r++) x[r] = staged[r][lane * pitch + i / 4];
#pragma unroll
			for (int c = 0; c < COLUMNS; c++) {
				Bits<BITS> numbers(now.chunk[c].word[i / per]);
#pragma unroll
				for (int j = 0; j < 4; j++) {
					float v = Zeroes::less(numbers.at(i % per + j), zero[c]);
#pragma unroll
					for (int r = 0; r < ROWS; r++) part[c][r] = fmaf(x[r].v[j], v, part[c][r]);
				}
			}
		}
#pragma unroll
		for (int c = 0; c < COLUMNS; c++)
#pragma unroll
			for (int r = 0; r < ROWS; r++) sum[c][r] = fmaf(load(&now.scale[c]), part[c][r], sum[c][r]);
	}
#pragma unroll
	for (int c = 0; c < COLUMNS; c++)
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			float v = sum[c][r];
#pragma unroll
			for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
			int j = column + c;
			if (lane != (c * ROWS + r) % 32 || r >= rows || j >= s.n) continue;
			if (bias) v += load(bias + j);
			store(y + (i64)(m0 + r) * s.n + j, v);
		}
}
