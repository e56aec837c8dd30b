// Arithmetic on elements, in the types that kernels compute in: float, double and
// integers. Each function has the name of its operator.
#pragma once
#include "prelude.cuh"

#define PER_ELEMENT static __device__ __forceinline__

// ---- Numbers. Integers wrap around, so they are computed in an unsigned type.

template <class T> struct WrapOf { typedef u32 type; };
template <> struct WrapOf<i64> { typedef u64 type; };
template <> struct WrapOf<u64> { typedef u64 type; };
template <> struct WrapOf<float> { typedef float type; };
template <> struct WrapOf<double> { typedef double type; };
template <class T> using Wrap = typename WrapOf<T>::type;

template <class T> PER_ELEMENT bool is_signed() { return (T)-1 < (T)0; }

template <class T> PER_ELEMENT T Add(T a, T b) { return (T)((Wrap<T>)a + (Wrap<T>)b); }
template <class T> PER_ELEMENT T Sub(T a, T b) { return (T)((Wrap<T>)a - (Wrap<T>)b); }
template <class T> PER_ELEMENT T Mul(T a, T b) { return (T)((Wrap<T>)a * (Wrap<T>)b); }
template <class T> PER_ELEMENT T Neg(T a) { return (T)-(Wrap<T>)a; }
// The quotient of integers is cut towards 0, and is 0 where the divisor is 0.
template <class T> PER_ELEMENT T Div(T a, T b) {
	if (b == 0) return 0;
	if (is_signed<T>() && b == (T)-1) return Neg(a);
	return (T)(a / b);
}
PER_ELEMENT float Div(float a, float b) { return a / b; }
PER_ELEMENT double Div(double a, double b) { return a / b; }

// The remainder of FMod has the sign of the dividend, that of Mod the sign of the
// divisor. That of integers is 0 where the divisor is 0.
template <class T> PER_ELEMENT T FMod(T a, T b) {
	if (b == 0 || (is_signed<T>() && b == (T)-1)) return 0;
	return (T)(a % b);
}
PER_ELEMENT float FMod(float a, float b) { return fmodf(a, b); }
PER_ELEMENT double FMod(double a, double b) { return fmod(a, b); }
template <class T> PER_ELEMENT T Mod(T a, T b) {
	T m = FMod(a, b);
	return m != 0 && (m < 0) != (b < 0) ? (T)(m + b) : m;
}

// Max and Min give NaN if either number is one, and know that -0 is less than 0.
template <class T> PER_ELEMENT T Max(T a, T b) {
	if (a > b || a != a) return a;
	if (b > a || b != b) return b;
	return a == 0 ? (T)(a + b) : a;
}
template <class T> PER_ELEMENT T Min(T a, T b) {
	if (a < b || a != a) return a;
	if (b < a || b != b) return b;
	return a == 0 ? Neg((T)(Neg(a) + Neg(b))) : a;
}

template <class T> PER_ELEMENT T Abs(T a) { return a < 0 ? Neg(a) : a; }
PER_ELEMENT float Abs(float a) { return fabsf(a); }
PER_ELEMENT double Abs(double a) { return fabs(a); }
template <class T> PER_ELEMENT T Sign(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a; }

// ---- Functions of a real

#define REAL_FUNCTION(Name, name) \
	PER_ELEMENT float Name(float a) { return name##f(a); } \
	PER_ELEMENT double Name(double a) { return name(a); }
REAL_FUNCTION(Floor, floor)
REAL_FUNCTION(Ceil, ceil)
REAL_FUNCTION(Round, rint)
REAL_FUNCTION(Sqrt, sqrt)
REAL_FUNCTION(Exp, exp)
REAL_FUNCTION(Expm1, expm1)
REAL_FUNCTION(Log, log)
REAL_FUNCTION(Log1p, log1p)
REAL_FUNCTION(Erf, erf)
REAL_FUNCTION(Erfc, erfc)
REAL_FUNCTION(Sin, sin)
REAL_FUNCTION(Cos, cos)
REAL_FUNCTION(Tan, tan)
REAL_FUNCTION(Asin, asin)
REAL_FUNCTION(Acos, acos)
REAL_FUNCTION(Atan, atan)
REAL_FUNCTION(Sinh, sinh)
REAL_FUNCTION(Cosh, cosh)
REAL_FUNCTION(Tanh, tanh)
REAL_FUNCTION(Asinh, asinh)
REAL_FUNCTION(Acosh, acosh)
REAL_FUNCTION(Atanh, atanh)
#undef REAL_FUNCTION
template <class T> PER_ELEMENT T Reciprocal(T a) { return 1 / a; }

// Cosines is a sum of the cosines of an angle and of its double.
PER_ELEMENT double Cosines(double angle, double constant, double once, double twice) {
	return constant + once * cos(angle) + twice * cos(2 * angle);
}

// ---- Powers

// signed_of cuts a real towards 0. One that is too large, or NaN, becomes the least
// integer.
template <class T> PER_ELEMENT i64 signed_of(T x) { return (i64)x; }
PER_ELEMENT i64 signed_of(float x) { return x >= -0x1p63f && x < 0x1p63f ? (i64)x : (i64)(1ull << 63); }
PER_ELEMENT i64 signed_of(double x) { return x >= -0x1p63 && x < 0x1p63 ? (i64)x : (i64)(1ull << 63); }
template <class T> PER_ELEMENT T rounded(double x) { return (T)x; }
template <> __device__ __forceinline__ i64 rounded<i64>(double x) { return signed_of(x); }
template <> __device__ __forceinline__ int rounded<int>(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int)x : (int)(1u << 31); }

PER_ELEMENT float Pow(float a, float b) { return b == 2 ? a * a : b == 3 ? a * a * a : powf(a, b); }
PER_ELEMENT double Pow(double a, double b) { return b == 2 ? a * a : b == 3 ? a * a * a : pow(a, b); }
// The power of an integer is exact, but for a negative exponent.
template <class T> PER_ELEMENT T Pow(T a, T b) {
	if (b < 0) return rounded<T>(pow((double)a, (double)b));
	T p = 1;
	for (; b > 0; b >>= 1) {
		if (b & 1) p = Mul(p, a);
		a = Mul(a, a);
	}
	return p;
}
// The exponent is converted to the base's type where that is exact.
template <class T, class U> PER_ELEMENT T Pow(T a, U b) {
	T same = rounded<T>((double)b);
	return (double)same == (double)b ? Pow(a, same) : rounded<T>(pow((double)a, (double)b));
}
