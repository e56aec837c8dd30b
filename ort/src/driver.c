#ifdef __linux__
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>

#include "os.h"

// DEVICES is how many devices of a process can be used.
#define DEVICES 64

// Values of CUDA's enumerations.
enum {
	CAPTURE_RELAXED = 2,
	EVENT_DISABLE_TIMING = 2,
};

typedef void *handle;

// The entries, by the names that libcuda exports; these never change their meaning. The
// last two are absent before CUDA 10.
static int (*cuInit)(unsigned);
static int (*cuDeviceGetCount)(int *);
static int (*cuDeviceGet)(int *, int);
static int (*cuDevicePrimaryCtxRetain)(handle *, int);
static int (*cuCtxGetCurrent)(handle *);
static int (*cuCtxSetCurrent)(handle);
static int (*cuMemAlloc)(uint64_t *, size_t);
static int (*cuMemFree)(uint64_t);
static int (*cuEventCreate)(handle *, unsigned);
static int (*cuEventRecord)(handle, handle);
static int (*cuEventDestroy)(handle);
static int (*cuStreamWaitEvent)(handle, handle, unsigned);
static int (*cuStreamIsCapturing)(handle, int *);
static int (*cuThreadExchangeStreamCaptureMode)(int *);

static const struct {
	const char *name;
	void **entry;
	int optional;
} entries[] = {
	{"cuInit", (void **)&cuInit, 0},
	{"cuDeviceGetCount", (void **)&cuDeviceGetCount, 0},
	{"cuDeviceGet", (void **)&cuDeviceGet, 0},
	{"cuDevicePrimaryCtxRetain", (void **)&cuDevicePrimaryCtxRetain, 0},
	{"cuCtxGetCurrent", (void **)&cuCtxGetCurrent, 0},
	{"cuCtxSetCurrent", (void **)&cuCtxSetCurrent, 0},
	{"cuMemAlloc_v2", (void **)&cuMemAlloc, 0},
	{"cuMemFree_v2", (void **)&cuMemFree, 0},
	{"cuEventCreate", (void **)&cuEventCreate, 0},
	{"cuEventRecord", (void **)&cuEventRecord, 0},
	{"cuEventDestroy_v2", (void **)&cuEventDestroy, 0},
	{"cuStreamWaitEvent", (void **)&cuStreamWaitEvent, 0},
	{"cuStreamIsCapturing", (void **)&cuStreamIsCapturing, 1},
	{"cuThreadExchangeStreamCaptureMode", (void **)&cuThreadExchangeStreamCaptureMode, 1},
};

static os_lock lock = OS_LOCK_INIT; // guards contexts
static handle contexts[DEVICES];    // primary ones, kept until the process ends

int driver_open(const char *library, char *error, size_t room) {
	const char *name = library && *library ? library : "libcuda.so.1";
	void *lib = dlopen(library && !*library ? NULL : name, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(error, room, "no driver of NVIDIA: %s", dlerror());
		return 0;
	}
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		*entries[i].entry = dlsym(lib, entries[i].name);
		if (!*entries[i].entry && !entries[i].optional) {
			snprintf(error, room, "%s: expected the entry %s", name, entries[i].name);
			return 0;
		}
	}
	int count = 0, failed = cuInit(0);
	if (failed || (failed = cuDeviceGetCount(&count)) || !count) {
		snprintf(error, room, "%s: no GPU (CUDA error %d)", name, failed);
		return 0;
	}
	return 1;
}

// primary returns the primary context of a device, or NULL.
static handle primary(int device) {
	if (device < 0 || device >= DEVICES)
		return NULL;
	os_acquire(&lock);
	int number;
	if (!contexts[device] && (cuDeviceGet(&number, device) || cuDevicePrimaryCtxRetain(&contexts[device], number)))
		contexts[device] = NULL;
	handle c = contexts[device];
	os_release(&lock);
	return c;
}

// What a thread had before a call.
struct before {
	handle context;
	int mode, switched;
};

// enter prepares a thread for calls to a device; 0 if the device cannot be used, and then
// leave must not be called.
static int enter(int device, struct before *b) {
	handle c = primary(device);
	if (!c || cuCtxGetCurrent(&b->context))
		return 0;
	b->switched = b->context != c;
	if (b->switched && cuCtxSetCurrent(c))
		return 0;
	b->mode = CAPTURE_RELAXED;
	if (cuThreadExchangeStreamCaptureMode)
		cuThreadExchangeStreamCaptureMode(&b->mode);
	return 1;
}

static void leave(struct before *b) {
	if (cuThreadExchangeStreamCaptureMode)
		cuThreadExchangeStreamCaptureMode(&b->mode);
	if (b->switched)
		cuCtxSetCurrent(b->context);
}

void *driver_alloc(int device, uint64_t size) {
	struct before b;
	uint64_t address = 0;
	if (!enter(device, &b))
		return NULL;
	int failed = cuMemAlloc(&address, size);
	leave(&b);
	return failed ? NULL : (void *)(uintptr_t)address;
}

void driver_free(int device, void *bytes) {
	struct before b;
	if (!enter(device, &b))
		return; // the process ends: the driver has the memory back
	cuMemFree((uintptr_t)bytes);
	leave(&b);
}

int driver_follow(int device, void *stream, void *other) {
	struct before b;
	handle event;
	if (!enter(device, &b))
		return 0;
	int failed = cuEventCreate(&event, EVENT_DISABLE_TIMING);
	if (!failed) {
		failed = cuEventRecord(event, other) || cuStreamWaitEvent(stream, event, 0);
		cuEventDestroy(event); // the driver keeps it until nobody waits
	}
	leave(&b);
	return !failed;
}

int driver_captures(void *stream) {
	int state = 0;
	// The default stream (NULL) cannot be captured.
	return stream && cuStreamIsCapturing && !cuStreamIsCapturing(stream, &state) && state;
}
#else
typedef int only_on_linux; // C wants a declaration in every file
#endif
