// One function for each elementwise operator, on elements in the type that kernels
// compute in. The kernels that call them are generated.
#pragma once
#include "prelude.cuh"

template <class T, int N> struct Numbers { T v[N]; };

template <class T> static __device__ __forceinline__ T Add(T a, T b) { return (T)(a + b); }
template <class T> static __device__ __forceinline__ T Sub(T a, T b) { return (T)(a - b); }
template <class T> static __device__ __forceinline__ T Mul(T a, T b) { return (T)(a * b); }
// The quotient of integers is cut towards 0, and is 0 where the divisor is 0.
template <class T> static __device__ __forceinline__ T Div(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }
static __device__ __forceinline__ float Div(float a, float b) { return a / b; }
static __device__ __forceinline__ double Div(double a, double b) { return a / b; }

template <class T> static __device__ __forceinline__ T Relu(T a) { return a > 0 ? a : a != a ? a : (T)0; }
static __device__ __forceinline__ float Sigmoid(float a) { return 1.0f / (1.0f + expf(-a)); }
static __device__ __forceinline__ double Sigmoid(double a) { return 1.0 / (1.0 + exp(-a)); }
