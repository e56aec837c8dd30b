// The activation functions of neural networks.
#pragma once
#include "arithmetic.cuh"

template <class T> PER_ELEMENT T Relu(T a) { return a > 0 || a != a ? a : (T)0; }
template <class T> PER_ELEMENT T Sigmoid(T a) { return 1 / (1 + Exp(-a)); }
