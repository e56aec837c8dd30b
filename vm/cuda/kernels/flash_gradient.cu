// The gradient of attention that keeps no scores, from the two numbers of each query.
#include "flash_attention.cuh"

// queries computes the gradient of queries, in two passes over the keys: the mean of the slopes
// of the weights of a query, which it writes to means, comes before those of the scores.
KERNEL_FOR(128, 2, queries, (T *dq, float *means, const T *q, const T *k, const T *v, const BIAS *bias, const u8 *keep, const float *rows, const T *d, const __grid_constant__ Flash s)) {
	constexpr int N = COLUMNS;
	Block own(s.heads, s.queries, N, true);
	Edits edits(s, bias, keep, own.batch, own.head);
	Sides sides(s, q, k, v, d, own.batch, own.head);
	i64 line = ((i64)own.batch * s.heads + own.head) * s.queries;
	Totals<N> sums;
	sums.clear();
	C most[slots], part[slots], mean[slots], scale[slots];
#pragma unroll
	for (int i = 0; i < slots; i++) {
		const float *numbers = rows + 2 * (line + min(own.first + row(i), s.queries - 1));
		most[i] = numbers[0], part[i] = numbers[1], mean[i] = 0, scale[i] = (C)s.scale;
	}
#pragma unroll 1
	for (int pass = 0; pass < 2; pass++) {
		for (int key = 0; key < s.keys; key += tile_size) {
#ifdef HIDES
			bool sees = false;
#pragma unroll
			for (int i = 0; i < Grid::each; i++) sees |= edits.sees(own.first + row(Grid::slot(i)), key + Grid::column(i), most[Grid::slot(i)]);
			if (!any(sees)) continue;
#endif
			Grid weights, slopes;
			weights.multiply(sides.queries(), own.first, sides.keys(), key, s.size);
			slopes.multiply(sides.slopes(), own.first, sides.values(), key, s.valueSize);
#pragma unroll
			for (int i = 0; i < Grid::each; i++) {
				int slot = Grid::slot(i), query = own.first + row(slot), column = key + Grid::column(i);
				C &x = slopes.at(i);
				C w = weight(s, edits.score(weights.at(i), query, column), most[slot], part[slot]);
				if (!edits.real(query, column)) x = 0;
				else if (pass == 0) mean[slot] += w * x;
				else x = edits.keeps(query, column) ? w * (x - mean[slot]) : (C)0;
			}
			if (pass == 1) sums.add(slopes, sides.across_keys(), own.left, key, min(key + tile_size, s.keys));
		}
		if (pass == 1) break;
#pragma unroll
		for (int i = 0; i < slots; i++) {
			mean[i] = join(mean[i], Plus());
			int query = own.first + row(i);
			if (blockIdx.y == 0 && query < s.queries && Grid::column(0) == 0) means[line + query] = mean[i];
		}
	}
	sums.write(dq + line * s.size, own.first, s.queries, s.size, own.left, s.size, 1, scale);
}

// keys computes the gradients of keys and values. Rows of its tiles are keys; a head of keys sums
// over the heads of queries that share it, one after the other.
KERNEL_FOR(128, 2, keys, (T *dk, T *dv, const float *means, const T *q, const T *k, const T *v, const BIAS *bias, const u8 *keep, const float *rows, const T *d, const __grid_constant__ Flash s)) {
	constexpr int N = COLUMNS;
	__shared__ C numbers[3][tile_size]; // of the queries of a tile
	int groups = s.heads / s.shared;
	Block own(groups, s.keys, N, false);
	Totals<N> ofKeys, ofValues;
	ofKeys.clear();
	ofValues.clear();
	for (int head = own.head * s.shared; head < (own.head + 1) * s.shared; head++) {
		Edits edits(s, bias, keep, own.batch, head);
		Sides sides(s, q, k, v, d, own.batch, head);
		i64 line = ((i64)own.batch * s.heads + head) * s.queries;
		for (int query = 0; query < s.queries; query += tile_size) {
			int end = min(query + tile_size, s.queries);
			__syncthreads(); // the tile before needs its numbers no more
			if (threadIdx.x < end - query) {
				i64 at = line + query + threadIdx.x;
				numbers[0][threadIdx.x] = rows[2 * at], numbers[1][threadIdx.x] = rows[2 * at + 1], numbers[2][threadIdx.x] = means[at];
			}
			__syncthreads();
#ifdef HIDES
			bool sees = false;
#pragma unroll
			for (int i = 0; i < Grid::each; i++) sees |= query + Grid::column(i) < end && edits.sees(query + Grid::column(i), own.first + row(Grid::slot(i)), numbers[0][Grid::column(i)]);
			if (!any(sees)) continue;
#endif
			Grid weights, slopes;
			weights.multiply(sides.keys(), own.first, sides.queries(), query, s.size);
#pragma unroll
			for (int i = 0; i < Grid::each; i++) {
				int column = Grid::column(i), key = own.first + row(Grid::slot(i));
				C &w = weights.at(i);
				w = edits.real(query + column, key) ? weight(s, edits.score(w, query + column, key), numbers[0][column], numbers[1][column]) : (C)0;
			}
			if (own.left < s.valueSize) ofValues.add(weights, sides.across_slopes(), own.left, query, end);
			if (own.left >= s.size) continue;
			slopes.multiply(sides.values(), own.first, sides.slopes(), query, s.valueSize);
#pragma unroll
			for (int i = 0; i < Grid::each; i++) {
				int column = Grid::column(i), key = own.first + row(Grid::slot(i));
				C &x = slopes.at(i);
				x = edits.real(query + column, key) && edits.keeps(query + column, key) ? weights.at(i) * (x - numbers[2][column]) : (C)0;
			}
			ofKeys.add(slopes, sides.across_queries(), own.left, query, end);
		}
	}
	i64 group = (i64)own.batch * groups + own.head;
	C scale[slots], one[slots];
#pragma unroll
	for (int i = 0; i < slots; i++) scale[i] = (C)s.scale, one[i] = 1;
	ofKeys.write(dk + group * s.size * s.keys, own.first, s.keys, 1, own.left, s.size, s.keys, scale);
	ofValues.write(dv + group * s.keys * s.valueSize, own.first, s.keys, s.valueSize, own.left, s.valueSize, 1, one);
}
