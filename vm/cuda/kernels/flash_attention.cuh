// Attention that keeps no scores, and its gradient, tile by tile of 64 queries and 64 keys
// (Dao 2023, FlashAttention-2). The gradient of queries takes the tiles of its queries, that of
// keys and values those of its keys: each computes the scores itself, so that every sum has one
// owner and a fixed order.
//
// A program is compiled for the dtype of what is added to the scores (BIAS), for COLUMNS of its
// results in a block, and with BIASED and MASKED where that, and what is kept, is not one for all.
#pragma once
#include "scores.cuh"

struct Flash {
	int heads, shared; // of queries; of them, for each head of keys and values
	int queries, keys, size, valueSize;
	int safe; // weights that are NaN are 0
	int unused;
	float scale, fill;
	i64 biasSteps[4], keepSteps[4]; // by batch, head, query and key
};

// Edits change the scores of a head.
struct Edits {
	const Flash &s;
	const BIAS *bias;
	const u8 *keep;
	C one;    // is added to all scores
	bool all; // scores are kept
	__device__ Edits(const Flash &s, const BIAS *bias, const u8 *keep, int batch, int head) : s(s) {
		one = load(bias), all = *keep != 0;
		this->bias = bias + (batch * s.biasSteps[0] + head * s.biasSteps[1]);
		this->keep = keep + (batch * s.keepSteps[0] + head * s.keepSteps[1]);
	}
	__device__ __forceinline__ C added(int query, int key) const {
#ifdef BIASED
		return load(bias + (query * s.biasSteps[2] + key * (int)s.biasSteps[3]));
#else
		return one;
#endif
	}
	__device__ __forceinline__ bool keeps(int query, int key) const {
#ifdef MASKED
		return keep[query * s.keepSteps[2] + key * (int)s.keepSteps[3]] != 0;
#else
		return all;
#endif
	}
	__device__ __forceinline__ bool real(int query, int key) const { return query < s.queries && key < s.keys; }
	// score is that of a product of a query and a key; -∞ of those that are not there.
	__device__ __forceinline__ C score(C product, int query, int key) const {
		if (!real(query, key)) return lowest<C>();
		return keeps(query, key) ? (C)s.scale * product + added(query, key) : (C)s.fill;
	}
	// sees reports whether a score may have a weight beside another one of its query. Masks are
	// numbers of -1e30 and below, beside which no score matters.
	__device__ __forceinline__ bool sees(int query, int key, C beside) const {
		if (!real(query, key)) return false;
		if (!keeps(query, key)) return !((C)s.fill - beside < -105); // whose exponential is 0
#ifdef BIASED
		return !(added(query, key) <= (C)-1e30 && beside > (C)-1e29);
#else
		return true;
#endif
	}
};
#if defined(BIASED) || defined(MASKED)
#define HIDES // there may be keys that a query does not see
#endif

// weight is that of a score, from the largest one of its query and 1 over the sum.
static __device__ __forceinline__ C weight(const Flash &s, C score, C most, C part) {
	C w = exp_of(score - most) * part;
	return s.safe && w != w ? (C)0 : w;
}

// Block is what a block works on: 64 queries, or keys, of a head, and some columns of results.
struct Block {
	int batch, head, first, left;
	__device__ Block(int heads, int length, int columns, bool backward) {
		u32 high = (length + tile_size - 1) / tile_size, line = blockIdx.x / high, at = blockIdx.x % high;
		first = (backward ? high - 1 - at : at) * tile_size;
		batch = line / heads, head = line % heads, left = blockIdx.y * columns;
	}
};

// Sides are the matrices of a head.
struct Sides {
	const Flash &s;
	const T *q, *k, *v, *d;
	__device__ Sides(const Flash &s, const T *q, const T *k, const T *v, const T *d, int batch, int head) : s(s) {
		i64 line = (i64)batch * s.heads + head, group = (i64)batch * (s.heads / s.shared) + head / s.shared;
		this->q = q + line * s.queries * s.size;
		this->k = k + group * s.size * s.keys;
		this->v = v + group * s.keys * s.valueSize;
		this->d = d ? d + line * s.queries * s.valueSize : nullptr;
	}
	// For products over the size of a head, and of values.
	__device__ __forceinline__ Side queries() const { return {q, s.size, 1, s.queries}; }
	__device__ __forceinline__ Side keys() const { return {k, 1, s.keys, s.keys}; }
	__device__ __forceinline__ Side values() const { return {v, s.valueSize, 1, s.keys}; }
	__device__ __forceinline__ Side slopes() const { return {d, s.valueSize, 1, s.queries}; }
	// For sums over keys, and over queries.
	__device__ __forceinline__ Side across_keys() const { return {k, s.keys, 1, s.size}; }
	__device__ __forceinline__ Side across_values() const { return {v, 1, s.valueSize, s.valueSize}; }
	__device__ __forceinline__ Side across_queries() const { return {q, 1, s.size, s.size}; }
	__device__ __forceinline__ Side across_slopes() const { return {d, 1, s.valueSize, s.valueSize}; }
};
