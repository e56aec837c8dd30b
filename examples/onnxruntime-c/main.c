/* Runs a file of "onnxmem optimize --runtime onnxruntime --order default" by ONNX Runtime's
 * C API, once, with inputs of zeros, and writes the runtime's profile, which names the nodes
 * in the order in which they ran. No option sets that order: it follows from the file.
 *
 *     cc -I $HEADERS main.c -o ort-default -L $LIBRARY -lonnxruntime
 *     ./ort-default listed.onnx trace       # prints the profile's name
 */
#include "onnxruntime_c_api.h"

#include <stdio.h>
#include <stdlib.h>

static const OrtApi *api;

static void check(OrtStatus *status) {
	if (status == NULL)
		return;
	fprintf(stderr, "ort-default: %s\n", api->GetErrorMessage(status));
	exit(1);
}

/* zeros makes an input of the session: a float tensor, each open dimension of which is 1. */
static OrtValue *zeros(const OrtSession *session, size_t input, OrtAllocator *allocator) {
	OrtTypeInfo *type;
	const OrtTensorTypeAndShapeInfo *shape;
	size_t rank;
	int64_t dims[16];
	ONNXTensorElementDataType element;
	OrtValue *value;
	check(api->SessionGetInputTypeInfo(session, input, &type));
	check(api->CastTypeInfoToTensorInfo(type, &shape));
	check(api->GetTensorElementType(shape, &element));
	check(api->GetDimensionsCount(shape, &rank));
	if (element != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || rank > 16) {
		fprintf(stderr, "ort-default: input %zu: expected a float32 tensor of at most 16 dimensions\n", input);
		exit(1);
	}
	check(api->GetDimensions(shape, dims, rank));
	size_t count = 1;
	for (size_t i = 0; i < rank; i++) {
		if (dims[i] < 1)
			dims[i] = 1;
		count *= (size_t)dims[i];
	}
	check(api->CreateTensorAsOrtValue(allocator, dims, rank, element, &value));
	float *data;
	check(api->GetTensorMutableData(value, (void **)&data));
	for (size_t i = 0; i < count; i++)
		data[i] = 0;
	api->ReleaseTypeInfo(type);
	return value;
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fprintf(stderr, "usage: ort-default MODEL.onnx TRACE\n");
		return 2;
	}
	api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
	if (api == NULL) {
		fprintf(stderr, "ort-default: the library is older than the header: it is %s\n", OrtGetApiBase()->GetVersionString());
		return 1;
	}
	OrtEnv *env;
	OrtSessionOptions *options;
	OrtSession *session;
	OrtAllocator *allocator;
	check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "ort-default", &env));
	check(api->CreateSessionOptions(&options));
	/* The graph must stay as it is in the file: optimizations would give it other nodes. */
	check(api->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
	check(api->EnableProfiling(options, argv[2]));
	check(api->CreateSession(env, argv[1], options, &session));
	check(api->GetAllocatorWithDefaultOptions(&allocator));

	size_t inputs, outputs;
	check(api->SessionGetInputCount(session, &inputs));
	check(api->SessionGetOutputCount(session, &outputs));
	const char **in = calloc(inputs + 1, sizeof *in), **out = calloc(outputs + 1, sizeof *out);
	OrtValue **given = calloc(inputs + 1, sizeof *given), **made = calloc(outputs + 1, sizeof *made);
	for (size_t i = 0; i < inputs; i++) {
		check(api->SessionGetInputName(session, i, allocator, (char **)&in[i]));
		given[i] = zeros(session, i, allocator);
	}
	for (size_t i = 0; i < outputs; i++)
		check(api->SessionGetOutputName(session, i, allocator, (char **)&out[i]));
	check(api->Run(session, NULL, in, (const OrtValue *const *)given, inputs, out, outputs, made));

	char *trace;
	check(api->SessionEndProfiling(session, allocator, &trace));
	printf("%s\n", trace);
	for (size_t i = 0; i < inputs; i++)
		api->ReleaseValue(given[i]);
	for (size_t i = 0; i < outputs; i++)
		api->ReleaseValue(made[i]);
	api->ReleaseSession(session);
	api->ReleaseSessionOptions(options);
	api->ReleaseEnv(env);
	return 0;
}
