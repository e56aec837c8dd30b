// Reductions along axes: sums, products, extremes.
#include "groups.cuh"

typedef ELEMENT T;

// Wide is the type that a reduction computes in.
template <class U> struct WideOf { typedef i64 type; };
template <> struct WideOf<u64> { typedef u64 type; };
template <> struct WideOf<float> { typedef float type; };
template <> struct WideOf<double> { typedef double type; };
typedef WideOf<Compute<T>>::type Wide;

// Least and greatest number of the element type.
template <class U> static __device__ Wide least() { return (U)-1 < (U)0 ? (Wide)(~0ull << (8 * sizeof(U) - 1)) : (Wide)0; }
template <> __device__ Wide least<float>() { return (Wide)lowest<float>(); }
template <> __device__ Wide least<double>() { return (Wide)lowest<double>(); }
template <class U> static __device__ Wide greatest() { return (U)-1 < (U)0 ? (Wide)~least<U>() : (Wide)(~0ull >> (64 - 8 * sizeof(U))); }

// How is what the operators of a kind differ in.
struct How {
	int absolute, square; // of the terms
	int finish;           // 1: divided by the number of terms, 2: the root, 3: the logarithm
	int least;            // of extremes
};

static __device__ __forceinline__ float finished(float v, int how, int n) {
	return how == 1 ? v / n : how == 2 ? sqrtf(v) : how == 3 ? logf(v) : v;
}
static __device__ __forceinline__ double finished(double v, int how, int n) {
	return how == 1 ? v / n : how == 2 ? sqrt(v) : how == 3 ? log(v) : v;
}
static __device__ __forceinline__ i64 finished(i64 v, int how, int n) { return how == 1 && n > 0 ? v / n : v; }
static __device__ __forceinline__ u64 finished(u64 v, int how, int n) { return how == 1 && n > 0 ? v / n : v; }

// square_added is v + x * x, in one rounding.
static __device__ __forceinline__ float square_added(float v, float x) { return fmaf(x, x, v); }
static __device__ __forceinline__ double square_added(double v, double x) { return fma(x, x, v); }
template <class U> static __device__ __forceinline__ U square_added(U v, U x) { return v + x * x; }

struct Sum {
	Wide v;
	static __device__ Sum start(const How &) { return {0}; }
	__device__ void add(Wide x, const How &how) {
		if (how.absolute) x = x < 0 ? -x : x;
		v = how.square ? square_added(v, x) : v + x;
	}
	__device__ void join(const Sum &b) { v += b.v; }
	__device__ Wide end(int n, const How &how) const { return finished(v, how.finish, n); }
};

struct Product {
	Wide v;
	static __device__ Product start(const How &) { return {1}; }
	__device__ void add(Wide x, const How &) { v *= x; }
	__device__ void join(const Product &b) { v *= b.v; }
	__device__ Wide end(int, const How &) const { return v; }
};

// Extreme is the largest of the terms turned upside down if the least is sought.
static __device__ __forceinline__ float upside(float v) { return -v; }
static __device__ __forceinline__ double upside(double v) { return -v; }
static __device__ __forceinline__ i64 upside(i64 v) { return ~v; }
static __device__ __forceinline__ u64 upside(u64 v) { return ~v; }
template <class U> struct Top { static __device__ Wide of() { return upside(greatest<U>()); } };
template <> struct Top<float> { static __device__ Wide of() { return (Wide)lowest<float>(); } };
template <> struct Top<double> { static __device__ Wide of() { return (Wide)lowest<double>(); } };

struct Extreme {
	Wide v;
	static __device__ Extreme start(const How &how) { return {how.least ? Top<Compute<T>>::of() : least<Compute<T>>()}; }
	__device__ void add(Wide x, const How &how) { v = Larger()(v, how.least ? upside(x) : x); }
	__device__ void join(const Extreme &b) { v = Larger()(v, b.v); }
	__device__ Wide end(int, const How &how) const { return how.least ? upside(v) : v; }
};

static __device__ __forceinline__ Sum exchange(Sum a, int d) { a.v = exchange(a.v, d); return a; }
static __device__ __forceinline__ Product exchange(Product a, int d) { a.v = exchange(a.v, d); return a; }
static __device__ __forceinline__ Extreme exchange(Extreme a, int d) { a.v = exchange(a.v, d); return a; }

template <class A, int D> static __device__ void reduce(T *y, A *parts, const T *x, const Groups &g, How how) {
	Group own(g);
	A sum = A::start(how);
	gather<D>(sum, x, g, own, how);
	sum = team(sum, g.along, Join());
	if (!own.leads) return;
	if (gridDim.y == 1) store(y + own.number, (Compute<T>)sum.end(g.terms, how));
	else parts[(i64)blockIdx.y * g.groups + own.number] = sum;
}

// reduce_channels has each part of a channel in another block, as norm_gradient.cu has.
template <class A> static __device__ void reduce_channels(T *y, A *parts, const T *x, const Channels &c, int terms, How how) {
	Channel own(c);
	A sum = A::start(how);
	each(c, own, [&](auto n, int at) {
		auto v = few<n.n>(x + at, c);
#pragma unroll
		for (int j = 0; j < n.n; j++) sum.add(v.v[j], how);
	});
	sum = team(sum, true, Join());
	if (!own.leads) return;
	if (gridDim.y == 1) store(y + own.number, (Compute<T>)sum.end(terms, how));
	else parts[own.slot(c)] = sum;
}

template <class A> static __device__ void finish_channels(T *y, const A *parts, int many, int channels, int terms, How how) {
	int number = blockIdx.x * blockDim.x + threadIdx.x;
	if (number < channels) store(y + number, (Compute<T>)joined(parts + number, many, channels).end(terms, how));
}

// reduce_columns reduces columns of a matrix of rows x columns, of which a thread has four.
// Blocks of one y have part rows.
template <class A> static __device__ void reduce_columns(T *y, A *parts, const T *x, int rows, int columns, int part, int packed, How how) {
	int column = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
	bool real = column < columns;
	A sum[4] = {A::start(how), A::start(how), A::start(how), A::start(how)};
	int end = rows - blockIdx.y * part < part ? rows : (blockIdx.y + 1) * part;
	x += real ? column : 0;
#pragma unroll 4
	for (int r = blockIdx.y * part + threadIdx.y; r < end; r += blockDim.y) {
		const T *p = x + (i64)r * columns;
		Pack<T> v;
		if (packed) v = *(const Pack<T> *)p;
		else for (int j = 0; j < 4; j++) v.v[j] = p[j];
#pragma unroll
		for (int j = 0; j < 4; j++) sum[j].add(load(v.v + j), how);
	}
#pragma unroll
	for (int j = 0; j < 4; j++) {
		A v = team(sum[j], false, Join());
		if (!real || threadIdx.y > 0) continue;
		if (gridDim.y == 1) store(y + column + j, (Compute<T>)v.end(rows, how));
		else parts[(i64)blockIdx.y * columns + column + j] = v;
	}
}

template <class A> static __device__ void finish(T *y, const A *parts, int many, int groups, int terms, How how) {
	int number = blockIdx.x * blockDim.x + threadIdx.x;
	A sum = merge(A::start(how), parts, many, groups, number < groups ? number : groups - 1);
	if (number < groups && threadIdx.y == 0) store(y + number, (Compute<T>)sum.end(terms, how));
}

#define REDUCTION(name, A) \
	KERNEL(name##_lines, (T *y, A *parts, const T *x, Groups g, How how)) { reduce<A, 1>(y, parts, x, g, how); } \
	KERNEL(name##_axes, (T *y, A *parts, const T *x, Groups g, How how)) { reduce<A, 3>(y, parts, x, g, how); } \
	KERNEL(name##_channels, (T *y, A *parts, const T *x, Channels c, int terms, How how)) { reduce_channels<A>(y, parts, x, c, terms, how); } \
	KERNEL(name##_joined, (T *y, const A *parts, int many, int channels, int terms, How how)) { finish_channels(y, parts, many, channels, terms, how); } \
	KERNEL(name##_columns, (T *y, A *parts, const T *x, int rows, int columns, int part, int packed, How how)) { reduce_columns<A>(y, parts, x, rows, columns, part, packed, how); } \
	KERNEL(name##_finish, (T *y, const A *parts, int many, int groups, int terms, How how)) { finish(y, parts, many, groups, terms, how); }

REDUCTION(sum, Sum)
REDUCTION(product, Product)
REDUCTION(extreme, Extreme)

#ifdef REAL
// LogSumExp scales the sum where the maximum rises, so that the terms are read once.
struct LogSumExp {
	Wide high, sum;
	static __device__ LogSumExp start(const How &) { return {lowest<Wide>(), 0}; }
	__device__ void add(Wide x, const How &) { join(x, 1); }
	__device__ void join(const LogSumExp &b) { join(b.high, b.sum); }
	__device__ void join(Wide x, Wide s) {
		if (x > high) {
			sum = sum * exp_of(high - x) + s;
			high = x;
		} else if (x == high) {
			sum += s;
		} else if (s != 0 || x != x) {
			sum += s * exp_of(x - high);
		}
	}
	__device__ Wide end(int, const How &) const { return high == lowest<Wide>() && sum == sum ? high : high + log_of(sum); }
};
static __device__ __forceinline__ LogSumExp exchange(LogSumExp a, int d) {
	a.high = exchange(a.high, d);
	a.sum = exchange(a.sum, d);
	return a;
}
REDUCTION(log_sum_exp, LogSumExp)
#endif
