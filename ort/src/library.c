// What ONNX Runtime calls when it loads this library as one of custom operators: it has
// none, but registers our allocator with the process's environment.
#include <stdio.h>
#include <string.h>

#include "../../third_party/onnxruntime/onnxruntime_c_api.h"
#include "os.h"
#include "session.h"

// API is the oldest version of the interface whose allocators have Reserve. Versions
// only append to the interface, so a header of a later one describes it, too.
#define API 18

static OrtMemoryInfo *info;
static char status[256] = "ONNX Runtime has not loaded this library";

static void *ORT_API_CALL alloc(OrtAllocator *a, size_t size) {
	(void)a;
	return memory_alloc(size);
}

static void *ORT_API_CALL reserve(OrtAllocator *a, size_t size) {
	(void)a;
	return memory_reserve(size);
}

static void ORT_API_CALL release(OrtAllocator *a, void *bytes) {
	(void)a;
	memory_free(bytes);
}

static const OrtMemoryInfo *ORT_API_CALL place(const OrtAllocator *a) {
	(void)a;
	return info;
}

static OrtAllocator allocator = {.version = API, .Alloc = alloc, .Free = release, .Info = place, .Reserve = reserve};

const char *onnxmem_status(void) { return status; }

ONNXMEM_API OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);

// RegisterCustomOps is called once per load; the first call that succeeds is the one
// that counts. The environment stays: it has our allocator, and ends with the process.
OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
	(void)options;
	if (!*status)
		return NULL;
	const OrtApi *api = base->GetApi(API);
	if (!api) {
		snprintf(status, sizeof status, "ONNX Runtime %s is too old: expected 1.%d or later", base->GetVersionString(), API);
		return NULL;
	}
	os_stay();
	memory_init();
	OrtEnv *env = NULL;
	OrtStatus *failed = api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "onnxmem", &env);
	if (!failed)
		failed = api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info);
	if (!failed)
		failed = api->RegisterAllocator(env, &allocator);
	snprintf(status, sizeof status, "%s", failed ? api->GetErrorMessage(failed) : "");
	return failed;
}
