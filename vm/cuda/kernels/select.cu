// Elements that are chosen by their place. ELEMENT is an unsigned integer as wide as the
// elements, INDEX the type of indices.
#include "index.cuh"

typedef ELEMENT T;

// Keeps the elements of matrices on and above a diagonal, or on and below it; the others
// are 0. The diagonal is moved by *k columns, if k is not null. y may be x.
KERNEL(trilu, (T *y, const T *x, const i64 *k, u32 count, Divider rows, Divider columns, int upper)) {
	i64 by = k ? *k : 0;
	by = by < -(i64)rows.by ? -(i64)rows.by : by > (i64)columns.by ? (i64)columns.by : by;
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 line = columns.quotient(i);
		int column = (int)(i - line * columns.by);
		int edge = (int)(line - rows.quotient(line) * rows.by) + (int)by;
		y[i] = (upper ? column >= edge : column <= edge) ? x[i] : (T)0;
	}
}

// The class that an index means, cut towards 0; a negative one counts from the end. It
// is -1 for one that lies outside of [-depth, depth).
template <class I> static __device__ __forceinline__ i64 class_of(I v, u32 depth) {
	if (!(v > -(Compute<I>)depth - 1 && v < (Compute<I>)depth)) return -1; // or not a number
	i64 k = (i64)v;
	return k < 0 ? k + depth : k;
}
static __device__ __forceinline__ i64 class_of(u8 v, u32 depth) { return v < depth ? v : -1; }
static __device__ __forceinline__ i64 class_of(u16 v, u32 depth) { return v < depth ? v : -1; }
static __device__ __forceinline__ i64 class_of(u32 v, u32 depth) { return v < depth ? v : -1; }
static __device__ __forceinline__ i64 class_of(u64 v, u32 depth) { return v < depth ? (i64)v : -1; }
static __device__ __forceinline__ i64 class_of(i8 v, u32 depth) { return class_of((i64)v, depth); }
static __device__ __forceinline__ i64 class_of(short v, u32 depth) { return class_of((i64)v, depth); }
static __device__ __forceinline__ i64 class_of(int v, u32 depth) { return class_of((i64)v, depth); }

// values[1] at the class that each index means, and values[0] elsewhere. The classes lie
// inner elements apart.
KERNEL(one_hot, (T *__restrict__ y, const INDEX *__restrict__ index, const T *__restrict__ values, u32 count, Divider inner, Divider depth)) {
	T off = values[0], on = values[1];
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 row = inner.quotient(i), o = depth.quotient(row);
		i64 k = class_of(load(index + (i64)o * inner.by + (i - row * inner.by)), depth.by);
		y[i] = k == (i64)(row - o * depth.by) ? on : off;
	}
}
