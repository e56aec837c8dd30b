// RotaryEmbedding: pairs of elements of each head are rotated.
#include "index.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Rotary describes the heads: elements of one position are neighbours.
struct Rotary {
	u32 total;     // pairs and pieces of what is only copied, over all heads
	int half;      // pairs of a head
	int size;      // elements of a head
	int ends;      // positions that the cosines and sines have lines for
	int first;     // there is one position, that of the first place of each sequence
	int apart;     // distance of the elements of a pair
	int step;      // distance of two pairs
	int batch, head, position; // distances
	Divider each, heads, positions;
};

// A thread takes one pair, or two elements behind the pairs. Both are read before either
// is written: y may lie over x.
KERNEL(rotate, (T *y, const T *x, const T *cosines, const T *sines, const i64 *places, Rotary s, Faults faults)) {
	for (u32 e = blockIdx.x * blockDim.x + threadIdx.x; e < s.total; e += gridDim.x * blockDim.x) {
		u32 rest = s.each.quotient(e), pair = e - rest * s.each.by;
		u32 p = s.heads.quotient(rest), head = rest - p * s.heads.by; // p counts the positions of all batches
		u32 batch = s.positions.quotient(p), position = p - batch * s.positions.by;
		i64 line = p;
		int base = (int)batch * s.batch + (int)head * s.head + (int)position * s.position;
		if (places) {
			u32 of = s.first ? 0 : p;
			line = places[of];
			if (line < 0 || line >= s.ends) {
				faults.report(of);
				continue;
			}
			if (s.first) line += position;
		}
		if ((int)pair < s.half) {
			C c = load(cosines + (line * s.half + pair)), n = load(sines + (line * s.half + pair));
			int i = base + (int)pair * s.step;
			C a = load(x + i), b = load(x + i + s.apart);
			store(y + i, c * a - n * b);
			store(y + i + s.apart, n * a + c * b);
			continue;
		}
		int k = 2 * (int)pair, i = base + k;
		T a = x[i], b = x[i + (k + 1 < s.size ? 1 : 0)];
		y[i] = a;
		if (k + 1 < s.size) y[i + 1] = b;
	}
}
