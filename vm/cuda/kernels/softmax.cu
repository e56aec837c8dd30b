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
		read(x, s, l, [&](int, int k, C v) {
			kept[k] = v;
			high = Larger()(high, v);
		});
		high = team(high, s.along, Larger());
		visit(s, l, [&](int, int k) {
			C v = kept[k] - high, e = exp_of(v);
			kept[k] = LOG ? v : e;
			sum += e;
		});
	} else {
		read(x, s, l, [&](int, int, C v) {
			if (v > high) {
				sum = sum * exp_of(high - v) + 1;
				high = v;
			} else if (v != lowest<C>()) {
				sum += exp_of(v - high);
			}
		});
		C most = team(high, s.along, Larger());
		sum = high == lowest<C>() ? sum : sum * exp_of(high - most);
		high = most;
	}
	sum = team(sum, s.along, Plus());
	if (!l.real) return;
	C last = LOG ? log_of(sum) : 1 / sum;
	write(y, x, kept, s, l, [&](int, C v) {
		if (LOG) return (s.kept ? v : v - high) - last;
		return (s.kept ? v : exp_of(v - high)) * last;
	});
}

KERNEL(softmax, (T *y, const T *x, Lines s)) {
	DYNAMIC_SHARED(C, kept);
	weigh<false>(y, x, s, kept);
}

KERNEL(log_softmax, (T *y, const T *x, Lines s)) {
	DYNAMIC_SHARED(C, kept);
	weigh<true>(y, x, s, kept);
}
