// Attention that keeps no scores. What there is so far is scaled whenever the largest score of a
// query rises.
#include "flash_attention.cuh"

// attend computes the result, and the two numbers of each query.
KERNEL_FOR(128, 2, attend, (T *y, float *rows, const T *q, const T *k, const T *v, const BIAS *bias, const u8 *keep, const __grid_constant__ Flash s)) {
	constexpr int N = COLUMNS;
	Block own(s.heads, s.queries, N, true); // later queries may see more keys: they come first
	Edits edits(s, bias, keep, own.batch, own.head);
	Sides sides(s, q, k, v, nullptr, own.batch, own.head);
	Totals<N> sums;
	sums.clear();
	C high[slots], total[slots];
#pragma unroll
	for (int i = 0; i < slots; i++) high[i] = lowest<C>(), total[i] = 0;
	for (int key = 0; key < s.keys; key += tile_size) {
#ifdef HIDES
		bool sees = false;
#pragma unroll
		for (int i = 0; i < Grid::each; i++) sees |= edits.sees(own.first + row(Grid::slot(i)), key + Grid::column(i), high[Grid::slot(i)]);
		if (!any(sees)) continue;
#endif
		Grid tile;
		tile.multiply(sides.queries(), own.first, sides.keys(), key, s.size);
		C most[slots], less[slots];
#pragma unroll
		for (int i = 0; i < slots; i++) most[i] = high[i];
#pragma unroll
		for (int i = 0; i < Grid::each; i++) {
			C &x = tile.at(i), &m = most[Grid::slot(i)];
			x = edits.score(x, own.first + row(Grid::slot(i)), key + Grid::column(i));
			m = Larger()(x, m);
		}
#pragma unroll
		for (int i = 0; i < slots; i++) {
			most[i] = join(most[i], Larger());
			less[i] = most[i] == lowest<C>() ? (C)1 : exp_of(high[i] - most[i]);
			high[i] = most[i], total[i] *= less[i];
		}
		sums.times(less);
#pragma unroll
		for (int i = 0; i < Grid::each; i++) {
			C &x = tile.at(i), m = most[Grid::slot(i)];
			x = m == lowest<C>() ? (C)0 : exp_of(x - m);
			total[Grid::slot(i)] += x;
		}
		sums.add(tile, sides.across_values(), own.left, key, min(key + tile_size, s.keys));
	}
	i64 line = ((i64)own.batch * s.heads + own.head) * s.queries;
#pragma unroll
	for (int i = 0; i < slots; i++) {
		int query = own.first + row(i);
		total[i] = join(total[i], Plus());
		total[i] = 1 / (high[i] == lowest<C>() ? high[i] - high[i] : total[i]); // of a query without keys: no number
		if (blockIdx.y == 0 && query < s.queries && Grid::column(0) == 0) {
			float *numbers = rows + 2 * (line + query);
			numbers[0] = high[i], numbers[1] = total[i];
		}
		if (s.safe && total[i] != total[i]) {
			total[i] = 0;
#pragma unroll
			for (int j = 0; j < Totals<N>::each; j++)
				if (Totals<N>::slot(j) == i) sums.at(j) = 0;
		}
	}
	sums.write(y + line * s.valueSize, own.first, s.queries, s.valueSize, own.left, s.valueSize, 1, total);
}
