// Arithmetic on floats as exact as if it were done in doubles: rounding errors are kept
// beside the results. Most GPUs do 32 or 64 floats in the time of one double, so that a few
// doubles for each element would take longer than its way from and to memory. For doubles
// the same functions are plain.
#pragma once
#include "prelude.cuh"

// Pair is the number high + low, of which high is nearly the nearest float.
struct Pair {
	float high, low;
};

// Wide is what holds a number as exactly as the functions below use it.
template <class C> struct WideOf { typedef C type; };
template <> struct WideOf<float> { typedef Pair type; };
template <class C> using Wide = typename WideOf<C>::type;

static __device__ __forceinline__ void assign(Pair &p, double v) { p = Pair{(float)v, (float)(v - (float)v)}; }
static __device__ __forceinline__ void assign(double &d, double v) { d = v; }

// lost is what rounding took from sum, the float nearest to a + b.
static __device__ __forceinline__ float lost(float a, float b, float sum) {
	float part = sum - a;
	return (a - (sum - part)) + (b - part);
}

static __device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < __int_as_float(0x7f800000); }

// scaled is x * factor + shift.
static __device__ __forceinline__ float scaled(float x, Pair factor, Pair shift) {
	float p = __fmul_rn(x, factor.high), y = p + shift.high;
	if (!is_finite(y)) return y; // nothing is lost of infinity
	return y + (lost(p, shift.high, y) + (fmaf(x, factor.high, -p) + fmaf(x, factor.low, shift.low)));
}
static __device__ __forceinline__ double scaled(double x, double factor, double shift) { return fma(x, factor, shift); }

// normalized is (x - mean) * inverse * scale + bias.
static __device__ __forceinline__ float normalized(float x, Pair mean, Pair inverse, float scale, float bias) {
	float d = x - mean.high, e = lost(x, -mean.high, d) - mean.low;
	float p = __fmul_rn(d, inverse.high), f = fmaf(d, inverse.high, -p) + fmaf(d, inverse.low, e * inverse.high);
	float q = __fmul_rn(p, scale), y = q + bias;
	if (!is_finite(y)) return y;
	return y + (lost(q, bias, y) + fmaf(f, scale, fmaf(p, scale, -q)));
}
static __device__ __forceinline__ double normalized(double x, double mean, double inverse, double scale, double bias) {
	return (x - mean) * inverse * scale + bias;
}

// Distances are the sum of the distances of numbers from another, and that of their squares.
struct Distances {
	double sum, squares;
	__device__ void add(double v, double from) {
		double d = v - from;
		sum += d;
		squares += d * d;
	}
};

// PairDistances are the same in pairs. Squares of very large floats are infinite here.
struct PairDistances {
	Pair sum, squares;
	static __device__ __forceinline__ void add(Pair &p, float v, float rest) {
		float s = p.high + v;
		p.low += lost(p.high, v, s) + rest;
		p.high = s;
	}
	__device__ void add(float v, float from) {
		float d = v - from, e = lost(v, -from, d), square = __fmul_rn(d, d);
		add(sum, d, e);
		add(squares, square, fmaf(2 * d, e, fmaf(d, d, -square)));
	}
};

// distances gives those of the numbers that each(sums) adds to sums, which it may have to do
// twice.
template <class F> static __device__ __forceinline__ Distances distances(float, F each) {
	PairDistances p = {};
	each(p);
	if (is_finite(p.squares.high)) return Distances{(double)p.sum.high + p.sum.low, (double)p.squares.high + p.squares.low};
	Distances d = {};
	each(d);
	return d;
}
template <class F> static __device__ __forceinline__ Distances distances(double, F each) {
	Distances d = {};
	each(d);
	return d;
}
