// Random numbers by counting: number i of a sequence depends on the seed and on i alone
// (SplitMix64, Steele et al. 2014).
#pragma once
#include "arithmetic.cuh"

// drawn is number i of a sequence, of 53 bits.
PER_ELEMENT u64 drawn(u64 seed, u64 i) {
	u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) >> 11;
}

// Uniform is number i of a sequence in [0, 1).
PER_ELEMENT double Uniform(u64 seed, u64 i) { return (double)drawn(seed, i) * 0x1p-53; }

// Normal is number i of a normal distribution (Box & Muller 1958).
PER_ELEMENT double Normal(u64 seed, u64 i, double mean, double scale) {
	double length = sqrt(-2 * log(1 - Uniform(seed, 2 * i)));
	return mean + scale * length * cos(2 * 3.14159265358979323846 * Uniform(seed, 2 * i + 1));
}

// Kept reports whether number i of a sequence in [0, 1) is at least a ratio.
PER_ELEMENT bool Kept(u64 seed, u64 i, double ratio) {
	u64 least = ratio <= 0 ? 0 : ratio < 1 ? (u64)ceil(ratio * 0x1p53) : 1ull << 53; // NaN keeps nothing
	return drawn(seed, i) >= least;
}

// Dropped is a if it is kept, scaled by what the ratio leaves, or 0.
template <class T> PER_ELEMENT T Dropped(T a, bool kept, double ratio) {
	T scale = ratio < 1 ? (T)(1 / (1 - ratio)) : (T)1;
	return kept ? a * scale : (T)0;
}
