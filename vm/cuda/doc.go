// Package cuda is a GPU as a session of package vm uses it: its context, its memory,
// the modules that were compiled for it, and launches that are prepared once and run
// at every step. It knows nothing of operators. Package driver makes the calls;
// package kernels has the CUDA C.
//
// A context is current on a thread of the operating system. The methods that need one
// say so: they must be called between Enter and Leave, on one goroutine.
package cuda
