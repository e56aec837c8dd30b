// TensorScatter: new positions of a cache are written over old ones. ELEMENT is an unsigned
// integer as wide as the elements, or as several of them.
#include "index.cuh"

typedef ELEMENT T;

// Window describes the new elements: [batch][outer][added][inner], of which each of the
// batch begins at a position of its own in the cache, [batch][outer][length][inner].
struct Window {
	u32 total;
	int length;
	int circular; // what ends behind the cache goes on at its beginning
	Divider inner, added, outer;
};

// A position from which on the new ones do not fit is reported, and nothing is written for it.
KERNEL(write_window, (T *cache, const T *__restrict__ fresh, const i64 *__restrict__ first, Window s, Faults faults)) {
	for (u32 e = blockIdx.x * blockDim.x + threadIdx.x; e < s.total; e += gridDim.x * blockDim.x) {
		u32 row = s.inner.quotient(e), j = e - row * s.inner.by;
		u32 line = s.added.quotient(row), b = s.outer.quotient(line);
		i64 at = first ? first[b] : 0;
		if (s.circular) {
			at %= s.length;
			if (at < 0) at += s.length;
		} else if (at < 0 || at > s.length - (int)s.added.by) {
			faults.report(b);
			continue;
		}
		at += row - line * s.added.by;
		if (at >= s.length) at -= s.length;
		cache[((i64)line * s.length + at) * s.inner.by + j] = fresh[e];
	}
}
