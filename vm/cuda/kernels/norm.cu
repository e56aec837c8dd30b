// Normalizations of lines by their own statistics, and over neighbouring channels.
#include "exact.cuh"
#include "rows.cuh"

typedef ELEMENT T;
typedef Compute<T> C;
typedef STASH S; // of the statistics that are outputs

// Spread is how an operand repeats over a tensor: element e of the tensor meets element
// e / div % mod of the operand.
struct Spread {
	int div, mod;
	__device__ int at(u32 e, int n, int i) const { return div == 1 && mod == n ? i : (int)(e / (u32)div % (u32)mod); }
};

// Result is where the normalized lines go.
struct Result {
	const T *scale, *bias; // null: none
	S *mean, *inverse;     // null: not wanted
	Spread scales, biases;
	double epsilon;
	int rms; // the mean is taken to be 0
};

// normalize subtracts the mean of a line and divides by the root of its variance, which
// is computed from the distances to that mean. x and y are those of the line, of which the
// elements may be in shared memory already, with total as the sum of the thread's own.
static __device__ void normalize(T *y, const T *x, const Result &r, const Lines &s, const Line &l, C *kept, C total) {
	C rounded = r.rms ? 0 : team(total, s.along, Plus()) / s.n;
	Distances d = distances(rounded, [&](auto &sums) {
		if (s.kept) visit(s, l, [&](int, int k) { sums.add(kept[k], rounded); });
		else read(x, s, l, [&](int, int, C v) { sums.add(v, rounded); });
	});
	double low = r.rms ? 0 : team(d.sum, s.along, Plus()) / s.n; // what rounding took from the mean
	double middle = (double)rounded + low, factor = 1 / sqrt(team(d.squares, s.along, Plus()) / s.n - low * low + r.epsilon);
	if (!l.real) return;
	if (l.leads() && r.mean) store(r.mean + l.number, (Compute<S>)middle);
	if (l.leads() && r.inverse) store(r.inverse + l.number, (Compute<S>)factor);
	Wide<C> mean, inverse;
	assign(mean, middle);
	assign(inverse, factor);
	write(y, x, kept, s, l, [&](int i, C v) {
		u32 e = (u32)(l.at + i);
		C scale = r.scale ? load(r.scale + r.scales.at(e, s.n, i)) : (C)1, bias = r.bias ? load(r.bias + r.biases.at(e, s.n, i)) : (C)0;
		return normalized(v, mean, inverse, scale, bias);
	});
}

KERNEL(row_norm, (T *y, const T *x, Lines s, Result r)) {
	DYNAMIC_SHARED(C, kept);
	Line l(s);
	C total = 0;
	if (s.kept || !r.rms) {
		read(x + l.at, s, l, [&](int, int k, C v) {
			if (s.kept) kept[k] = v;
			total += v;
		});
	}
	normalize(y + l.at, x + l.at, r, s, l, kept, total);
}

// skip_norm normalizes x + skip + more (which may be null). The sum, if it is wanted, may
// overwrite x or skip, so the lines must fit the shared memory. skip has skips elements,
// and repeats.
KERNEL(skip_norm, (T *y, const T *x, Lines s, Result r, T *sum, const T *skip, const T *more, int skips)) {
	DYNAMIC_SHARED(C, kept);
	Line l(s);
	int from = (int)(l.at % skips);
	C total = 0;
	read(x + l.at, s, l, [&](int i, int k, C v) {
		v += load(skip + from + i);
		if (more) v += load(more + i);
		if (sum && l.real) store(sum + l.at + i, v);
		kept[k] = v;
		total += v;
	});
	normalize(y + l.at, x, r, s, l, kept, total);
}

// lp_norm divides lines by the sum of their sizes (p 1) or the root of that of their
// squares (p 2); lines of zeros stay.
KERNEL(lp_norm, (T *y, const T *x, Lines s, int p)) {
	DYNAMIC_SHARED(C, kept);
	Line l(s);
	C sum = 0;
#pragma unroll 4
	for (int i = l.first, k = l.slot; i < s.n; i += l.by, k += l.slots) {
		C v = load(x + l.at + (i64)i * s.step);
		if (s.kept) kept[k] = v;
		sum += p == 1 ? size_of(v) : v * v;
	}
	sum = team(sum, s.along, Plus());
	if (p == 2) sum = root_of(sum);
	if (!l.real) return;
	for (int i = l.first, k = l.slot; i < s.n; i += l.by, k += l.slots) {
		i64 at = l.at + (i64)i * s.step;
		C v = s.kept ? kept[k] : load(x + at);
		store(y + at, sum == 0 ? (C)0 : v / sum);
	}
}

static __device__ __forceinline__ float power(float x, float p) { return powf(x, p); }
static __device__ __forceinline__ double power(double x, double p) { return pow(x, p); }

// lrn divides each element by a power of the sum of squares over the channels from before
// its own to after it. n is the number of elements of a plane.
KERNEL(lrn, (T *y, const T *x, u32 count, u32 channels, u32 n, int before, int after, double alpha, double beta, double bias)) {
	for (u32 e = blockIdx.x * blockDim.x + threadIdx.x; e < count; e += gridDim.x * blockDim.x) {
		int ch = e / n % channels;
		int from = ch < before ? -ch : -before, to = ch + after >= (int)channels ? (int)channels - 1 - ch : after;
		C sum = 0;
		for (int k = from; k <= to; k++) {
			C v = load(x + (i64)e + (i64)k * n);
			sum += v * v;
		}
		store(y + e, load(x + e) / power((C)bias + (C)alpha * sum, (C)beta));
	}
}
