// Tests of packing by libonnxmem: this program has its two functions that the core calls. It prints
// the test that fails and ends with status 1.
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/plan.h"
#include "../src/session.h"
#include "check.h"

#undef ONNXMEM_API
#include "../../lib/onnxmem.h"

static int status; // of the next call
static size_t given;

static int entered[2], go_on[2]; // pipes; 0: the library does not wait while it is loaded

const char *onnxmem_version(void) {
	char c = 0;
	if (entered[1])
		CHECK(write(entered[1], &c, 1) == 1 && read(go_on[0], &c, 1) == 1);
	return ONNXMEM_VERSION;
}

// onnxmem_pack puts each buffer above those before it.
int onnxmem_pack(const onnxmem_buffers *b, const onnxmem_options *options, int64_t *offsets, onnxmem_packed *packed, int32_t *pools,
	uint8_t *infeasible, char *error, size_t error_bytes) {
	CHECK(b->struct_size == sizeof *b && !options && !pools && !infeasible && error_bytes > 20);
	strcpy(error, status ? "as it was told" : "");
	given = b->count;
	packed->arena = 0;
	packed->bound = 64;
	for (size_t i = 0; i < b->count; i++) {
		CHECK(b->lower[i] < b->upper[i] && b->size[i] > 0);
		offsets[i] = packed->arena;
		packed->arena += (b->size[i] + b->common_alignment - 1) / b->common_alignment * b->common_alignment;
	}
	return status;
}

// run records two blocks that live at once, and one that outlives the run.
static uint64_t run(onnxmem_session *s, void **kept) {
	onnxmem_run_begin(s, 1);
	void *a = memory_alloc(5000), *b = memory_alloc(70000);
	*kept = memory_alloc(3000);
	memory_free(a);
	memory_free(b);
	return onnxmem_run_end(1);
}

static struct onnxmem_memory memory(onnxmem_session *s) {
	struct onnxmem_memory m;
	onnxmem_memory_of(s, &m);
	return m;
}

struct call {
	onnxmem_session *session;
	uint64_t plan;
};

static void *load(void *of) {
	struct call *c = of;
	char error[200];
	CHECK(onnxmem_pack_plan(c->session, c->plan, "", error, sizeof error) == 0);
	return NULL;
}

// fork_while_loading: a child of a fork while another thread loads the library gets a status.
static void fork_while_loading(void) {
	char error[200] = "", c = 0;
	void *kept;
	struct call call = {.session = onnxmem_session_new(4, 0)};
	pthread_t thread;
	call.plan = run(call.session, &kept);
	memory_free(kept);
	CHECK(!pipe(entered) && !pipe(go_on) && !pthread_create(&thread, NULL, load, &call));
	CHECK(read(entered[0], &c, 1) == 1);
	pid_t child = fork();
	if (!child) {
		alarm(20); // a child that hangs ends by a signal
		int got = onnxmem_pack_plan(call.session, call.plan, "", error, sizeof error);
		_exit(got == ONNXMEM_FORKED && strstr(error, "exec") ? 0 : 1);
	}
	int ended;
	CHECK(waitpid(child, &ended, 0) == child && ended == 0);
	CHECK(write(go_on[1], &c, 1) == 1 && !pthread_join(thread, NULL));
	onnxmem_session_close(call.session);
}

int main(void) {
	char error[200];
	void *kept;
	test = "planner";
	memory_init();
	for (int outputs = 0; outputs < 2; outputs++) {
		onnxmem_session *s = onnxmem_session_new(4, outputs);
		uint64_t plan = run(s, &kept), offsets[3];
		memory_free(kept);
		if (!outputs) {
			CHECK(onnxmem_pack_plan(s, plan, "/nonexistent.so", error, sizeof error) == ONNXMEM_NOT_LOADED && strstr(error, "nonexistent"));
			CHECK(memory(s).lower_bound_bytes != 64);
			fork_while_loading();
		}
		strcpy(error, "untouched");
		CHECK(onnxmem_pack_plan(s, plan + 100, "/nonexistent.so", error, sizeof error) == 0); // the plan is gone, the library is there
		CHECK(!strcmp(error, "untouched") && memory(s).lower_bound_bytes != 64);
		status = ONNXMEM_FORKED;
		CHECK(onnxmem_pack_plan(s, plan, "", error, sizeof error) == ONNXMEM_FORKED && !strcmp(error, "as it was told"));
		CHECK(memory(s).lower_bound_bytes != 64);
		status = ONNXMEM_OK;
		CHECK(onnxmem_pack_plan(s, plan, "", error, sizeof error) == 0 && given == 2 + (size_t)outputs);
		CHECK(onnxmem_offsets(s, plan, offsets, 3) == 3 && offsets[0] == 0 && offsets[1] == 5056);
		CHECK(offsets[2] == (outputs ? 5056 + 70016 : OUTSIDE));
		CHECK(memory(s).packed_plans == 1 && memory(s).lower_bound_bytes == 64);
		run(s, &kept);
		memory_free(kept);
		CHECK(memory(s).hits == 2 + (uint64_t)outputs && memory(s).misses == 0);
		onnxmem_session_close(s);
	}
	return 0;
}
