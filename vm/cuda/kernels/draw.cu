// Multinomial: classes that are drawn by their weights.
#include "random.cuh"
#include "rows.cuh"

typedef ELEMENT T;

// multinomial has a block of 256 threads for each row of the logarithms of weights. sums has
// a place for each of them. The seed is *seed, or fixed if seed is null.
KERNEL(multinomial, (INDEX *y, const T *x, double *sums, const u64 *seed, u64 fixed, int classes, int samples)) {
	__shared__ double part[256];
	const int thread = threadIdx.x;
	x += (i64)blockIdx.x * classes;
	sums += (i64)blockIdx.x * classes;
	double most = lowest<double>();
	for (int k = thread; k < classes; k += 256) most = Larger()((double)load(x + k), most);
	most = team(most, true, Larger());
	double total = 0;
	for (int from = 0; from < classes; from += 256) {
		const int k = from + thread;
		double v = k < classes ? exp((double)load(x + k) - most) : 0;
		for (int d = 1; d < 256; d *= 2) {
			part[thread] = v;
			__syncthreads();
			if (thread >= d) v += part[thread - d];
			__syncthreads();
		}
		part[thread] = v;
		__syncthreads();
		if (k < classes) sums[k] = total + v;
		total += part[255];
		__syncthreads();
	}
	const u64 s = seed ? *seed : fixed;
	for (int j = thread; j < samples; j += 256) {
		const i64 i = (i64)blockIdx.x * samples + j;
		const double left = Uniform(s, i) * total;
		// The first class whose sum is above what is drawn; NaN counts as the last one.
		int low = 0, high = classes - 1;
		while (low < high) {
			int mid = (low + high) / 2;
			if (sums[mid] > left) high = mid;
			else low = mid + 1;
		}
		y[i] = (INDEX)low;
	}
}
