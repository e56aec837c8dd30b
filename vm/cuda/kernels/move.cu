// Copies between strided layouts. ELEMENT is an unsigned integer as wide as the
// elements, or as several of them where those lie side by side in both layouts.
#include "index.cuh"

typedef ELEMENT T;

// A thread has this many loads under way at once: with one of 4 bytes each, the
// threads of an SM do not fill the memory's pipeline.
static constexpr int each = 4;

// move copies count elements, in the order of the axes.
template <int R> static __device__ __forceinline__ void move(T *__restrict__ y, const T *__restrict__ x, u32 count, const Axes<R> &axes) {
	u32 block = blockDim.x * each;
	for (u32 first = blockIdx.x * block + threadIdx.x; first < count; first += gridDim.x * block) {
		T v[each];
		int to[each];
#pragma unroll
		for (int k = 0; k < each; k++) {
			u32 i = first + k * blockDim.x;
			if (i < count) {
				int from;
				axes.find(i, from, to[k]);
				v[k] = x[from];
			}
		}
#pragma unroll
		for (int k = 0; k < each; k++)
			if (first + k * blockDim.x < count) y[to[k]] = v[k];
	}
}

KERNEL(move2, (T *y, const T *x, u32 count, Axes<2> axes)) { move(y, x, count, axes); }
KERNEL(move3, (T *y, const T *x, u32 count, Axes<3> axes)) { move(y, x, count, axes); }
KERNEL(move4, (T *y, const T *x, u32 count, Axes<4> axes)) { move(y, x, count, axes); }
KERNEL(move8, (T *y, const T *x, u32 count, Axes<8> axes)) { move(y, x, count, axes); }

// Matrices that are transposed. A row of the input is contiguous, and so is a row of
// the output.
struct Matrices {
	u32 rows, columns;    // of a matrix of the input
	int from, to;         // between rows of the input, and of the output
	Divider across, down; // over the number of tiles side by side, and one below the other
	Axes<3> batch;        // over the matrices
};

// transpose has a block of 32 x 8 threads for each tile. A tile of narrow elements is
// larger, so that its rows fill more of the memory's transactions; the padding puts the
// elements of its columns into different banks of shared memory.
KERNEL(transpose, (T *__restrict__ y, const T *__restrict__ x, Matrices m)) {
	constexpr int side = sizeof(T) < 4 ? 64 : 32;
	__shared__ T tile[side][side + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
	u32 down = m.across.quotient(blockIdx.x);
	u32 batch = m.down.quotient(down);
	u32 column = (blockIdx.x - down * m.across.by) * side;
	u32 row = (down - batch * m.down.by) * side;
	int from, to;
	m.batch.find(batch, from, to);
	x += from;
	y += to;
	for (u32 j = threadIdx.y; j < side; j += 8)
		for (u32 i = threadIdx.x; i < side; i += 32)
			if (row + j < m.rows && column + i < m.columns) tile[j][i] = x[(int)(row + j) * m.from + (int)(column + i)];
	__syncthreads();
	for (u32 j = threadIdx.y; j < side; j += 8)
		for (u32 i = threadIdx.x; i < side; i += 32)
			if (column + j < m.columns && row + i < m.rows) y[(int)(column + j) * m.to + (int)(row + i)] = tile[i][j];
}
