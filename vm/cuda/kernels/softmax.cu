// Softmax and its like: each line becomes weights.
#include "rows.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// weigh is Softmax, or LogSoftmax, of lines. A line that fits the shared memory is read
// once. Of others the sum is computed in the same pass as the maximum, and scaled where
// that rises: they are read twice.
template <bool LOG> static __device__ void weigh(T *y, const T *x, const Lines &s, C *kept) {
	Line l(s);
	x += l.at;
	y += l.at;
	C high = lowest<C>(), sum = 0;
	if (s.kept) {
#pragma unroll 4
		for (int i = l.first, k = l.slot; i < s.n; i += l.by, k += l.slots) {
			C v = load(x + (i64)i * s.step);
			kept[k] = v;
			high = Larger()(high, v);
		}
		high = team(high, s.along, Larger());
		for (int i = l.first, k = l.slot; i < s.n; i += l.by, k += l.slots) {
			C v = kept[k] - high, e = exp_of(v);
			kept[k] = LOG ? v : e;
			sum += e;
		}
	} else {
#pragma unroll 4
		for (int i = l.first; i < s.n; i += l.by) {
			C v = load(x + (i64)i * s.step);
			if (v > high) {
				sum = sum * exp_of(high - v) + 1;
				high = v;
			} else if (v != lowest<C>()) {
				sum += exp_of(v - high);
			}
		}
		C most = team(high, s.along, Larger());
		sum = high == lowest<C>() ? sum : sum * exp_of(high - most);
		high = most;
	}
	sum = team(sum, s.along, Plus());
	C last = LOG ? log_of(sum) : 1 / sum;
	if (!l.real) return;
	if (s.kept) {
		for (int i = l.first, k = l.slot; i < s.n; i += l.by, k += l.slots)
			store(y + (i64)i * s.step, LOG ? kept[k] - last : kept[k] * last);
		return;
	}
#pragma unroll 4
	for (int i = l.first; i < s.n; i += l.by) {
		C v = load(x + (i64)i * s.step) - high;
		store(y + (i64)i * s.step, LOG ? v - last : exp_of(v) * last);
	}
}

KERNEL(softmax, (T *y, const T *x, Lines s)) {
	DYNAMIC_SHARED(C, kept);
	weigh<false>(y, x, s, kept);
}

KERNEL(log_softmax, (T *y, const T *x, Lines s)) {
	DYNAMIC_SHARED(C, kept);
	weigh<true>(y, x, s, kept);
}
