// Attention of 16 bits on tensor cores: as attention.cu has it, without the scores as outputs. A
// warp has 16 queries of its block's 64. Its scores become the left side of the product with
// the values as they lie in registers, as two numbers of 16 bits each: what is left of the
// weights is less than float32 sums round.
#include "attention.cuh"

typedef INDEX Index; // of an element of queries, keys and values

typedef Tensor<1, 8, 4, 1> Scores; // 64 queries and keys
static_assert(Scores::m == part_queries && Scores::n == 64, "a warp has 16 queries, and all keys of a tile");

// A thread has queries row and row + 8 of its block, and of each 8 keys two, from key on.
static __device__ __forceinline__ int row() { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4; }
static __device__ __forceinline__ int pair() { return threadIdx.x % 4 * 2; }

// score computes the scores of a tile. Those of keys that a query does not see are -∞.
static __device__ __forceinline__ void score(Sums<Scores, float> &sums, const Attention &s, const Part &own, const Keys &keys, const Masks &masks, int key) {
	Unplanned plan;
	Matrix<T, Index, Scores::m, Scores::k, Scores::threads> left;
	Matrix<T, Index, Scores::n, Scores::k, Scores::threads> right;
	left.begin(own.q, s.q.position, 1, own.query, s.queries, 0, s.size);
	right.begin(own.k, s.k.position, 1, key, s.keys, 0, s.size);
	sums.clear();
	product(sums, plan, left, right, 0, s.size);
	bool changes = edits(s, masks);
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int query = own.query + row() + 8 * h;
		Seen range(s, keys, query);
#pragma unroll
		for (int j = 0; j < 8; j++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int column = key + 8 * j + pair() + e;
				bool real = query < s.queries && column < s.keys, seen = real && column >= range.from && column < range.to;
				float &x = sums.v[0][j][2 * h + e];
				x *= s.scale;
				if (changes) x = edited(s, masks, own.batch, own.head, nullptr, x, query, column, real, seen);
				else if (!seen) x = lowest<float>();
			}
	}
}

// quad combines the values of the four lanes that share a row.
template <class F> static __device__ __forceinline__ float quad(float v, F f) {
	v = f(v, exchange(v, 1));
	return f(v, exchange(v, 2));
}

static __device__ __forceinline__ void narrow(f16 &y, float x) { y = narrow_f16(x); }
static __device__ __forceinline__ void narrow(bf16 &y, float x) { y = narrow_bf16(x); }

// split makes the 16-bit numbers of two weights, and of what those leave of them.
static __device__ __forceinline__ void split(u32 &high, u32 &low, float x, float y) {
	T a, b, c, d;
	narrow(a, x), narrow(b, y);
	narrow(c, x - widen(a)), narrow(d, y - widen(b));
	high = a.bits | (u32)b.bits << 16, low = c.bits | (u32)d.bits << 16;
}

// attend has N columns of y.
template <int N> static __device__ __forceinline__ void attend(T *y, const T *q, const T *k, const T *v, const Masks &masks, const void *numbers, const Attention &s, const Faults &faults) {
	constexpr int K = Scores::k;
	typedef Fragments<Bits<T>, N, K> Values;
	__shared__ typename Values::Side stage[2];
	Part own(s, q, k, v, N);
	Keys keys(s, numbers, own.batch, faults);
	int from = Seen(s, keys, own.query).from / Scores::n * Scores::n, to = Seen(s, keys, own.query + own.rows - 1).to;
	float sums[N / 8][4], high[2], total[2];
#pragma unroll
	for (int j = 0; j < N / 8; j++)
#pragma unroll
		for (int e = 0; e < 4; e++) sums[j][e] = 0;
#pragma unroll
	for (int h = 0; h < 2; h++) high[h] = lowest<float>(), total[h] = 0;
	for (int key = from; key < to; key += Scores::n) {
		Sums<Scores, float> tile;
		score(tile, s, own, keys, masks, key);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float most = high[h];
#pragma unroll
			for (int j = 0; j < 8; j++) most = Larger()(tile.v[0][j][2 * h + 1], Larger()(tile.v[0][j][2 * h], most));
			most = quad(most, Larger());
			bool none = most == lowest<float>();
			float less = none ? 1 : exp_of(high[h] - most);
			high[h] = most;
			total[h] *= less;
#pragma unroll
			for (int j = 0; j < N / 8; j++) sums[j][2 * h] *= less, sums[j][2 * h + 1] *= less;
#pragma unroll
			for (int j = 0; j < 8; j++)
#pragma unroll
				for (int e = 0; e < 2; e++) {
					float &x = tile.v[0][j][2 * h + e];
					x = none ? 0 : exp_of(x - most);
					total[h] += x;
				}
		}
		Matrix<T, Index, N, K, Scores::threads> right;
		T next[N * K / Scores::threads];
		right.begin(own.v, 1, s.v.position, own.column, s.valueSize, key, min(key + Scores::n, to)); // values behind are not looked at: there may be none yet
		right.fetch(next, 0);
		right.hold(stage[0].v, next);
		__syncthreads();
#pragma unroll
		for (int t = 0; t < 2; t++) {
			if (t == 0) right.fetch(next, 0);
			Values values(stage[t], 0, right.along());
#pragma unroll
			for (int step = 0; step < Scores::steps; step++) {
				u32 upper[4], lower[4], b[4];
#pragma unroll
				for (int r = 0; r < 4; r++) {
					const float *c = tile.v[0][4 * t + 2 * step + r / 2] + r % 2 * 2;
					split(upper[r], lower[r], c[0], c[1]);
				}
#pragma unroll
				for (int j = 0; j < N / 16; j++) {
					values.load(b, j, step);
#pragma unroll
					for (int i = 0; i < 2; i++) {
						mma(sums[2 * j + i], lower, b[i], b[i + 2], T());
						mma(sums[2 * j + i], upper, b[i], b[i + 2], T());
					}
				}
			}
			if (t == 0) right.hold(stage[1].v, next);
			__syncthreads();
		}
	}
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float f = share(s, masks, own.head, high[h], quad(total[h], Plus()));
		int query = own.query + row() + 8 * h;
		if (query >= s.queries) continue;
		T *out = y + (own.batch * s.y.batch + own.head * s.y.head + query * s.y.position);
#pragma unroll
		for (int j = 0; j < N / 8; j++) {
			int column = own.column + 8 * j + pair();
			T a, b;
			narrow(a, sums[j][2 * h] * f), narrow(b, sums[j][2 * h + 1] * f);
			if (s.wide && column + 2 <= s.valueSize) {
				*(u32 *)(out + column) = a.bits | (u32)b.bits << 16;
				continue;
			}
			if (column < s.valueSize) out[column] = a;
			if (column + 1 < s.valueSize) out[column + 1] = b;
		}
	}
}

#define PARAMS (T *y, const T *q, const T *k, const T *v, const __grid_constant__ Masks masks, const void *numbers, const __grid_constant__ Attention s, Faults faults)
KERNEL_FOR(128, 2, attend64, PARAMS) { attend<64>(y, q, k, v, masks, numbers, s, faults); }
KERNEL_FOR(128, 2, attend128, PARAMS) { attend<128>(y, q, k, v, masks, numbers, s, faults); }
