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

// GRANULE is a multiple of the systems' pages: parts of a reservation begin and end at its
// multiples.
#define GRANULE (64 << 10)

// os_reserve returns addresses that nothing else gets, or NULL. They take no memory, and
// must not be touched.
void *os_reserve(size_t size);

// os_commit makes a part of a reservation usable: it has zeros, which take memory once
// they are touched. It returns 0 if the system refuses.
int os_commit(void *pages, size_t size);

// os_discard gives the memory of a usable part back to the system, but not the addresses:
// it has zeros again.
void os_discard(void *pages, size_t size);

// os_unreserve gives all of a reservation back.
void os_unreserve(void *pages, size_t size);

// os_reservable returns how many bytes of addresses a reservation may take, where they
// are limited (RLIMIT_AS): a small part of that; otherwise most.
size_t os_reservable(size_t most);

// os_trim gives the pages back to the system in which nothing of malloc lives (glibc; elsewhere
// it does nothing).
void os_trim(void);

// os_stay keeps this library in the process until it ends: ONNX Runtime calls it for as
// long as the process has blocks, and closes libraries of operators with a session.
void os_stay(void);

// os_open loads a library, and returns NULL with the reason in error if it cannot; "" is this
// program itself, for tests. os_symbol returns what a library exports by a name, or NULL.
void *os_open(const char *path, char *error, size_t room);
void *os_symbol(void *library, const char *name);

// os_at_fork calls before in a process that forks, then parent and child in the two.
void os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

#endif
