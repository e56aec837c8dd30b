// What the systems name differently: a lock, pages, a hook for fork.
#ifndef ONNXMEM_OS_H
#define ONNXMEM_OS_H

#include <stddef.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef SRWLOCK os_lock;
#define OS_LOCK_INIT SRWLOCK_INIT
#define os_acquire(lock) AcquireSRWLockExclusive(lock)
#define os_release(lock) ReleaseSRWLockExclusive(lock)
#else
#include <pthread.h>
typedef pthread_mutex_t os_lock;
#define OS_LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define os_acquire(lock) pthread_mutex_lock(lock)
#define os_release(lock) pthread_mutex_unlock(lock)
#endif

// os_map returns pages of zeros that take memory once they are touched, or NULL.
void *os_map(size_t size);

// os_unmap gives all pages of an os_map back to the system.
void os_unmap(void *pages, size_t size);

// os_discard gives the memory of an os_map back to the system, but not the addresses:
// what stood there is lost.
void os_discard(void *pages, size_t size);

// os_stay keeps this library in the process until it ends: ONNX Runtime calls it for as
// long as the process has blocks, and closes libraries of operators with a session.
void os_stay(void);

// os_at_fork calls before in a process that forks, then parent and child in the two.
void os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

#endif
