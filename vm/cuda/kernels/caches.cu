// What comes before attention: queries, and keys and values in caches. New ones are turned,
// or get a bias, on their way.
#include "heads.cuh"
#include "product.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Placed are queries, keys or values.
struct Placed {
	Heads in, out;
	u32 end;      // of their pairs of elements among those of all three
	int before;   // past positions, unless they are counted
	int counted;  // the numbers of keys say how many past positions there are
	int size;     // of a head
	int bias;     // the first element of theirs, or -1 if they get none
	int turned;
	Divider each, heads, positions; // pairs of a head
};

struct Placing {
	Placed part[3];
	int batch, queries;
	int past, most;    // positions of the past; at most, of all keys
	int lines;         // of the cosines and sines
	int half;          // pairs that are turned
	int apart, step;   // of the elements of such a pair; of two pairs
};

// Counts are the numbers of the past and of all keys of an element of a batch, from the
// number of its keys less 1 and the largest number. In the first step, in which all keys are
// new, there are no past ones. A wrong number is wrong - 1, as an element of what may be: a
// number for each of the batch, and then the largest.
struct Counts {
	int before, all, wrong;
	bool first;
	__device__ Counts(const Placing &s, const int *last, const int *total, int batch) {
		int most = *total;
		i64 n = (i64)last[batch] + 1, old = n - s.queries;
		first = most == s.queries;
		if (first) old = 0;
		wrong = 0;
		if (most < s.queries || most > s.most) wrong = s.batch + 1;
		else if (n < 1 || n > most || old < 0 || old > s.past) wrong = batch + 1;
		before = wrong ? 0 : (int)old, all = wrong ? 0 : (int)n;
	}
};

// place writes new queries, keys and values where they are wanted, and the numbers of keys
// for those who attend to them. A thread takes a pair of elements at a time. Where a number
// is wrong, it writes nothing else.
KERNEL(place, (T *toQ, T *toK, T *toV, const T *q, const T *k, const T *v, const T *bias, const T *cosines, const T *sines, const i64 *places, const int *last, const int *total, int *counts, const __grid_constant__ Placing s, Faults faults)) {
	u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
	for (u32 b = thread; counts && b < (u32)s.batch; b += threads) {
		Counts c(s, last, total, (int)b);
		if (c.wrong) faults.report(c.wrong - 1);
		counts[2 * b] = c.before, counts[2 * b + 1] = c.all;
	}
	for (u32 e = thread; e < s.part[2].end; e += threads) {
		int which = e < s.part[0].end ? 0 : e < s.part[1].end ? 1 : 2;
		const Placed &part = s.part[which];
		u32 i = which ? e - s.part[which - 1].end : e;
		u32 rest = part.each.quotient(i), pair = i - rest * part.each.by;
		u32 p = part.heads.quotient(rest), head = rest - p * part.heads.by; // p counts the positions of all batches
		u32 batch = part.positions.quotient(p), position = p - batch * part.positions.by;
		int before = part.before, to = 2 * (int)pair, apart = 1;
		i64 line = 0;
		if (counts) {
			Counts c(s, last, total, (int)batch);
			if (c.wrong) continue;
			if (part.counted) before = c.before;
			line = c.before + position;
			if (places) line = c.first ? places[0] + position : places[p];
		}
		const T *from = (which == 0 ? q : which == 1 ? k : v) + (batch * part.in.batch + head * part.in.head + position * part.in.position);
		T *y = (which == 0 ? toQ : which == 1 ? toK : toV) + (batch * part.out.batch + head * part.out.head + (before + position) * part.out.position);
		if (part.turned && (int)pair < s.half) {
			if (line < 0 || line >= s.lines) {
				faults.report(s.batch + 1 + p);
				continue;
			}
			to = (int)pair * s.step, apart = s.apart;
			C c = load(cosines + (line * s.half + pair)), n = load(sines + (line * s.half + pair));
			C a = load(from + to), b = load(from + to + apart);
			store(y + to, c * a - n * b);
			store(y + to + apart, n * a + c * b);
			continue;
		}
		for (int j = to; j < min(to + 2, part.size); j++) {
			if (part.bias < 0) y[j] = from[j];
			else store(y + j, (C)(load(from + j) + load(bias + (part.bias + (int)head * part.size + j))));
		}
	}
}

// Carried are heads of past keys or values.
struct Carried {
	u32 total;           // units, over all heads and all places
	int queries;         // new positions, which are not written
	int before;          // past positions, unless they are counted
	int past, room;      // positions there are
	Divider size, place; // units of a position; positions of the room
	Divider heads;
};

// carry copies the past positions of a cache to one with as much room or more. What is
// behind the new ones becomes as in the past, or 0 if there is more room.
template <class U> static __device__ __forceinline__ void carry(U *y, const U *x, const int *counts, const Carried &s) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < s.total; i += gridDim.x * blockDim.x) {
		u32 line = s.size.quotient(i), row = s.place.quotient(line);
		int place = (int)(line - row * s.place.by), before = counts ? counts[2 * s.heads.quotient(row)] : s.before;
		if (place >= before && place < before + s.queries) continue;
		bool old = place < s.past && (place < before || s.past == s.room);
		y[i] = old ? x[((i64)row * s.past + place) * s.size.by + (i - line * s.size.by)] : U{};
	}
}

KERNEL(carry1, (T *y, const T *x, const int *counts, Carried s)) { carry(y, x, counts, s); }
KERNEL(carry4, (Quad<T> *y, const Quad<T> *x, const int *counts, Carried s)) { carry(y, x, counts, s); }
