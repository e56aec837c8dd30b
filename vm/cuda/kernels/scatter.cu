// Updates of elements at given indices. ELEMENT is the type of the elements, INDEX that
// of the indices, and JOIN what an update does to an element. Updates of one element
// happen in the order of the indices, by one thread or by threads that take turns, so
// the bits of a sum do not depend on timing. Updates outside of the output are dropped.
#include "index.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

struct Replace {
	template <class V> __device__ V operator()(V, V b) const { return b; }
};
struct Plus {
	template <class V> __device__ V operator()(V a, V b) const { return (V)(a + b); }
};
struct Times {
	template <class V> __device__ V operator()(V a, V b) const { return (V)(a * b); }
};
// A NaN is smaller and larger than any number.
struct Smaller {
	template <class V> __device__ V operator()(V a, V b) const { return a != a || a < b ? a : b; }
};
struct Larger {
	template <class V> __device__ V operator()(V a, V b) const { return a != a || a > b ? a : b; }
};

// The lines that are updated independently of each other: line l has updates updates,
// which lie ustep apart, as their indices lie istep apart, and n elements, which lie
// ystep apart. Its first update and element are found by axes. parts warps or threads
// share a line: each takes the updates of span elements. If shared, all lines have the
// same indices.
struct Lines {
	u32 lines, parts, updates, n, span;
	int istep, ustep, ystep;
	u32 shared;
	Axes<8> axes;
};

// A warp for each part of a line: 32 updates at a time. Of those that meet at one
// element, the first lane does all, in their order.
KERNEL(scatter_lines, (T *y, const T *__restrict__ u, const INDEX *__restrict__ index, Lines l, Faults faults)) {
	const u32 full = 0xffffffffu;
	u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
	u32 line = warp / l.parts, part = warp % l.parts;
	if (line >= l.lines) return;
	int first, to;
	l.axes.find(line, first, to);
	u += first;
	y += to;
	int place = l.shared ? 0 : first;
	index += place;
	u32 low = part * l.span;
	INDEX next = lane < l.updates ? index[(int)lane * l.istep] : 0;
	for (u32 i = lane; i - lane < l.updates; i += 32) {
		INDEX v = next;
		if (i + 32 < l.updates) next = index[(int)(i + 32) * l.istep];
		u32 k = 0;
		bool mine = false;
		if (i < l.updates) {
			mine = within(v, l.n, k);
			if (!mine) faults.report((u32)(place + (int)i * l.istep));
			mine = mine && k - low < l.span;
		}
		if (!__any_sync(full, mine)) continue;
		C w = mine ? load(u + (int)i * l.ustep) : C();
		u32 same = __match_any_sync(full, mine ? k : ~lane); // no element has such a number
		bool leads = mine && (u32)__ffs((int)same) == lane + 1;
		u32 others = leads ? same & (same - 1) : 0;
		C sum = C();
		if (leads) sum = JOIN()(load(y + (int)k * l.ystep), w);
		while (__any_sync(full, others != 0)) {
			int from = others ? __ffs((int)others) - 1 : (int)lane;
			C x = (C)__shfl_sync(full, w, from);
			if (others) sum = JOIN()(sum, x);
			others &= others - 1;
		}
		if (leads) store(y + (int)k * l.ystep, sum);
		__syncwarp();
	}
}

// A thread for each part of a line, where neighbouring lines lie side by side.
KERNEL(scatter_columns, (T *y, const T *__restrict__ u, const INDEX *__restrict__ index, Lines l, Faults faults)) {
	constexpr int each = 4;
	u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
	u32 part = thread / l.lines, line = thread - part * l.lines;
	if (part >= l.parts) return;
	int first, to;
	l.axes.find(line, first, to);
	u += first;
	y += to;
	int place = l.shared ? 0 : first;
	index += place;
	u32 low = part * l.span;
	for (u32 i = 0; i < l.updates; i += each) {
		INDEX v[each];
		C w[each];
#pragma unroll
		for (int e = 0; e < each; e++)
			if (i + e < l.updates) {
				v[e] = index[(int)(i + e) * l.istep];
				w[e] = load(u + (int)(i + e) * l.ustep);
			}
#pragma unroll
		for (int e = 0; e < each; e++)
			if (i + e < l.updates) {
				u32 k;
				if (!within(v[e], l.n, k))
					faults.report((u32)(place + (int)(i + e) * l.istep));
				else if (k - low < l.span)
					store(y + (int)k * l.ystep, JOIN()(load(y + (int)k * l.ystep), w[e]));
			}
	}
}

// Updates of whole slices of inner elements: slice[i], if it is not negative, is the
// slice of y that update i goes to. A thread has one element of the slices whose number
// leaves the remainder blockIdx.y. The block lists the updates of these, in order.
KERNEL(scatter_slices, (T *y, const T *__restrict__ u, const int *__restrict__ slice, u32 updates, u32 inner)) {
	constexpr int block = 256, each = 4;
	__shared__ int to[block], from[block], found[block / 32];
	u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	u32 column = blockIdx.x * block + threadIdx.x;
	i64 current = -1; // the slice that sum belongs to
	C sum = C();
	for (u32 first = 0; first < updates; first += block) {
		u32 i = first + threadIdx.x;
		int s = i < updates ? slice[i] : -1;
		bool mine = s >= 0 && (u32)s % gridDim.y == blockIdx.y;
		u32 votes = __ballot_sync(0xffffffffu, mine);
		__syncthreads(); // the list may still be read
		if (lane == 0) found[warp] = __popc(votes);
		__syncthreads();
		int at = __popc(votes & ((1u << lane) - 1)), total = 0;
		for (int w = 0; w < block / 32; w++) {
			if ((u32)w < warp) at += found[w];
			total += found[w];
		}
		if (mine) {
			to[at] = s;
			from[at] = (int)i;
		}
		__syncthreads();
		if (column >= inner) continue;
		for (int e = 0; e < total; e += each) {
			C w[each];
#pragma unroll
			for (int k = 0; k < each; k++)
				if (e + k < total) w[k] = load(u + (i64)from[e + k] * inner + column);
#pragma unroll
			for (int k = 0; k < each; k++)
				if (e + k < total) {
					if (to[e + k] != current) {
						if (current >= 0) store(y + current * inner + column, sum);
						current = to[e + k];
						sum = load(y + current * inner + column);
					}
					sum = JOIN()(sum, w[k]);
				}
		}
	}
	if (current >= 0) store(y + current * inner + column, sum);
}
