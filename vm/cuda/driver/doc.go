// Package driver calls NVIDIA's driver library (libcuda), run-time compiler (NVRTC) and
// libraries of products (cuBLAS) and of convolutions (cuDNN), without cgo and without their
// headers. The libraries are opened when they are first needed, and each function is one call
// of the C interface. It has no policy: package cuda decides what is allocated, compiled and
// launched.
//
// Names are those of the CUDA Driver API without "cu", and its reference describes
// them. Errors are of type *Error. A context is current on one thread of the operating
// system: callers lock their goroutine to its thread (runtime.LockOSThread) and call
// SetCurrent there before any call that needs a context.
//
// The library is the one at ONNXMEM_LIBCUDA if that is set, else the system's. Builds
// with the tag nocuda, and builds for other systems than Linux and Windows, contain no
// way to open a library: Load then returns an error that wraps ErrNoDriver.
package driver
