// Attention: softmax(scale · queries · keysᵀ) · values, without the scores in memory. A
// block has some queries of a head. It takes the keys tile by tile, and scales what it
// has whenever the largest score of a query so far rises. Tiles are taken in the order
// of the keys.
#include "attention.cuh"

typedef INDEX Index; // of an element of queries, keys and values

// The scores of a tile: 64 queries and keys. A thread has 4 rows of 8, and 8 lanes share
// a row.
typedef Tile<1, 2, 4, 1, 16> Scores;

// score computes the scores of a tile. Those of keys that a query does not see are -∞.
// Those of a stage before that are written to shown, unless it is null.
static __device__ __forceinline__ void score(Sums<Scores, C> &sums, const Attention &s, const Part &own, const Keys &keys, const Masks &masks, int key, T *shown) {
	Unplanned plan;
	Matrix<T, Index, Scores::m, Scores::k, Scores::threads> left;
	Matrix<T, Index, Scores::n, Scores::k, Scores::threads> right;
	left.begin(own.q, s.q.position, 1, own.query, s.queries, 0, s.size);
	right.begin(own.k, s.k.position, 1, key, s.keys, 0, s.size);
	sums.clear();
	product(sums, plan, left, right, 0, s.size);
	bool changes = shown || edits(s, masks);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int row = own.query + Scores::row() + i;
		Seen range(s, keys, row);
#pragma unroll
		for (int j = 0; j < 8; j++) {
			int column = key + Scores::column() + j / 4 * 32 + j % 4;
			bool real = row < s.queries && column < s.keys, seen = real && column >= range.from && column < range.to;
			C x = (C)s.scale * sums.v[i][j];
			if (changes) sums.v[i][j] = edited(s, masks, own.batch, own.head, shown, x, row, column, real, seen);
			else sums.v[i][j] = seen ? x : lowest<C>();
		}
	}
}

// row combines the values of the lanes that share a row.
template <class F> static __device__ __forceinline__ C row(C v, F f) {
#pragma unroll
	for (int d = 1; d < 8; d *= 2) {
		C other = exchange(v, d); // all lanes at the same place
		v = threadIdx.x & d ? f(other, v) : f(v, other);
	}
	return v;
}

// attend has Q fours of columns of y in each thread.
template <int Q, int K> static __device__ __forceinline__ void attend(T *y, const T *q, const T *k, const T *v, const Masks &masks, T *shown, const void *numbers, const Attention &s, const Faults &faults) {
	typedef Tile<1, Q, 4, 1, K> Values;
	__shared__ Aligned<Scores::n * (Scores::m + 4)> weights; // by key
	__shared__ Aligned<K * (Values::n + 4)> stage[2];        // values
	Part own(s, q, k, v, Values::n);
	Keys keys(s, numbers, own.batch, faults);
	bool shows = shown && blockIdx.y == 0;
	T *scores = shows ? shown + ((i64)own.batch * s.heads + own.head) * s.queries * s.keys : nullptr;
	T *early = s.stage < 3 ? scores : nullptr;
	int from = Seen(s, keys, own.query).from / Scores::n * Scores::n, to = Seen(s, keys, own.query + own.rows - 1).to;
	int valued = to; // values behind are not looked at: there may be none yet
	if (early) from = 0, to = s.keys;
	Sums<Values, C> sums;
	sums.clear();
	C high[4], total[4];
#pragma unroll
	for (int i = 0; i < 4; i++) high[i] = lowest<C>(), total[i] = 0;
	int passes = shows && s.stage == 3 ? 2 : 1; // the second one writes the weights
	for (int pass = 0; pass < passes; pass++) {
		if (pass) from = 0, to = s.keys;
		for (int key = from; key < to; key += Scores::n) {
			Sums<Scores, C> tile;
			score(tile, s, own, keys, masks, key, early);
#pragma unroll
			for (int i = 0; i < 4; i++) {
				C most = high[i];
				if (!pass) {
#pragma unroll
					for (int j = 0; j < 8; j++) most = Larger()(tile.v[i][j], most);
					most = row(most, Larger());
				}
				bool none = most == lowest<C>();
#pragma unroll
				for (int j = 0; j < 8; j++) tile.v[i][j] = none ? (C)0 : exp_of(tile.v[i][j] - most);
				if (pass) {
					int query = own.query + Scores::row() + i;
#pragma unroll
					for (int j = 0; j < 8; j++) {
						int column = key + Scores::column() + j / 4 * 32 + j % 4;
						if (query < s.queries && column < s.keys) store(scores + ((i64)query * s.keys + column), tile.v[i][j] * total[i]);
					}
					continue;
				}
				C less = none ? (C)1 : exp_of(high[i] - most);
				high[i] = most;
				total[i] *= less;
#pragma unroll
				for (int j = 0; j < 4 * Q; j++) sums.v[i][j] *= less;
#pragma unroll
				for (int j = 0; j < 8; j++) total[i] += tile.v[i][j];
			}
			if (pass) continue;
#pragma unroll
			for (int j = 0; j < 8; j++) {
				Quad<C> p;
#pragma unroll
				for (int i = 0; i < 4; i++) p.v[i] = tile.v[i][j];
				*(Quad<C> *)(weights.v + (Scores::column() + j / 4 * 32 + j % 4) * (Scores::m + 4) + Scores::row()) = p;
			}
			Matrix<T, Index, Values::n, K, Values::threads> right;
			T next[Values::n * K / Values::threads];
			int end = min(key + Scores::n, valued), deep = (end - key + K - 1) / K;
			right.begin(own.v, 1, s.v.position, own.column, s.valueSize, key, end);
			right.fetch(next, 0);
			right.put(stage[0].v, next);
			__syncthreads();
			for (int t = 0; t < deep; t++) {
				if (t + 1 < deep) right.fetch(next, 0);
				sums.add(weights.v + t * K * (Scores::m + 4), stage[t & 1].v);
				if (t + 1 < deep) right.put(stage[(t + 1) & 1].v, next);
				__syncthreads();
			}
		}
		if (pass) return;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			total[i] = row(total[i], Plus());
			total[i] = share(s, masks, own.head, high[i], total[i]);
		}
		T *out = y + (own.batch * s.y.batch + own.head * s.y.head);
		sums.each([&](int r, int c, int, const C *four) {
			int column = own.column + c, query = own.query + r;
			if (query >= s.queries) return;
			C f = total[0]; // of row r
#pragma unroll
			for (int i = 1; i < 4; i++) f = (r & 3) == i ? total[i] : f;
			T *at = out + (query * s.y.position + column);
			Quad<T> p;
#pragma unroll
			for (int i = 0; i < 4; i++) store(&p.v[i], four[i] * f);
			if (s.wide && column + 4 <= s.valueSize) {
				*(Quad<T> *)at = p;
				return;
			}
#pragma unroll
			for (int i = 0; i < 4; i++)
				if (column + i < s.valueSize) at[i] = p.v[i];
		});
	}
}

#define PARAMS (T *y, const T *q, const T *k, const T *v, const __grid_constant__ Masks masks, T *shown, const void *numbers, const __grid_constant__ Attention s, Faults faults)
KERNEL_FOR(128, 3, attend64, PARAMS) { attend<2, 16>(y, q, k, v, masks, shown, numbers, s, faults); }
KERNEL_FOR(128, 2, attend128, PARAMS) { attend<4, 8>(y, q, k, v, masks, shown, numbers, s, faults); }
