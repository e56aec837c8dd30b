// Attention of few queries, as in a step of a decoder: the work is to read keys and values.
// The keys of a head are split among blocks. Each has ROWS of the queries that share the
// head, and leaves for each the largest score, the sum of the weights, and the weighted sum
// of the values; a second launch puts them together, in the order of the keys.
#include "attention.cuh"

constexpr int threads = 128;
constexpr int lanes = 8;               // that compute the score of a key together
constexpr int groups = threads / lanes;
constexpr int each = 4;                // keys of a group at once
constexpr int tile = groups * each;    // keys
constexpr int columns = 128;           // of the values, of a block

// Splits is how the work is divided.
struct Splits {
	int count; // of the keys of a head
	int tiles; // of the queries that share a head
	int depth; // the size of a query, up to a multiple of 4 · lanes
	int _;
	i64 beyond; // parts of values, behind which are the largest scores and the sums
};

// Row is a query among those that share a head of keys.
struct Row {
	int head, query;
	__device__ Row(const Attention &s, int kv, int row) { head = kv * s.shared + row / s.queries, query = row % s.queries; }
	__device__ int number(const Attention &s, int batch) const { return (batch * s.heads + head) * s.queries + query; }
};

// four loads neighbours from a line of size elements; those behind it are 0. At once, if
// whole.
static __device__ __forceinline__ Quad<C> four(const T *line, int at, int size, bool whole) {
	Quad<T> p;
	if (whole) {
		p = *(const Quad<T> *)(line + at);
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++) p.v[i] = at + i < size ? line[at + i] : T{};
	}
	Quad<C> q;
#pragma unroll
	for (int i = 0; i < 4; i++) q.v[i] = load(&p.v[i]);
	return q;
}

// whole reports whether all fours of lines that begin step elements apart lie at multiples
// of their size.
static __device__ __forceinline__ bool whole(const T *lines, i64 step, int size) {
	return (u64)lines % alignof(Quad<T>) == 0 && ((step | size) & 3) == 0;
}

// in_warp combines the values of the lanes of a warp, in a fixed order.
template <class F> static __device__ __forceinline__ C in_warp(C v, F f) {
#pragma unroll
	for (int d = 1; d < 32; d *= 2) {
		C other = exchange(v, d);
		v = threadIdx.x & d ? f(other, v) : f(v, other);
	}
	return v;
}

// y has what parts is for if there is one split. Else parts has size of the values for each
// query and split, and then for each the largest score and the sum of the weights.
KERNEL_FOR(128, 3, decode, (T *y, C *parts, const T *q, const T *k, const T *v, const __grid_constant__ Masks masks, const void *numbers, const __grid_constant__ Attention s, Splits p, Faults faults)) {
	DYNAMIC_SHARED(Quad<C>, queries);
	__shared__ Aligned<tile * ROWS> weights; // and before, scores, by key
	__shared__ C less[ROWS], highest[ROWS], sums[ROWS];
	__shared__ Quad<C> stage[ROWS * threads];
	int block = blockIdx.x, split = block % p.count;
	block /= p.count;
	int first = block % p.tiles * ROWS;
	block /= p.tiles;
	int kvHeads = s.heads / s.shared, kv = block % kvHeads, batch = block / kvHeads;
	int rows = min(ROWS, s.shared * s.queries - first), column = blockIdx.y * columns;
	Keys keys(s, numbers, batch, faults);
	int from = keys.all, to = 0;
	for (int r = 0; r < rows; r++) {
		Seen range(s, keys, Row(s, kv, first + r).query);
		from = min(from, range.from), to = max(to, range.to);
	}
	int own = max(1, (max(0, to - from) + p.count * tile - 1) / (p.count * tile)) * tile; // keys of a split
	from += split * own, to = min(to, from + own);
	for (int e = threadIdx.x; e < ROWS * p.depth; e += threads) {
		int r = e / p.depth, d = e % p.depth;
		Row row(s, kv, first + r);
		((C *)queries)[e] = r < rows && d < s.size ? load(q + (batch * s.q.batch + row.head * s.q.head + row.query * s.q.position + d)) : (C)0;
	}
	k += batch * s.k.batch + kv * s.k.head;
	v += batch * s.v.batch + kv * s.v.head + column;
	int width = min(columns, s.valueSize - column), across = 1; // threads for a line of values
	while (4 * across < width) across *= 2;
	int place = threadIdx.x % across * 4, team = threadIdx.x / across, teams = threads / across;
	bool wholeKeys = whole(k, s.k.position, s.size), wholeValues = whole(v, s.v.position, width);
	Quad<C> values[ROWS];
	C high[(ROWS + 3) / 4], total[(ROWS + 3) / 4]; // of the rows of this warp
#pragma unroll
	for (int r = 0; r < ROWS; r++)
#pragma unroll
		for (int i = 0; i < 4; i++) values[r].v[i] = 0;
#pragma unroll
	for (int i = 0; i < (ROWS + 3) / 4; i++) high[i] = lowest<C>(), total[i] = 0;
	__syncthreads();
	for (int key = from; key < to; key += tile) {
		int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
		C dot[ROWS][each];
#pragma unroll
		for (int r = 0; r < ROWS; r++)
#pragma unroll
			for (int j = 0; j < each; j++) dot[r][j] = 0;
		for (int d = 4 * lane; d < s.size; d += 4 * lanes) {
			Quad<C> x[each];
#pragma unroll
			for (int j = 0; j < each; j++) {
				int at = min(key + group + j * groups, to - 1); // one behind is not used
				x[j] = four(k + at * s.k.position, d, s.size, wholeKeys);
			}
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				Quad<C> a = queries[(r * p.depth + d) / 4];
#pragma unroll
				for (int j = 0; j < each; j++)
#pragma unroll
					for (int i = 0; i < 4; i++) dot[r][j] = multiply_add(a.v[i], x[j].v[i], dot[r][j]);
			}
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++)
#pragma unroll
			for (int j = 0; j < each; j++) {
				C sum = dot[r][j];
#pragma unroll
				for (int d = 1; d < lanes; d *= 2) {
					C other = exchange(sum, d);
					sum = threadIdx.x & d ? other + sum : sum + other;
				}
				if (lane == (r * each + j) % lanes) weights.v[(group + j * groups) * ROWS + r] = (C)s.scale * sum;
			}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < (ROWS + 3) / 4; i++) {
			int r = threadIdx.x / 32 + 4 * i;
			if (r >= ROWS) break;
			Row row(s, kv, first + r);
			Seen range(s, keys, row.query);
			C most = high[i], x[tile / 32];
#pragma unroll
			for (int j = 0; j < tile / 32; j++) {
				int place = threadIdx.x % 32 + 32 * j, at = key + place;
				bool seen = r < rows && at < to && at >= range.from && at < range.to;
				x[j] = weights.v[place * ROWS + r];
				if (seen && edits(s, masks)) x[j] = edited(s, masks, batch, row.head, (T *)nullptr, x[j], row.query, at, true, true);
				if (!seen) x[j] = lowest<C>();
				most = Larger()(x[j], most);
			}
			most = in_warp(most, Larger());
			bool none = most == lowest<C>();
			C factor = none ? (C)1 : exp_of(high[i] - most);
			high[i] = most;
			total[i] *= factor;
#pragma unroll
			for (int j = 0; j < tile / 32; j++) {
				C w = none ? (C)0 : exp_of(x[j] - most);
				weights.v[(threadIdx.x % 32 + 32 * j) * ROWS + r] = w;
				total[i] += w;
			}
			if (threadIdx.x % 32 == 0) less[r] = factor;
		}
		__syncthreads();
#pragma unroll
		for (int r = 0; r < ROWS; r++)
#pragma unroll
			for (int i = 0; i < 4; i++) values[r].v[i] *= less[r];
		int here = place < width ? min(tile, to - key) : 0;
#pragma unroll 4
		for (int at = team; at < here; at += teams) {
			Quad<C> x = four(v + (key + at) * s.v.position, place, width, wholeValues);
#pragma unroll
			for (int r = 0; r < ROWS; r++)
#pragma unroll
				for (int i = 0; i < 4; i++) values[r].v[i] = multiply_add(weights.v[at * ROWS + r], x.v[i], values[r].v[i]);
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < (ROWS + 3) / 4; i++) {
		int r = threadIdx.x / 32 + 4 * i;
		if (r >= ROWS) break;
		total[i] = in_warp(total[i], Plus());
		if (threadIdx.x % 32 == 0) highest[r] = high[i], sums[r] = total[i];
	}
#pragma unroll
	for (int r = 0; r < ROWS; r++) stage[r * threads + threadIdx.x] = values[r];
	__syncthreads();
	for (int e = threadIdx.x; e < rows * across; e += threads) {
		int r = e / across, place = e % across;
		Quad<C> sum = stage[r * threads + place];
		for (int t = 1; t < teams; t++)
#pragma unroll
			for (int i = 0; i < 4; i++) sum.v[i] += stage[r * threads + t * across + place].v[i];
		Row row(s, kv, first + r);
		i64 number = row.number(s, batch);
		C f = p.count == 1 ? share(s, masks, row.head, highest[r], sums[r]) : (C)1;
		for (int i = 0; i < 4 && 4 * place + i < width; i++) {
			i64 at = column + 4 * place + i;
			if (p.count == 1) store(y + (batch * s.y.batch + row.head * s.y.head + row.query * s.y.position + at), sum.v[i] * f);
			else parts[(number * p.count + split) * s.valueSize + at] = sum.v[i];
		}
		if (p.count > 1 && place == 0 && column == 0) {
			C *of = parts + p.beyond + 2 * (number * p.count + split);
			of[0] = highest[r], of[1] = sums[r];
		}
	}
}

// combine has a block for each query. parts has what decode leaves of each of some splits.
KERNEL_FOR(128, 8, combine, (T *y, const C *parts, const __grid_constant__ Masks masks, const __grid_constant__ Attention s, Splits p)) {
	i64 number = blockIdx.x;
	int query = blockIdx.x % s.queries, head = blockIdx.x / s.queries % s.heads, batch = blockIdx.x / s.queries / s.heads;
	const C *of = parts + p.beyond + 2 * number * p.count;
	C high = lowest<C>(), total = 0;
	for (int i = 0; i < p.count; i++) high = Larger()(of[2 * i], high);
	C most = high == lowest<C>() ? (C)0 : high;
	for (int i = 0; i < p.count; i++) total += of[2 * i + 1] * exp_of(of[2 * i] - most);
	C f = share(s, masks, head, high, total);
	parts += number * p.count * s.valueSize;
	y += batch * s.y.batch + head * s.y.head + query * s.y.position;
	for (int c = threadIdx.x; c < s.valueSize; c += threads) {
		C sum = 0;
		for (int i = 0; i < p.count; i++) sum += parts[i * s.valueSize + c] * exp_of(of[2 * i] - most);
		store(y + c, sum * f);
	}
}
