// The gradient of a LayerNormalization whose normalized rows are there, which a step has as
// eleven nodes. It rounds wherever they do, and its sums are those of reduce.cu: its bits are
// theirs.
#include "groups.cuh"

struct Total {
	float v;
	__device__ void join(const Total &b) { v += b.v; }
};
static __device__ __forceinline__ Total exchange(Total a, int d) { return {exchange(a.v, d)}; }

// scaled is a row's part of d times the scale, unless d is that already: the scale is null.
template <int N> static __device__ __forceinline__ Few<float, N> scaled(const float *d, const float *scale, const Channels &c, int at, int base) {
	auto w = few<N>(d + at, c);
	if (!scale) return w;
	auto f = few<N>(scale + (at - base), c);
#pragma unroll
	for (int j = 0; j < N; j++) w.v[j] = __fmul_rn(w.v[j], f.v[j]);
	return w;
}

// rows writes the gradient of what was normalized to x, and may overwrite x or d. A row is a
// channel of c, and its sums are those of its parts, one after the other.
KERNEL(rows, (float *y, const float *x, const float *d, const float *scale, const float *inverses, int parts, Channels c)) {
	Channel own(c);
	auto part = [&](int p) {
		own.first = p * c.part + threadIdx.x;
		own.end = c.units - p * c.part < c.part ? c.units : (p + 1) * c.part;
	};
	int base = own.number * c.inner; // of the row
	float sum, product;
	for (int p = 0; p < parts; p++) {
		part(p);
		float s = 0, t = 0;
		each(c, own, [&](auto n, int at) {
			auto v = few<n.n>(x + at, c), w = scaled<n.n>(d, scale, c, at, base);
#pragma unroll
			for (int j = 0; j < n.n; j++) {
				s += w.v[j];
				t = __fadd_rn(t, __fmul_rn(w.v[j], v.v[j]));
			}
		});
		s = team(s, true, Plus());
		t = team(t, true, Plus());
		sum = p ? sum + s : s;
		product = p ? product + t : t;
	}
	if (!own.real) return;
	float shift = sum / c.inner, slope = product / c.inner, inverse = load(inverses + own.number);
	for (int p = 0; p < parts; p++) {
		part(p);
		each(c, own, [&](auto n, int at) {
			auto v = few<n.n>(x + at, c), w = scaled<n.n>(d, scale, c, at, base);
#pragma unroll
			for (int j = 0; j < n.n; j++) w.v[j] = __fmul_rn(inverse, __fsub_rn(__fsub_rn(w.v[j], shift), __fmul_rn(v.v[j], slope)));
			put(y + at, w, c);
		});
	}
}

// columns leaves the sums of d over a part of the rows, and behind those of all parts the
// sums of d times x, as reduce_columns of reduce.cu adds them up.
KERNEL(columns, (Total *parts, const float *x, const float *d, int rows, int columns, int part, int packed)) {
	int column = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
	bool real = column < columns;
	Total sum[4] = {}, product[4] = {};
	int end = rows - blockIdx.y * part < part ? rows : (blockIdx.y + 1) * part;
	int from = real ? column : 0;
#pragma unroll 4
	for (int r = blockIdx.y * part + threadIdx.y; r < end; r += blockDim.y) {
		i64 at = (i64)r * columns + from;
		Pack<float> v, w;
		if (packed) v = *(const Pack<float> *)(x + at), w = *(const Pack<float> *)(d + at);
		else for (int j = 0; j < 4; j++) v.v[j] = x[at + j], w.v[j] = d[at + j];
#pragma unroll
		for (int j = 0; j < 4; j++) {
			sum[j].v += w.v[j];
			product[j].v = __fadd_rn(product[j].v, __fmul_rn(w.v[j], v.v[j]));
		}
	}
#pragma unroll
	for (int j = 0; j < 4; j++) {
		Total s = team(sum[j], false, Join()), t = team(product[j], false, Join());
		if (!real || threadIdx.y > 0) continue;
		i64 slot = (i64)blockIdx.y * columns + column + j;
		parts[slot] = s;
		parts[(i64)gridDim.y * columns + slot] = t;
	}
}

// totals joins the parts of sums and of products, and writes those that are not null.
// Blocks of one y have one of them.
KERNEL(totals, (float *sums, float *products, const Total *parts, int many, int columns)) {
	float *y = blockIdx.y ? products : sums;
	if (!y) return;
	int number = blockIdx.x * blockDim.x + threadIdx.x;
	Total sum = merge(Total(), parts + (blockIdx.y ? (i64)many * columns : 0), many, columns, number < columns ? number : columns - 1);
	if (number < columns && threadIdx.y == 0) store(y + number, sum.v);
}
