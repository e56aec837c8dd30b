// The activation functions of neural networks, in float or double.
#pragma once
#include "arithmetic.cuh"

template <class T> PER_ELEMENT T Relu(T a) { return a > 0 || a != a ? a : (T)0; }
template <class T> PER_ELEMENT T Sigmoid(T a) { return 1 / (1 + Exp(-a)); }
template <class T> PER_ELEMENT T Softplus(T a) { return Max(a, (T)0) + Log1p(Exp(-Abs(a))); } // without overflow
template <class T> PER_ELEMENT T Softsign(T a) { return a / (1 + Abs(a)); }
template <class T> PER_ELEMENT T Mish(T a) { return a * Tanh(Softplus(a)); }
template <class T> PER_ELEMENT T LeakyRelu(T a, T alpha) { return a < 0 ? alpha * a : a; }
template <class T> PER_ELEMENT T ThresholdedRelu(T a, T alpha) { return a > alpha ? a : (T)0; }
template <class T> PER_ELEMENT T Elu(T a, T alpha) { return a < 0 ? alpha * Expm1(a) : a; }
template <class T> PER_ELEMENT T Celu(T a, T alpha) { return Max((T)0, a) + Min((T)0, alpha * Expm1(a / alpha)); }
template <class T> PER_ELEMENT T Selu(T a, T alpha, T gamma) { return a <= 0 ? gamma * alpha * Expm1(a) : gamma * a; }
template <class T> PER_ELEMENT T Swish(T a, T alpha) { return a / (1 + Exp(-(alpha * a))); }
template <class T> PER_ELEMENT T HardSigmoid(T a, T alpha, T beta) { return Max((T)0, Min((T)1, alpha * a + beta)); }
template <class T> PER_ELEMENT T HardSwish(T a) { return a * HardSigmoid(a, (T)(1.0 / 6), (T)0.5); }
// 1 + erf(x) = erfc(-x), which keeps its digits where erf is near -1.
template <class T> PER_ELEMENT T Gelu(T a) { return (T)0.5 * a * Erfc(a * (T)-0.70710678118654752); }
template <class T> PER_ELEMENT T GeluTanh(T a) { return (T)0.5 * a * (1 + Tanh((T)0.79788456080286536 * (a + (T)0.044715 * a * a * a))); }
template <class T> PER_ELEMENT T PRelu(T a, T slope) { return a < 0 ? Mul(slope, a) : a; }

template <class T> PER_ELEMENT T Shrink(T a, T lambda, T bias) { return a < -lambda ? a + bias : a > lambda ? a - bias : (T)0; }
template <class T> PER_ELEMENT T ShrinkInteger(T a, double lambda, double bias) { return (T)signed_of(Shrink((double)a, lambda, bias)); }
