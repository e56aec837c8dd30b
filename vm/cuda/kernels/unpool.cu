// MaxUnpool: elements at given places. ELEMENT is an unsigned integer as wide as the elements.
#include "index.cuh"

typedef ELEMENT T;

struct Lengths { u32 n[8], step[8]; };

// clear zeroes the words that choose raises.
KERNEL(clear, (u32 *from, u32 count)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) from[o] = 0;
}

// choose finds for each element of the output the last of count elements that has its place,
// and counts from 1. Places count the elements of an image with the given lengths, and inside
// has those of the output with its steps.
KERNEL(choose, (u32 *from, const i64 *places, u32 count, int axes, Lengths image, Lengths inside, Faults faults)) {
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		i64 rest = places[i];
		bool within = rest >= 0;
		u32 at = 0;
		for (int a = axes - 1; a >= 0; a--) {
			i64 k = a > 0 ? rest % image.n[a] : rest;
			within = within && k < inside.n[a];
			if (within) at += (u32)k * inside.step[a];
			rest /= image.n[a];
		}
		if (within) atomicMax(from + at, i + 1);
		else faults.report(i);
	}
}

KERNEL(place, (T *y, const T *x, const u32 *from, u32 count)) {
	for (u32 o = blockIdx.x * blockDim.x + threadIdx.x; o < count; o += gridDim.x * blockDim.x) {
		u32 i = from[o];
		y[o] = i ? x[i - 1] : (T)0;
	}
}
