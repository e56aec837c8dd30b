// What the kernels of attention share: the node, the keys that a query sees, and how a
// score is masked.
#pragma once
#include "heads.cuh"
#include "product.cuh"
#include "rows.cuh"
#include "activation.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Aligned is shared memory that four neighbours are moved in at once.
template <int N> struct alignas(16) Aligned { C v[N]; };

// What a mask holds: nothing; truth; the number of keys of an element of the batch; numbers above 0
// for keys that are seen; the ends of the keys of the elements of the batch, and then their
// starts, maskSteps[0] elements behind.
enum Mask { no_mask, seen, lengths, marked, spans };

// Which later keys than its own a query sees: all; none; none, but the last query sees all.
enum Causal { sees_later, own_is_last, last_sees_all };

// What the numbers of keys of the elements of a batch are: there are none, i64 numbers, or
// pairs of the int numbers of past and of all keys, which have been checked.
enum Numbers { no_numbers, totals, counted };

// The scores without a value, which take part in the softmax.
enum Sinks { no_sinks, zero_sinks, sink_of_head };

struct Attention {
	Heads q, k, v, y;
	int heads, shared; // of queries; of them, for each head of keys and values
	int queries, keys, size, valueSize;
	int past;   // keys before that of the first query
	int causal, left, right;
	int window; // keys up to the last one that a query sees; 0: all
	int mask, maskWidth; // keys behind the width are masked
	int stage;  // of the scores that are shown
	int wide;   // four columns of y lie at a multiple of their size
	int numbers, sinks;
	int filters; // filter is added to the scores of masked keys, which else do not count
	float filter, scale, cap;
	i64 maskSteps[3], addedSteps[3]; // by batch, head and query
};

// Masks are what changes scores; each may be null.
struct Masks {
	const T *added;   // to the scores
	const void *mask;
	const T *sinks;
};

// Keys are those of an element of the batch: the number of all, and of those before that
// of the first query.
struct Keys {
	int all, before;
	__device__ Keys(const Attention &s, const void *numbers, int batch, const Faults &faults) {
		all = s.keys, before = s.past;
		if (s.numbers == totals) {
			i64 n = ((const i64 *)numbers)[batch];
			if (n < 0 || n > s.keys) {
				faults.report(batch);
				n = 0;
			}
			all = (int)n, before = all - s.queries;
		} else if (s.numbers == counted) {
			before = ((const int *)numbers)[2 * batch], all = ((const int *)numbers)[2 * batch + 1];
		}
	}
};

// Seen is the range of keys that a query sees.
struct Seen {
	int from, to;
	__device__ Seen(const Attention &s, const Keys &keys, int query) {
		from = 0, to = min(keys.all, s.maskWidth);
		int end = query + keys.before + 1; // of the keys up to its own
		if (s.causal == own_is_last || s.causal == last_sees_all && query < s.queries - 1) to = min(to, end);
		if (s.right >= 0) to = min(to, end + s.right);
		if (s.left >= 0) from = max(from, end - 1 - s.left);
		if (s.window) from = max(from, to - s.window);
	}
};

// masked is a score after the mask of its key.
static __device__ __forceinline__ C masked(const Attention &s, const Masks &m, C score, int batch, int head, int query, int key) {
	if (m.added) score += load(m.added + (batch * s.addedSteps[0] + head * s.addedSteps[1] + query * s.addedSteps[2] + key));
	i64 at = batch * s.maskSteps[0] + head * s.maskSteps[1] + query * s.maskSteps[2] + key;
	bool out = false;
	switch (s.mask) {
	case seen: out = !load((const bool *)m.mask + at); break;
	case lengths: out = key >= ((const int *)m.mask)[batch]; break;
	case marked: out = ((const int *)m.mask)[at] <= 0; break;
	case spans: out = key >= ((const int *)m.mask)[batch] || key < ((const int *)m.mask)[s.maskSteps[0] + batch];
	}
	return !out ? score : s.filters ? score + s.filter : lowest<C>();
}

// edits reports whether scores are capped or masked by more than their place.
static __device__ __forceinline__ bool edits(const Attention &s, const Masks &m) {
	return s.cap != 0 || s.mask != no_mask || m.added;
}

// edited is a score after its cap and mask, -∞ unless the query sees the key. A stage of
// it is written to shown, which may be null. It is a function of its own, since it is seldom
// called and a thread has many scores.
static __device__ __noinline__ C edited(const Attention &s, const Masks &m, int batch, int head, T *shown, C x, int query, int key, bool real, bool seen) {
	bool shows = real && shown;
	shown += (i64)query * s.keys + key;
	if (shows && s.stage == 0) store(shown, x);
	if (s.cap != 0) x = (C)s.cap * Tanh(x / (C)s.cap);
	if (shows && s.stage == 1) store(shown, x);
	x = seen ? masked(s, m, x, batch, head, query, key) : lowest<C>();
	if (shows && s.stage == 2) store(shown, x);
	return x;
}

// share is what the sum of the values of a query, weighted by exp(score - high), is
// multiplied by; total is the sum of the weights.
static __device__ __forceinline__ C share(const Attention &s, const Masks &m, int head, C high, C total) {
	if (s.sinks != no_sinks && high != lowest<C>()) total += exp_of((s.sinks == sink_of_head ? load(m.sinks + head) : (C)0) - high);
	return total == 0 ? (C)0 : 1 / total;
}

// Part is a block's part of the work: 64 queries of a head, and some columns of the values.
constexpr int part_queries = 64;
struct Part {
	int batch, head, query, column, rows;
	const T *q, *k, *v;
	__device__ Part(const Attention &s, const T *q, const T *k, const T *v, int columns) {
		u32 high = (s.queries + part_queries - 1) / part_queries, block = blockIdx.x / high;
		query = (high - 1 - blockIdx.x % high) * part_queries; // the later ones may see more keys: they come first
		batch = block / s.heads, head = block % s.heads, column = blockIdx.y * columns;
		rows = min(part_queries, s.queries - query);
		int kv = head / s.shared;
		this->q = q + batch * s.q.batch + head * s.q.head;
		this->k = k + batch * s.k.batch + kv * s.k.head;
		this->v = v + batch * s.v.batch + kv * s.v.head;
	}
};
