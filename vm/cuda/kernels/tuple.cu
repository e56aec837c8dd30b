// Tuples of indices, as GatherND and ScatterND have them.
#include "index.cuh"

struct Lengths { u32 n[8], step[8]; };

// Finds the slice that each of count tuples of depth indices means: a number, or the
// least int for a tuple with an index outside of its axis. Each batch has tuples
// tuples, and slices slices.
KERNEL(tuples, (int *__restrict__ slice, const INDEX *__restrict__ index, u32 count, u32 depth, Lengths axes, Divider tuples, u32 slices, Faults faults)) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		u32 at = tuples.quotient(i) * slices, k;
		bool inside = true;
		for (u32 a = 0; a < depth; a++) {
			if (within(index[i * depth + a], axes.n[a], k)) {
				at += k * axes.step[a];
			} else {
				if (inside) faults.report(i * depth + a);
				inside = false;
			}
		}
		slice[i] = inside ? (int)at : (int)0x80000000;
	}
}
