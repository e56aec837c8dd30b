// EmbedLayerNormalization: sums of rows of tables, and the ones of a mask.
#include "index.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

// Tokens are what is summed: count elements, width of each of the tokens, length tokens of each
// sequence. places has one of a token for each, or, if shared, of each token of a sequence.
struct Tokens {
	u32 count, tokens;
	Divider width, length;
	u32 words, positions, segments; // rows of the tables
	int shared;
};

// embed adds up a row of words, one of positions and one of segments, which may be null, for each
// token. A row that a table does not have is 0, and reported: of words, places and parts in turn.
KERNEL(embed, (T *__restrict__ y, const T *__restrict__ words, const T *__restrict__ positions, const T *__restrict__ segments, const int *__restrict__ ids, const int *__restrict__ places, const int *__restrict__ parts, Tokens s, Faults faults)) {
	for (u32 e = blockIdx.x * blockDim.x + threadIdx.x; e < s.count; e += gridDim.x * blockDim.x) {
		u32 token = s.width.quotient(e), j = e - token * s.width.by;
		u32 place = token - s.length.quotient(token) * s.length.by;
		if (places) place = (u32)places[s.shared ? place : token]; // a negative one is far too large
		u32 word = (u32)ids[token];
		C v = 0;
		if (word < s.words) v += load(words + ((i64)word * s.width.by + j));
		else faults.report(token);
		if (place < s.positions) v += load(positions + ((i64)place * s.width.by + j));
		else faults.report(s.tokens + token);
		if (segments) {
			u32 part = (u32)parts[token];
			if (part < s.segments) v += load(segments + ((i64)part * s.width.by + j));
			else faults.report(2 * s.tokens + token);
		}
		store(y + e, v);
	}
}

// ones counts the ones in each line of a mask; a null one has none.
KERNEL(ones, (int *__restrict__ counts, const int *__restrict__ mask, u32 lines, u32 length)) {
	for (u32 b = blockIdx.x * blockDim.x + threadIdx.x; b < lines; b += gridDim.x * blockDim.x) {
		int n = 0;
		for (u32 i = 0; mask && i < length; i++) n += mask[(i64)b * length + i] == 1;
		counts[b] = n;
	}
}
