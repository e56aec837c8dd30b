#ifndef _WIN32
#define _GNU_SOURCE // MAP_ANONYMOUS, dladdr
#endif
#include "os.h"

#ifdef _WIN32

void *os_map(size_t size) { return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void os_unmap(void *pages, size_t size) {
	(void)size;
	VirtualFree(pages, 0, MEM_RELEASE);
}

void os_discard(void *pages, size_t size) {
	if (VirtualFree(pages, size, MEM_DECOMMIT))
		VirtualAlloc(pages, size, MEM_COMMIT, PAGE_READWRITE);
}

void os_stay(void) {
	HMODULE self;
	GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, (LPCWSTR)(void *)&os_stay, &self);
}

// Windows has no fork.
void os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
	(void)before;
	(void)parent;
	(void)child;
}

#else

#include <dlfcn.h>
#include <sys/mman.h>

void *os_map(size_t size) {
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return pages == MAP_FAILED ? NULL : pages;
}

void os_unmap(void *pages, size_t size) { munmap(pages, size); }

void os_discard(void *pages, size_t size) { madvise(pages, size, MADV_DONTNEED); }

void os_stay(void) {
	static int self; // an address of this library
	Dl_info info;
	if (dladdr(&self, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

void os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) { pthread_atfork(before, parent, child); }

#endif
