// Losses: the negative logarithms of the probabilities of labels.
#include "index.cuh"
#include "rows.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef LABEL L;

// Labels are the classes of the places; places is their number.
struct Labels {
	const L *label;
	const T *weight; // by class; null: 1
	i64 ignored;     // a label without weight, if there is one
	int ignores;
	u32 classes;
	i64 places;
	Faults faults;
};

// charge writes the weighted loss of place p, where x has the scores of the classes, step
// apart, from which shift is subtracted: to y, or with its weight to terms.
static __device__ void charge(T *y, C *terms, const Labels &s, i64 p, const T *x, i64 step, C shift) {
	i64 k = s.label[p];
	C v = 0, weight = 0;
	if (!s.ignores || k != s.ignored) {
		if (k < 0 || k >= s.classes) {
			s.faults.report((u32)p);
		} else {
			weight = s.weight ? load(s.weight + k) : (C)1;
			v = (shift - load(x + k * step)) * weight;
		}
	}
	if (y) {
		store(y + p, v);
		return;
	}
	terms[p] = v;
	terms[s.places + p] = weight;
}

KERNEL(likelihood, (T *y, C *terms, const T *x, Labels s, u32 inner)) {
	for (i64 p = blockIdx.x * blockDim.x + threadIdx.x; p < s.places; p += gridDim.x * blockDim.x) {
		u32 image = (u32)p / inner;
		charge(y, terms, s, p, x + (i64)image * s.classes * inner + (u32)p % inner, inner, 0);
	}
}

// cross_entropy first subtracts the logarithm of the sum of the exponentials from the
// scores of each place, which are a line; the results go to logs unless that is null.
KERNEL(cross_entropy, (T *y, C *terms, const T *x, Labels s, T *logs, Lines lines)) {
	Line l(lines);
	x += l.at;
	C high = lowest<C>(), sum = 0;
#pragma unroll 4
	for (int i = l.first; i < lines.n; i += l.by) {
		C v = load(x + (i64)i * lines.step);
		if (v > high) {
			sum = sum * exp_of(high - v) + 1;
			high = v;
		} else if (v != lowest<C>()) {
			sum += exp_of(v - high);
		}
	}
	C most = team(high, lines.along, Larger());
	sum = team(high == lowest<C>() ? sum : sum * exp_of(high - most), lines.along, Plus());
	C shift = most + log_of(sum);
	if (!l.real) return;
	if (l.first == 0) charge(y, terms, s, l.number, x, lines.step, shift);
	if (!logs) return;
	logs += l.at;
	for (int i = l.first; i < lines.n; i += l.by) {
		i64 at = (i64)i * lines.step;
		store(logs + at, (load(x + at) - most) - log_of(sum));
	}
}

// total adds up n terms and their n weights, a part of them in each block: to sums, or in
// the last launch, of one block, to y, with mean divided by the weights.
KERNEL(total, (T *y, C *sums, const C *terms, i64 n, i64 part, int mean)) {
	C v = 0, weight = 0;
	i64 end = n - blockIdx.x * part < part ? n : (blockIdx.x + 1) * part;
#pragma unroll 4
	for (i64 i = blockIdx.x * part + threadIdx.x; i < end; i += blockDim.x) {
		v += terms[i];
		weight += terms[n + i];
	}
	v = team(v, true, Plus());
	weight = team(weight, true, Plus());
	if (threadIdx.x > 0) return;
	if (y) {
		store(y, mean ? v / weight : v);
		return;
	}
	sums[blockIdx.x] = v;
	sums[gridDim.x + blockIdx.x] = weight;
}
