// Hardmax, ArgMax and ArgMin: what is best along a line.
#include "best.cuh"

typedef ELEMENT T;

// hardmax writes 1 at the first largest element of each line, and 0 elsewhere.
KERNEL(hardmax, (T *y, const T *x, Lines s)) {
	Line l(s);
	int at = best(x + l.at, s, l, Better{0, 0}).at;
	if (!l.real) return;
	y += l.at;
	for (int i = l.first; i < s.n; i += l.by) store(y + (i64)i * s.step, (Compute<T>)(i == at ? 1 : 0));
}

// arg writes the place of the best element of each line.
KERNEL(arg, (i64 *y, const T *x, Lines s, int least, int last)) {
	Line l(s);
	int at = best(x + l.at, s, l, Better{least, last}).at;
	if (l.leads()) y[l.number] = at;
}
