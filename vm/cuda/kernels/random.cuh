// Random numbers by counting: number i of a sequence depends on the seed and on i alone
// (SplitMix64, Steele et al. 2014).
#pragma once
#include "arithmetic.cuh"

// Kept reports whether number i of a sequence in [0, 1), of 53 bits, is at least a ratio.
PER_ELEMENT bool Kept(u64 seed, u64 i, double ratio) {
	u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	u64 least = ratio <= 0 ? 0 : ratio < 1 ? (u64)ceil(ratio * 0x1p53) : 1ull << 53; // NaN keeps nothing
	return (z ^ z >> 31) >> 11 >= least;
}

// Dropped is a if it is kept, scaled by what the ratio leaves, or 0.
template <class T> PER_ELEMENT T Dropped(T a, bool kept, double ratio) {
	T scale = ratio < 1 ? (T)(1 / (1 - ratio)) : (T)1;
	return kept ? a * scale : (T)0;
}
