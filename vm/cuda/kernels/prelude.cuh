// What every kernel file begins with: the names of types, and how elements are loaded
// and stored. Kernels compute in the type that Compute gives: float for the 16-bit
// types, else the element type itself.
#pragma once

#ifndef CUDA_ON_CPU
#define KERNEL(name, params) extern "C" __global__ void name params
#define DYNAMIC_SHARED(T, name) extern __shared__ T name[]
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

struct f16 { u16 bits; };  // IEEE 754 binary16
struct bf16 { u16 bits; }; // the upper half of a float

// ---- 16-bit reals. NVRTC comes without cuda_fp16.h.

static __device__ __forceinline__ float widen(f16 x) {
#ifdef CUDA_ON_CPU
	return fake_half_to_float(x.bits);
#else
	float y;
	asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
	return y;
#endif
}
static __device__ __forceinline__ f16 narrow_f16(float x) {
	f16 y;
#ifdef CUDA_ON_CPU
	y.bits = fake_float_to_half(x);
#else
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#endif
	return y;
}
static __device__ __forceinline__ float widen(bf16 x) { return __int_as_float((int)((u32)x.bits << 16)); }
// Rounds to nearest even; a NaN stays one.
static __device__ __forceinline__ bf16 narrow_bf16(float x) {
	u32 b = (u32)__float_as_int(x);
	bf16 y;
	y.bits = (u16)((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
	return y;
}

// ---- Elements

template <class T> struct ComputeOf { typedef T type; };
template <> struct ComputeOf<f16> { typedef float type; };
template <> struct ComputeOf<bf16> { typedef float type; };
template <class T> using Compute = typename ComputeOf<T>::type;

template <class T> static __device__ __forceinline__ T load(const T *p) { return *p; }
static __device__ __forceinline__ float load(const f16 *p) { return widen(*p); }
static __device__ __forceinline__ float load(const bf16 *p) { return widen(*p); }
// Every byte but 0 is true.
static __device__ __forceinline__ bool load(const bool *p) { return *(const u8 *)p != 0; }
template <class T> static __device__ __forceinline__ void store(T *p, T x) { *p = x; }
static __device__ __forceinline__ void store(f16 *p, float x) { *p = narrow_f16(x); }
static __device__ __forceinline__ void store(bf16 *p, float x) { *p = narrow_bf16(x); }
