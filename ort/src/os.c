#ifndef _WIN32
#define _GNU_SOURCE // MAP_ANONYMOUS, dladdr
#endif
#include "os.h"

#include <stdio.h>

#ifdef _WIN32

void *os_reserve(size_t size) { return VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS); }

int os_commit(void *pages, size_t size) { return VirtualAlloc(pages, size, MEM_COMMIT, PAGE_READWRITE) != NULL; }

void os_unreserve(void *pages, size_t size) {
	(void)size;
	VirtualFree(pages, 0, MEM_RELEASE);
}

size_t os_reservable(size_t most) { return most; }

void os_discard(void *pages, size_t size) {
	if (VirtualFree(pages, size, MEM_DECOMMIT))
		VirtualAlloc(pages, size, MEM_COMMIT, PAGE_READWRITE);
}

void os_trim(void) {}

void os_stay(void) {
	HMODULE self;
	GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, (LPCWSTR)(void *)&os_stay, &self);
}

void *os_open(const char *path, char *error, size_t room) {
	wchar_t name[MAX_PATH];
	HMODULE library = NULL;
	if (MultiByteToWideChar(CP_UTF8, 0, path, -1, name, MAX_PATH))
		library = LoadLibraryW(name);
	if (!library)
		snprintf(error, room, "%s: cannot be loaded (error %lu)", path, GetLastError());
	return (void *)library;
}

void *os_symbol(void *library, const char *name) { return (void *)GetProcAddress((HMODULE)library, name); }

// Windows has no fork.
void os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
	(void)before;
	(void)parent;
	(void)child;
}

#else

#include <dlfcn.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <sys/resource.h>

// Not all systems have this flag.
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

// SHARE of limited addresses is what one reservation may take: a process may have many.
#define SHARE 256

// Pages without access count nowhere as memory that the process was promised.
void *os_reserve(size_t size) {
	void *pages = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return pages == MAP_FAILED ? NULL : pages;
}

int os_commit(void *pages, size_t size) { return mprotect(pages, size, PROT_READ | PROT_WRITE) == 0; }

void os_unreserve(void *pages, size_t size) { munmap(pages, size); }

size_t os_reservable(size_t most) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur / SHARE >= most)
		return most;
	return (size_t)limit.rlim_cur / SHARE;
}

// Linux has the pages back at once. Elsewhere, MADV_DONTNEED is advice for later, and new
// pages in the place of the old ones are what gives those back.
void os_discard(void *pages, size_t size) {
#ifdef __linux__
	madvise(pages, size, MADV_DONTNEED);
#else
	mmap(pages, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#endif
}

void os_trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

void os_stay(void) {
	static int self; // an address of this library
	Dl_info info;
	if (dladdr(&self, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

void *os_open(const char *path, char *error, size_t room) {
	void *library = dlopen(*path ? path : NULL, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		snprintf(error, room, "%s", dlerror());
	return library;
}

void *os_symbol(void *library, const char *name) { return dlsym(library, name); }

void os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) { pthread_atfork(before, parent, child); }

#endif
