// Normalizations by the mean and the variance of groups of planes.
#include "exact.cuh"
#include "groups.cuh"

#ifndef SCALE
#define SCALE ELEMENT
#endif
#ifndef STATISTIC
#define STATISTIC ELEMENT
#endif
typedef ELEMENT T;
typedef SCALE P;     // of scale and bias
typedef STATISTIC S; // of running statistics
typedef Compute<T> C;

// Moments is the number of elements, their mean, and the sum of the squared distances
// from it, joined as in Chan, Golub and LeVeque 1979, equation 1.5. Statistics are
// doubles: a mean that is rounded to float is noise where elements lie close to it.
struct Moments {
	double n, mean, squares;
	__device__ void join(const Moments &b) {
		double all = n + b.n, d = b.mean - mean;
		if (b.n == 0) return;
		double part = b.n / all;
		mean += d * part;
		squares += b.squares + d * d * n * part;
		n = all;
	}
};

// FromFirst adds the distances of a thread's elements from the first of them.
template <class A> struct FromFirst {
	A &sums;
	C &first;
	int n;
	__device__ void add(C v, int) {
		if (n++ == 0) first = v;
		sums.add(v, first);
	}
};

static __device__ __forceinline__ Moments exchange(Moments a, int d) {
	return Moments{exchange(a.n, d), exchange(a.mean, d), exchange(a.squares, d)};
}

// fromFirst gives the number of a thread's elements.
template <int D, class A> static __device__ __forceinline__ int fromFirst(A &sums, C &first, const T *x, const Groups &g, const Group &own) {
	FromFirst<A> f = {sums, first, 0};
	gather<D>(f, x, g, own, 0);
	return f.n;
}

template <int D> static __device__ void moments(double *statistics, Moments *parts, const T *x, const Groups &g) {
	Group own(g);
	C first = 0;
	int n = 0;
	Distances d = distances(C(), [&](auto &sums) { n = fromFirst<D>(sums, first, x, g, own); });
	Moments m = {0, 0, 0};
	if (n > 0) m = Moments{(double)n, first + d.sum / n, d.squares - d.sum * (d.sum / n)};
	m = team(m, g.along, Join());
	if (!own.leads) return;
	if (gridDim.y > 1) {
		parts[(i64)blockIdx.y * g.groups + own.number] = m;
		return;
	}
	statistics[own.number] = m.mean;
	statistics[g.groups + own.number] = m.squares / m.n;
}

// The means of all groups, then their variances.
KERNEL(moments_lines, (double *statistics, Moments *parts, const T *x, Groups g)) { moments<1>(statistics, parts, x, g); }
KERNEL(moments_axes, (double *statistics, Moments *parts, const T *x, Groups g)) { moments<3>(statistics, parts, x, g); }
KERNEL(moments_finish, (double *statistics, const Moments *parts, int many, int groups)) {
	int number = blockIdx.x * blockDim.x + threadIdx.x;
	Moments m = merge(Moments{0, 0, 0}, parts, many, groups, number < groups ? number : groups - 1);
	if (number >= groups || threadIdx.y > 0) return;
	statistics[number] = m.mean;
	statistics[groups + number] = m.squares / m.n;
}

// moments_channels has each part of a channel in another block.
KERNEL(moments_channels, (Moments *parts, const T *x, Channels c)) {
	Channel own(c);
	C first = 0;
	int n = 0;
	Distances d = distances(C(), [&](auto &sums) {
		n = 0;
		each(c, own, [&](auto width, int at) {
			auto v = few<width.n>(x + at, c);
			if (n == 0) first = v.v[0];
			n += width.n;
#pragma unroll
			for (int j = 0; j < width.n; j++) sums.add(v.v[j], first);
		});
	});
	Moments m = {0, 0, 0};
	if (n > 0) m = Moments{(double)n, first + d.sum / n, d.squares - d.sum * (d.sum / n)};
	m = team(m, true, Join());
	if (own.leads) parts[own.slot(c)] = m;
}

// Running is where the new running statistics go, and the old ones, which they may
// overwrite. A place may be null.
struct Running {
	S *mean, *variance;
	const S *oldMean, *oldVariance;
	double keep, take;
};

// normalize_channels normalizes each channel by the moments of its parts, of which there
// are at most as many as a warp has threads, and shares the work out as moments_channels.
KERNEL(normalize_channels, (T *y, const T *x, const Moments *parts, int many, const P *scale, const P *bias, Channels c, double epsilon, Running r)) {
	__shared__ Wide<C> factors[8], shifts[8]; // of the teams of a block
	Channel own(c);
	if (threadIdx.x < 32) {
		Moments m = {0, 0, 0};
		if (threadIdx.x < many) m = parts[(i64)threadIdx.x * c.count + own.number];
		for (int d = 1; d < many; d *= 2) {
			Moments other = exchange(m, d);
			m = threadIdx.x & d ? Join()(other, m) : Join()(m, other);
		}
		if (threadIdx.x == 0) {
			double variance = m.squares / m.n, inverse = load(scale + own.number) / sqrt(variance + epsilon);
			assign(factors[threadIdx.y], inverse);
			assign(shifts[threadIdx.y], load(bias + own.number) - m.mean * inverse);
			if (own.leads && blockIdx.y == 0) {
				if (r.mean) store(r.mean + own.number, load(r.oldMean + own.number) * (C)r.keep + (C)(m.mean * r.take));
				if (r.variance) store(r.variance + own.number, load(r.oldVariance + own.number) * (C)r.keep + (C)(variance * r.take));
			}
		}
	}
	__syncthreads();
	if (!own.real) return;
	Wide<C> factor = factors[threadIdx.y], shift = shifts[threadIdx.y];
	each(c, own, [&](auto width, int at) {
		auto v = few<width.n>(x + at, c);
#pragma unroll
		for (int j = 0; j < width.n; j++) v.v[j] = scaled(v.v[j], factor, shift);
		put(y + at, v, c);
	});
}

// running mixes the statistics of a batch into the running ones, of which there are n
// each. The new ones, which may be null, may overwrite the old ones.
KERNEL(running, (S *mean, S *variance, const S *old_mean, const S *old_variance, const double *batch, int n, double keep, double take)) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	if (mean) store(mean + i, load(old_mean + i) * (C)keep + (C)(batch[i] * take));
	if (variance) store(variance + i, load(old_variance + i) * (C)keep + (C)(batch[n + i] * take));
}

// Planes describes which statistics and which channel plane p has: p / div % mod.
struct Planes {
	int count, n; // planes, and elements of each
	int part;     // elements of a block of the grid's y
	int groupDiv, groupMod, channelDiv, channelMod;
	int outside; // epsilon is added to the root instead of the variance
	int packed;  // four neighbouring elements are loaded together
	int unused;
	double epsilon;
};

// apply normalizes planes. Neighbours in x have neighbouring elements; scale and bias may
// be null.
template <class V> static __device__ void apply(T *y, const T *x, const V *means, const V *variances, const P *scale, const P *bias, const Planes &s) {
	int p = blockIdx.x * blockDim.y + threadIdx.y;
	if (p >= s.count) return;
	int group = p / s.groupDiv % s.groupMod, channel = p / s.channelDiv % s.channelMod;
	double middle = load(means + group), variance = load(variances + group);
	double inverse = 1 / (s.outside ? sqrt(variance) + s.epsilon : sqrt(variance + s.epsilon));
	if (scale) inverse *= load(scale + channel);
	// The shift may cancel what a float would have rounded.
	Wide<C> factor, shift;
	assign(factor, inverse);
	assign(shift, (bias ? load(bias + channel) : (C)0) - middle * inverse);
	x += (i64)p * s.n;
	y += (i64)p * s.n;
	int end = s.n - blockIdx.y * s.part < s.part ? s.n : (blockIdx.y + 1) * s.part;
	if (s.packed) {
#pragma unroll 2
		for (int i = blockIdx.y * s.part + 4 * threadIdx.x; i < end; i += 4 * blockDim.x) {
			Pack<T> v = *(const Pack<T> *)(x + i);
#pragma unroll
			for (int j = 0; j < 4; j++) store(v.v + j, scaled(load(v.v + j), factor, shift));
			*(Pack<T> *)(y + i) = v;
		}
		return;
	}
#pragma unroll 4
	for (int i = blockIdx.y * s.part + threadIdx.x; i < end; i += blockDim.x) store(y + i, scaled(load(x + i), factor, shift));
}

// apply_given takes running statistics, apply_own those of moments.
KERNEL(apply_given, (T *y, const T *x, const S *means, const S *variances, const P *scale, const P *bias, Planes s)) {
	apply(y, x, means, variances, scale, bias, s);
}
KERNEL(apply_own, (T *y, const T *x, const double *statistics, int groups, const P *scale, const P *bias, Planes s)) {
	apply(y, x, statistics, statistics + groups, scale, bias, s);
}
