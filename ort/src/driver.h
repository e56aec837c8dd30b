// What is taken of NVIDIA's driver, libcuda, which is opened at run time. Linux only.
//
// Every call makes the device's primary context current, the one that PyTorch uses, and
// leaves the thread with the context that it had. Calls are allowed while a stream of the
// process is captured into a graph.
#ifndef ONNXMEM_DRIVER_H
#define ONNXMEM_DRIVER_H

#include <stddef.h>
#include <stdint.h>

// driver_open opens a library, and returns 0 with the reason in error if it is no driver
// or finds no device. NULL is libcuda.so.1; "" is this program itself, for tests.
int driver_open(const char *library, char *error, size_t room);

// driver_alloc returns size bytes of a device, aligned to 256, or NULL.
void *driver_alloc(int device, uint64_t size);

// driver_free waits until the device is done with what it was given, and takes the bytes
// back.
void driver_free(int device, void *bytes);

// driver_follow makes what stream is given from now on wait for what other was given so
// far. It returns 0 if it cannot.
int driver_follow(int device, void *stream, void *other);

// driver_captures reports whether a stream is being captured into a graph: what is
// allocated then is used whenever the graph runs.
int driver_captures(void *stream);

#endif
