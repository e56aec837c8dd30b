// Poison: an eight-byte pattern over bytes that nothing may read, and the search for the
// first byte that is no longer poison. Addresses and offsets are multiples of 8.
#include "prelude.cuh"

// Fills bytes that begin at a multiple of the pattern.
KERNEL(poison_fill, (u64 *at, i64 bytes, u64 pattern)) {
	i64 words = bytes / 8, step = (i64)gridDim.x * blockDim.x, first = blockIdx.x * (i64)blockDim.x + threadIdx.x;
	for (i64 i = first; i < words; i += step) at[i] = pattern;
	for (i64 i = words * 8 + first; i < bytes; i += step) ((u8 *)at)[i] = (u8)(pattern >> (i % 8 * 8));
}

// Sets *found to the index of the first byte that differs from the pattern, if it is
// smaller than what is there.
KERNEL(poison_find, (u64 *found, const u64 *at, i64 bytes, u64 pattern)) {
	i64 words = bytes / 8, step = (i64)gridDim.x * blockDim.x, first = blockIdx.x * (i64)blockDim.x + threadIdx.x;
	i64 lowest = bytes;
	for (i64 i = first; i < words && lowest == bytes; i += step)
		if (at[i] != pattern)
			for (int k = 7; k >= 0; k--)
				if ((u8)(at[i] >> (8 * k)) != (u8)(pattern >> (8 * k))) lowest = i * 8 + k;
	for (i64 i = words * 8 + first; i < bytes; i += step)
		if (((const u8 *)at)[i] != (u8)(pattern >> (i % 8 * 8)) && i < lowest) lowest = i;
	if (lowest < bytes) atomicMin(found, (u64)lowest);
}
