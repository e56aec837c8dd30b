// What the driver and the library of a kernel both know. The driver sets the variables that a
// Library points to, and runs the fibres (fibres.h); the kernel's library has the variables,
// since an access to another library's costs more, and kernels read them all the time.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

namespace fake {

enum State { ready, at_block, at_warp, done };

struct Fibre {
	void *sp; // its stack pointer while it waits
	uint3 thread;
	unsigned index; // of the thread in its block
	unsigned exchanges;
	State state;
	const char *where; // it waits
	char *stack;
};

// Block is the block that runs.
struct Block {
	uint3 index;
	dim3 grid, size;
	unsigned threads, next;  // next is the first thread that no fibre has begun
	char *shared;            // dynamic
	uint64_t slots[2][1024]; // what the threads exchange, in turns
};

// Stub is what the driver knows of a kernel.
struct Stub {
	const char *name;
	unsigned count;      // of its parameters
	const size_t *sizes; // of them, in bytes
	void (*call)(void *);
};

// Library is how the driver reaches the variables of a kernel's library. The driver runs one
// launch at a time, so that these need not belong to a thread.
struct Library {
	Fibre **self;
	Block **block;
	uint64_t *float_atomics;
	void (**wait)(State, const char *);
};

} // namespace fake
