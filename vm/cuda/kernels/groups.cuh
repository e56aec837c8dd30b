// Groups of elements that one result is computed from: those along some axes of a tensor.
#pragma once
#include "channels.cuh"

// Groups describes how groups are shared out to teams of threads, along x or y as in
// Lines. The axes are merged to three that are kept and three that are reduced, the last
// one the fastest; axes that are not there have length 1. Blocks of one y have the same
// part of each group.
struct Groups {
	int groups, terms; // the number of groups, and of elements of each
	int part;          // terms of a block of the grid's y
	int along;
	int kept[3], keptStep[3];
	int reduced[3], reducedStep[3];
	int by[3]; // the number of threads of a team, in digits of the reduced axes
};

// Group is what a thread has of a group.
struct Group {
	int number, at, first, by, end;
	bool real, leads;
	__device__ explicit Group(const Groups &g) {
		number = g.along ? blockIdx.x * blockDim.y + threadIdx.y : blockIdx.x * blockDim.x + threadIdx.x;
		real = number < g.groups;
		if (!real) number = g.groups - 1;
		int q = number / g.kept[2];
		at = (number - q * g.kept[2]) * g.keptStep[2] + q % g.kept[1] * g.keptStep[1] + q / g.kept[1] * g.keptStep[0];
		int rank = g.along ? threadIdx.x : threadIdx.y;
		by = g.along ? blockDim.x : blockDim.y;
		leads = real && rank == 0;
		first = blockIdx.y * g.part + rank;
		end = g.terms - blockIdx.y * g.part < g.part ? g.terms : (blockIdx.y + 1) * g.part;
	}
};

// gather adds the elements of a thread's part of a group to an accumulator. With D 1 only
// the last reduced axis is there. how is what the accumulator wants to know.
template <int D, class T, class A, class H> static __device__ void gather(A &sum, const T *x, const Groups &g, const Group &own, const H &how) {
	x += own.at;
	if (D == 1) {
#pragma unroll 4
		for (int t = own.first; t < own.end; t += own.by) sum.add(load(x + t * g.reducedStep[2]), how);
		return;
	}
	int q = own.first / g.reduced[2];
	int c2 = own.first - q * g.reduced[2], c1 = q % g.reduced[1], c0 = q / g.reduced[1];
#pragma unroll 4
	for (int t = own.first; t < own.end; t += own.by) {
		sum.add(load(x + c0 * g.reducedStep[0] + c1 * g.reducedStep[1] + c2 * g.reducedStep[2]), how);
		c2 += g.by[2];
		c1 += g.by[1];
		c0 += g.by[0];
		if (c2 >= g.reduced[2]) c2 -= g.reduced[2], c1++;
		if (c1 >= g.reduced[1]) c1 -= g.reduced[1], c0++;
	}
}

// merge joins the parts of group number, which lie groups apart; threads of one x share
// them.
template <class A> static __device__ A merge(A sum, const A *parts, int many, int groups, int number) {
	for (int p = threadIdx.y; p < many; p += blockDim.y) sum.join(parts[(i64)p * groups + number]);
	return team(sum, false, Join());
}
