// GatherBlockQuantized: slices of a table of packed numbers, as real ones. ELEMENT is the
// type of the scales and of y, INDEX that of the indices, and BITS the bits of a number.
#include "index.cuh"

typedef ELEMENT T;

// Table describes y, [outer][many][inner] like Gather's, of a table of numbers,
// [outer][slices][inner]. Along one axis, of length numbers with after behind each, these lie
// in blocks.
struct Table {
	u32 total, slices;
	Divider inner, many, after, length, last;
	int blocks, shift; // of the axis; of 1 << shift numbers
	int sign;          // 0, or 8 for numbers of two's complement
	int middle;        // the zero point where none is given
	int padded;        // zero points of a row of last ones, the last of which fills its byte
};

static __device__ __forceinline__ int number(const u8 *p, u32 i) { return p[i / (8 / BITS)] >> i % (8 / BITS) * BITS & ((1 << BITS) - 1); }

// An index out of range gives zeros.
KERNEL(gather_numbers, (T *__restrict__ y, const u8 *__restrict__ numbers, const INDEX *__restrict__ index, const T *__restrict__ scales, const u8 *__restrict__ zeros, Table s)) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < s.total; i += gridDim.x * blockDim.x) {
		u32 row = s.inner.quotient(i), j = i - row * s.inner.by;
		u32 o = s.many.quotient(row), p = row - o * s.many.by, k;
		float v = 0;
		if (within(index[p], s.slices, k)) {
			u32 e = (o * s.slices + k) * s.inner.by + j;
			u32 before = s.after.quotient(e), line = s.length.quotient(before);
			u32 b = (line * s.blocks + ((before - line * s.length.by) >> s.shift)) * s.after.by + (e - before * s.after.by);
			int zero = s.middle;
			if (zeros) {
				u32 top = s.last.quotient(b);
				zero = (number(zeros, top * s.padded + (b - top * s.last.by)) ^ s.sign) - s.sign;
			}
			v = (float)(((number(numbers, e) ^ s.sign) - s.sign) - zero) * load(scales + b);
		}
		store(y + i, v);
	}
}
