// Elements at given indices. ELEMENT is an unsigned integer as wide as the elements, or
// as several of them; INDEX is the type of the indices. What an index outside of its
// axis selects is 0, and nothing outside of the input is read.
#include "index.cuh"

typedef ELEMENT T;

// The slice of element i: y has outer · many slices of inner elements, and slice (o, p)
// is slice index[p] of the n slices that x has at o.
KERNEL(gather, (T *__restrict__ y, const T *__restrict__ x, const INDEX *__restrict__ index, u32 count, Divider inner, Divider many, u32 n, Faults faults)) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 row = inner.quotient(i), j = i - row * inner.by;
		u32 o = many.quotient(row), p = row - o * many.by, k;
		T v = {};
		if (within(index[p], n, k))
			v = x[((i64)o * n + k) * inner.by + j];
		else
			faults.report(p);
		y[i] = v;
	}
}

// The sequences of a matrix of slices, turned round as far as their lengths go. With across a
// sequence is a column of the matrix, else a row; its number is that of its length. One of a
// wrong length stays.
KERNEL(reverse, (T *__restrict__ y, const T *__restrict__ x, const INDEX *__restrict__ lengths, u32 count, Divider inner, Divider columns, u32 rows, int across, Faults faults)) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 slice = inner.quotient(i), row = columns.quotient(slice), column = slice - row * columns.by;
		u32 s = across ? column : row, t = across ? row : column, most = across ? rows : columns.by;
		INDEX n = lengths[s];
		if (n < 0 || n > most) {
			faults.report(s);
			n = 0;
		}
		if (t < n) t = (u32)n - 1 - t;
		u32 from = across ? t * columns.by + s : s * columns.by + t;
		y[i] = x[(i64)from * inner.by + (i - slice * inner.by)];
	}
}

// The element at the coordinates of the index, but for one axis, which has n elements
// step apart: there the index is the coordinate. The strides of that axis are 0.
template <int R> static __device__ __forceinline__ void gather_along(T *__restrict__ y, const T *__restrict__ x, const INDEX *__restrict__ index, u32 count, u32 n, u32 step, const Axes<R> &axes, const Faults &faults) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		int from, to;
		u32 k;
		axes.find(i, from, to);
		T v = {};
		if (within(index[i], n, k))
			v = x[from + (int)(k * step)];
		else
			faults.report(i);
		y[i] = v;
	}
}

KERNEL(gather_along2, (T *y, const T *x, const INDEX *index, u32 count, u32 n, u32 step, Axes<2> axes, Faults faults)) { gather_along(y, x, index, count, n, step, axes, faults); }
KERNEL(gather_along3, (T *y, const T *x, const INDEX *index, u32 count, u32 n, u32 step, Axes<3> axes, Faults faults)) { gather_along(y, x, index, count, n, step, axes, faults); }
KERNEL(gather_along4, (T *y, const T *x, const INDEX *index, u32 count, u32 n, u32 step, Axes<4> axes, Faults faults)) { gather_along(y, x, index, count, n, step, axes, faults); }
KERNEL(gather_along8, (T *y, const T *x, const INDEX *index, u32 count, u32 n, u32 step, Axes<8> axes, Faults faults)) { gather_along(y, x, index, count, n, step, axes, faults); }
