// Package cu stands in for gorgonia.org/cu in the CUDA build of onnxmem. The original
// binds the driver with cgo and NVIDIA's headers; this one has the names that gorgonia's
// CUDA machine uses, over package driver, which opens the driver at run time. So the
// CUDA build needs a C compiler (gorgonia imports "C") and no CUDA. go.cuda.mod puts it
// in the original's place.
//
// Gorgonia's machine keeps the order of the nodes and calls CUDADo of each. Nodes, their
// memory and their launches are ours, so of a device gorgonia needs little, and gets
// only that:
//
//   - A context is the device's primary one, which the whole process shares: a second
//     one would take hundreds of megabytes of the device.
//   - The memory that an engine sets aside for outputs is the null address. Programs of
//     onnxmem leave no output to gorgonia, and gorgonia waits forever if such an
//     allocation fails: its cleaning up waits for a goroutine that it starts later.
//   - What only gorgonia's own operators ask for (modules, launches, copies, the
//     products of package cublas) is missing: it gives an error that wraps ErrMissing.
//
// The module requires nothing: it is only built as part of onnxmem's, whose modules have
// what it imports.
package cu
