// Tensors of 8-bit integers that stand for reals.
#pragma once
#include "convert.cuh"

// Quantity is where the scale and the zero point of a tensor are. zero may be null.
template <class Q> struct Quantity {
	const float *scale;
	const Q *zero;
	__device__ __forceinline__ Q point() const { return zero ? *zero : (Q)0; }
};
