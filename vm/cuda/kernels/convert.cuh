// Conversions between dtypes, and operations on bits.
#pragma once
#include "arithmetic.cuh"

// short_of is signed_of for integers of at most 32 bits.
PER_ELEMENT int short_of(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int)x : (int)(1u << 31); }

// unsigned_of is signed_of for the largest integers: NaN becomes 2^63, and from 2^64 on 0.
PER_ELEMENT u64 unsigned_of(double x) { return x >= 0x1p63 ? x < 0x1p64 ? (u64)x : 0 : (u64)signed_of(x); }

// A shift by the width or more, or by a negative number, leaves nothing but the sign.
template <class T> PER_ELEMENT T ShiftLeft(T a, T n) {
	return n < 0 || (u64)n >= 8 * sizeof(T) ? (T)0 : (T)((Wrap<T>)a << (int)n);
}
template <class T> PER_ELEMENT T ShiftRight(T a, T n) {
	return n < 0 || (u64)n >= 8 * sizeof(T) ? (T)(a < 0 ? -1 : 0) : (T)(a >> (int)n);
}

// quantized is x/scale + zero in an integer type Q of 8 or 16 bits. It rounds ties to even
// and saturates; NaN becomes the least number.
template <class Q> PER_ELEMENT Q quantized(float x, float scale, Q zero) {
	const float low = is_signed<Q>() ? -(float)(1 << (8 * sizeof(Q) - 1)) : 0;
	const float high = low + (float)((1 << 8 * sizeof(Q)) - 1);
	float v = rintf(x / scale) + (float)zero;
	return (Q)(int)(v >= low ? v > high ? high : v : low);
}
template <class Q> PER_ELEMENT float dequantized(Q x, float scale, Q zero) { return ((float)x - (float)zero) * scale; }
PER_ELEMENT float dequantized(int x, float scale, int zero) { return (float)(((double)x - (double)zero) * (double)scale); }
