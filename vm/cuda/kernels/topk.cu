// TopK: the first elements of each line, in an order without ties.
#include "index.cuh"

typedef ELEMENT T;

// ordered maps numbers to integers of the same order: -0 equals 0, and NaN equals any other
// and is larger than all numbers.
template <class I> static __device__ __forceinline__ u32 ordered(I x) { return (I)-1 < (I)0 ? (u32)(int)x ^ 0x80000000u : (u32)x; }
static __device__ __forceinline__ u32 ordered(float x) {
	int b = __float_as_int(x + 0.0f);
	return x != x ? 0xffffffffu : (u32)b ^ ((u32)(b >> 31) | 0x80000000u);
}
static __device__ __forceinline__ u64 ordered(i64 x) { return (u64)x ^ 1ull << 63; }
static __device__ __forceinline__ u64 ordered(u64 x) { return x; }
static __device__ __forceinline__ u64 ordered(double x) {
	i64 b = __double_as_longlong(x + 0.0);
	return x != x ? ~0ull : (u64)b ^ ((u64)(b >> 63) | 1ull << 63);
}

// Key orders the elements of a line by value and then by place. The one without an element
// comes last.
template <class V> struct Key;
template <> struct Key<u32> {
	u64 all;
	static __device__ __forceinline__ Key of(u32 v, u32 at) { return Key{(u64)v << 32 | at}; }
	__device__ __forceinline__ bool before(Key b) const { return all < b.all; }
	__device__ __forceinline__ u32 at() const { return (u32)all; }
};
template <> struct Key<u64> {
	u64 v, place;
	static __device__ __forceinline__ Key of(u64 v, u32 at) { return Key{v, at}; }
	__device__ __forceinline__ bool before(Key b) const { return v != b.v ? v < b.v : place < b.place; }
	__device__ __forceinline__ u32 at() const { return (u32)place; }
};
typedef decltype(ordered(Compute<T>())) V;
typedef Key<V> K;
static __device__ __forceinline__ K last() { return K::of((V)-1, 0xffffffffu); }

// sort orders size keys, a power of two, in shared memory (Batcher 1968).
static __device__ void sort(K *list, int size) {
	for (int run = 2; run <= size; run *= 2)
		for (int d = run / 2; d > 0; d /= 2) {
			__syncthreads();
			for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
				int a = 2 * i - (i & (d - 1)), b = a + d;
				K x = list[a], y = list[b];
				if (y.before(x) == ((a & run) == 0)) {
					list[a] = y;
					list[b] = x;
				}
			}
		}
	__syncthreads();
}

// first leaves the k first of count keys at the beginning of list, in order. The list has
// room for size keys, a power of two: for all of them, or for twice k at least. Then keys
// that come before the k-th so far wait in its upper half until that is full. Their order
// there depends on timing, that of the sorted list does not.
template <class F> static __device__ void first(K *list, int size, int k, int count, F key) {
	__shared__ int waiting;
	const int half = size / 2, each = half / 1024;
	for (int i = threadIdx.x; i < size; i += blockDim.x) list[i] = i < count ? key(i) : last();
	sort(list, size);
	if (count <= size) return;
	K limit = list[k - 1];
	__syncthreads();
	if (threadIdx.x == 0) waiting = 0;
	__syncthreads();
	for (int from = size; from < count; from += each * blockDim.x) {
		for (int j = 0; j < each; j++) {
			int i = from + j * blockDim.x + threadIdx.x;
			if (i >= count) break;
			K v = key(i);
			if (v.before(limit)) list[half + atomicAdd(&waiting, 1)] = v;
		}
		__syncthreads();
		const int held = waiting;
		__syncthreads();
		if (held + each * (int)blockDim.x <= half && from + each * (int)blockDim.x < count) continue;
		for (int i = held + threadIdx.x; i < half; i += blockDim.x) list[half + i] = last();
		sort(list, size);
		limit = list[k - 1];
		if (threadIdx.x == 0) waiting = 0;
		__syncthreads();
	}
}

// Lines are n elements that lie step elements apart. Each has parts parts of span elements.
struct Lines {
	int n, step, parts, span;
	// where is the first of n elements of a line.
	__device__ i64 where(i64 line, int n) const { return line / step * step * n + line % step; }
};

// put writes the elements of the first k keys.
static __device__ void put(T *y, i64 *places, const T *x, const Lines &s, i64 line, const K *list, int k) {
	x += s.where(line, s.n);
	const i64 to = s.where(line, k);
	for (int j = threadIdx.x; j < k; j += blockDim.x) {
		const i64 at = list[j].at();
		y[to + (i64)j * s.step] = x[at * s.step];
		if (places) places[to + (i64)j * s.step] = at;
	}
}

// top has a block for each part of a line. It writes the k largest elements of the line, or
// the smallest; of several parts the keys of each.
KERNEL(top, (T *y, i64 *places, K *keys, const T *x, Lines s, int k, int largest, int size)) {
	DYNAMIC_SHARED(K, list);
	const i64 line = blockIdx.x / (u32)s.parts;
	const int from = (int)(blockIdx.x % (u32)s.parts) * s.span;
	const T *p = x + s.where(line, s.n);
	const V flip = largest ? (V)-1 : (V)0;
	first(list, size, k, s.n - from < s.span ? s.n - from : s.span, [&](int i) { return K::of(ordered(load(p + (i64)(from + i) * s.step)) ^ flip, (u32)(from + i)); });
	if (s.parts == 1) {
		put(y, places, x, s, line, list, k);
		return;
	}
	for (int j = threadIdx.x; j < k; j += blockDim.x) keys[(i64)blockIdx.x * k + j] = list[j];
}

// join has a block for each line, and joins the keys of its parts.
KERNEL(join, (T *y, i64 *places, const K *keys, const T *x, Lines s, int k, int size)) {
	DYNAMIC_SHARED(K, list);
	const K *own = keys + (i64)blockIdx.x * s.parts * k;
	first(list, size, k, s.parts * k, [&](int i) { return own[i]; });
	put(y, places, x, s, blockIdx.x, list, k);
}
