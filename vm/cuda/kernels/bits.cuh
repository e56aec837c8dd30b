// Numbers of 2, 4 or 8 bits, the first in the lowest bits of a word, and their zero points.
#pragma once
#include "prelude.cuh"

// Bits are the numbers of a word. at(e) is 2^23 plus number e: the number is put among the
// lowest bits of a float, which takes fewer instructions than a conversion.
template <int B> struct Bits {
	static constexpr int count = 32 / B;
	u32 part[8 / B]; // part p has numbers p, p + 8/B, ... as bytes
	__device__ __forceinline__ explicit Bits(u32 word) {
#pragma unroll
		for (int p = 0; p < 8 / B; p++) part[p] = word >> p * B & 0x01010101u * ((1u << B) - 1);
	}
	__device__ __forceinline__ float at(int e) const {
		return __int_as_float((int)__byte_perm(part[e % (8 / B)], 0x4b000000u, 0x7440u | e / (8 / B)));
	}
};

// Zeros finds the zero point of a block: number of B bits, of which each row begins with a
// byte, the middle of the numbers if there are none, or a real number. less subtracts it
// from 2^23 plus a number.
template <class Z, int B> struct Zeros {
	static __device__ __forceinline__ Z read(const Z *z, i64 row, int blocks, int block) { return z[row * blocks + block]; }
	static __device__ __forceinline__ float of(Z z, int) { return load(&z); }
	static __device__ __forceinline__ float less(float v, float zero) { return (v - 0x1p23f) - zero; }
};
template <int B> struct Zeros<u8, B> {
	static __device__ __forceinline__ u8 read(const u8 *z, i64 row, int blocks, int block) {
		if (!z) return (u8)((1 << (B - 1)) * (B == 8 ? 1 : B == 4 ? 0x11 : 0x55));
		return z[row * ((blocks * B + 7) / 8) + block / (8 / B)];
	}
	static __device__ __forceinline__ float of(u8 z, int block) { return 0x1p23f + (float)(z >> block % (8 / B) * B & ((1 << B) - 1)); }
	static __device__ __forceinline__ float less(float v, float zero) { return v - zero; }
};
