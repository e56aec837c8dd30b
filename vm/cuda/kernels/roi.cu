// Pools over regions of an image. Products are not contracted: which elements belong to a bin
// is decided as on the host.
#include "index.cuh"

typedef ELEMENT T;

// ---- RoiAlign

// Align is an image, the bins of a region, and what the attributes say.
struct Align {
	int images, channels, height, width, rows, columns;
	int ratio, largest; // ratio: samples of a bin along each axis; 0: about one for each element
	float scale, shift, least;
};

// Side is a region along one axis: its begin, the length of a bin, and the samples of a bin.
struct Side {
	float begin, bin;
	double samples;
	__device__ Side(const Align &s, float from, float to, int bins) {
		begin = __fmul_rn(from, s.scale) - s.shift;
		float length = __fmul_rn(to, s.scale) - s.shift - begin;
		if (length < s.least) length = s.least;
		bin = length / (float)bins;
		samples = s.ratio > 0 ? (double)s.ratio : ceil((double)length / (double)bins);
		if (!(samples > 0)) samples = 0; // NaN, too
	}
	__device__ float at(int i, i64 k) const { return begin + __fmul_rn((float)i, bin) + __fmul_rn((float)k + 0.5f, bin) / (float)samples; }
	// first is the first sample for which f holds, as for all behind it.
	template <class F> __device__ i64 first(F f) const {
		i64 low = 0, high = (i64)samples;
		while (low < high) {
			i64 mid = (low + high) / 2;
			if (f(mid)) high = mid;
			else low = mid + 1;
		}
		return low;
	}
	// inside finds the samples [from, to) of bin i that lie in [-1, high].
	__device__ void inside(int i, float high, i64 &from, i64 &to) const {
		if (bin >= 0) {
			from = first([&](i64 k) { return at(i, k) >= -1; });
			to = first([&](i64 k) { return !(at(i, k) <= high); });
		} else {
			from = first([&](i64 k) { return at(i, k) <= high; });
			to = first([&](i64 k) { return !(at(i, k) >= -1); });
		}
		if (to < from) to = from;
	}
};

// Between is where a sample lies along an axis: elements a and b, and how far from a.
struct Between {
	int a, b;
	float part;
	__device__ Between(float v, int n) {
		v = v > 0 ? v : 0;
		a = (int)v < n - 1 ? (int)v : n - 1;
		b = a + 1 < n - 1 ? a + 1 : n - 1;
		part = a == n - 1 ? 0 : v - (float)a;
	}
};

// roi_align has a thread for each of count bins. A region of an image that is not there, or
// with more samples than an int counts, is reported by its number.
KERNEL(roi_align, (T *y, const T *x, const T *rois, const i64 *images, Align s, u32 count, Faults of, Faults large)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		u32 line = o / s.columns, column = o - line * s.columns, plane = line / s.rows, row = line - plane * s.rows, r = plane / s.channels;
		const T *box = rois + (i64)4 * r;
		const i64 image = images[r];
		Side high(s, load(box + 1), load(box + 3), s.rows), wide(s, load(box), load(box + 2), s.columns);
		const bool known = image >= 0 && image < s.images, few = high.samples <= 0x1p31 && wide.samples <= 0x1p31;
		if (!known) of.report(r);
		if (!few) large.report(r);
		if (!known || !few) {
			store(y + o, 0.0f);
			continue;
		}
		const T *p = x + (image * s.channels + (plane - r * s.channels)) * s.height * s.width;
		i64 fromY, toY, fromX, toX;
		high.inside((int)row, (float)s.height, fromY, toY);
		wide.inside((int)column, (float)s.width, fromX, toX);
		const double all = high.samples * wide.samples;
		const bool outside = all > (double)((toY - fromY) * (toX - fromX));
		float sum = 0;
		bool none = !outside; // the largest so far is that of no sample
		for (i64 i = fromY; i < toY; i++) {
			Between v(high.at((int)row, i), s.height);
			for (i64 k = fromX; k < toX; k++) {
				Between h(wide.at((int)column, k), s.width);
				const T *upper = p + (i64)v.a * s.width, *lower = p + (i64)v.b * s.width;
				float list[4] = {
					__fmul_rn(load(upper + h.a), (1 - v.part) * (1 - h.part)), __fmul_rn(load(upper + h.b), (1 - v.part) * h.part),
					__fmul_rn(load(lower + h.a), v.part * (1 - h.part)), __fmul_rn(load(lower + h.b), v.part * h.part),
				};
				if (!s.largest) {
					sum += list[0] + list[1] + list[2] + list[3];
					continue;
				}
#pragma unroll
				for (int j = 0; j < 4; j++) {
					if (none || list[j] > sum) sum = list[j];
					none = false;
				}
			}
		}
		store(y + o, s.largest ? sum : sum / (float)(all > 1 ? all : 1));
	}
}

// ---- MaxRoiPool

// Range is a region along one axis between two places, which are rounded to elements; both
// elements belong to it.
struct Range {
	float begin, bin;
	__device__ Range(float from, float to, int bins) {
		begin = roundf(from);
		float length = roundf(to) - begin + 1;
		bin = (length < 1 ? 1 : length) / (float)bins;
	}
	static __device__ int limited(double v, int n) { return v > 0 ? v > n ? n : (int)v : 0; }
	// elements finds the elements [from, to) of bin i that lie among n.
	__device__ void elements(int i, int n, int &from, int &to) const {
		from = limited(floor((double)__fmul_rn((float)i, bin)) + (double)begin, n);
		to = limited(ceil((double)__fmul_rn((float)(i + 1), bin)) + (double)begin, n);
	}
};

// max_roi_pool has a thread for each of count bins. A region of an image that is not there is
// reported by its number.
KERNEL(max_roi_pool, (T *y, const T *x, const T *rois, Align s, u32 count, Faults of)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		u32 line = o / s.columns, column = o - line * s.columns, plane = line / s.rows, row = line - plane * s.rows, r = plane / s.channels;
		const T *box = rois + (i64)5 * r;
		const float image = load(box);
		if (!(image >= 0 && image < (float)s.images) || image != (float)(int)image) {
			of.report(r);
			store(y + o, 0.0f);
			continue;
		}
		int fromY, toY, fromX, toX;
		Range(__fmul_rn(load(box + 2), s.scale), __fmul_rn(load(box + 4), s.scale), s.rows).elements((int)row, s.height, fromY, toY);
		Range(__fmul_rn(load(box + 1), s.scale), __fmul_rn(load(box + 3), s.scale), s.columns).elements((int)column, s.width, fromX, toX);
		const T *p = x + ((i64)image * s.channels + (plane - r * s.channels)) * s.height * s.width;
		float best = 0;
		bool some = false;
		for (int i = fromY; i < toY; i++)
			for (int k = fromX; k < toX; k++) {
				float v = load(p + (i64)i * s.width + k);
				if (!some || v > best || v != v) best = v; // no number is larger than NaN
				some = true;
			}
		store(y + o, best);
	}
}
