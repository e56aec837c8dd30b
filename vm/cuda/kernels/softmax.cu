// Softmax and its like: one block for each row.
#include "rows.cuh"

typedef ELEMENT T;

// Softmax of rows of n elements that lie step elements apart: the row of block b begins
// at (b / step) * n * step + b % step.
KERNEL(softmax, (T *y, const T *x, i64 n, i64 step)) {
	i64 at = blockIdx.x / step * n * step + blockIdx.x % step;
	x += at;
	y += at;
	Compute<T> m = lowest<Compute<T>>();
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) m = Larger()(m, load(x + i * step));
	m = reduce(m, Larger());
	Compute<T> s = 0;
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) s += exp_of(load(x + i * step) - m);
	s = reduce(s, Plus());
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) store(y + i * step, exp_of(load(x + i * step) - m) / s);
}
