// CUDA's threads as fibres of one thread of the operating system, which runs the blocks of a
// launch one after another. Fibres are switched only where they wait: at barriers and warp
// operations. A kernel that never waits runs as a plain loop over its threads.
#pragma once
#include "shared.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace fake {

// Running is the block that runs, with what kernels do not see.
struct Running : Block {
	const Library *library;
	const Stub *kernel;
	void **params;
	std::vector<Fibre *> fibres, spare;
	void *scheduler;            // the stack pointer of run_block
	unsigned alive_in_warp[32]; // threads that have not ended
};

static Running *block;
static thread_local bool running; // this thread of the operating system runs a kernel

static Fibre *&self() { return *block->library->self; }

#if !defined(__x86_64__)
#error "fibres are switched by x86-64 instructions"
#endif
extern "C" __attribute__((visibility("hidden"))) void fake_switch(void **from, void *to);
// Saves the registers that a function must keep, and goes on where the other fibre stopped.
asm(R"(
.text
.globl fake_switch
.hidden fake_switch
.type fake_switch,@function
fake_switch:
 push %rbp
 push %rbx
 push %r12
 push %r13
 push %r14
 push %r15
 mov %rsp,(%rdi)
 mov %rsi,%rsp
 pop %r15
 pop %r14
 pop %r13
 pop %r12
 pop %rbx
 pop %rbp
 ret
)");

static const size_t stack_bytes = 64 << 10;
static const uint64_t stack_end = 0x7374616b5f656e64; // lies at the end of each stack; guard pages would be too many mappings

// begin_thread gives a fibre the next thread of the block.
static void begin_thread(Fibre *f) {
	Running *b = block;
	unsigned i = b->next++;
	f->index = i;
	f->exchanges = 0;
	f->state = ready;
	f->thread = {i % b->size.x, i / b->size.x % b->size.y, i / (b->size.x * b->size.y)};
	self() = f;
}

// entry is where a fibre begins. It runs one thread after another, as long as none waits.
static void entry() {
	for (;;) {
		block->kernel->call(block->params);
		Fibre *f = self();
		f->state = done;
		block->alive_in_warp[f->index / 32]--;
		if (block->next < block->threads) begin_thread(f);
		else fake_switch(&f->sp, block->scheduler);
	}
}

static Fibre *new_fibre() {
	Running *b = block;
	Fibre *f;
	if (b->spare.empty()) {
		f = new Fibre;
		f->stack = (char *)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(f->stack, &stack_end, sizeof stack_end);
	} else {
		f = b->spare.back();
		b->spare.pop_back();
	}
	void **sp = (void **)(f->stack + stack_bytes) - 1;
	*--sp = (void *)entry; // the switch returns there
	for (int i = 0; i < 6; i++) *--sp = nullptr;
	f->sp = sp;
	b->fibres.push_back(f);
	return f;
}

// wait stops the thread until all that must have reached the same kind of barrier.
static void wait(State s, const char *where) {
	Fibre *f = self();
	f->state = s;
	f->where = where;
	fake_switch(&f->sp, block->scheduler);
	self() = f;
}

// release lets threads go on for which everybody has come. It reports false if there are
// none.
static bool release() {
	Running *b = block;
	unsigned alive = 0, waiting = 0, in_warp[32] = {};
	for (Fibre *f : b->fibres) {
		alive += f->state != done;
		waiting += f->state == at_block;
		if (f->state == at_warp) in_warp[f->index / 32]++;
	}
	if (waiting == alive) {
		for (Fibre *f : b->fibres)
			if (f->state == at_block) f->state = ready;
		return alive > 0;
	}
	for (unsigned w = 0; w < 32; w++) {
		if (in_warp[w] == 0 || in_warp[w] != b->alive_in_warp[w]) continue;
		for (Fibre *f : b->fibres)
			if (f->state == at_warp && f->index / 32 == w) f->state = ready;
		return true;
	}
	return false;
}

// stuck ends the process: some threads wait where others never come.
static void stuck() {
	Running *b = block;
	fprintf(stderr, "fake cuda: %s: block %u,%u,%u: threads wait at different barriers:", b->kernel->name, b->index.x, b->index.y, b->index.z);
	for (Fibre *f : b->fibres)
		if (f->state != done) fprintf(stderr, " thread %u at the %s barrier of %s;", f->index, f->state == at_block ? "block" : "warp", f->where);
	fprintf(stderr, "\n");
	abort();
}

// check_stack ends the process if a thread's variables did not fit.
static void check_stack(const Fibre *f) {
	if (!memcmp(f->stack, &stack_end, sizeof stack_end)) return;
	fprintf(stderr, "fake cuda: %s: a thread has more than %zu bytes of variables\n", block->kernel->name, stack_bytes);
	abort();
}

static void run_block() {
	Running *b = block;
	for (unsigned w = 0; w < 32; w++) b->alive_in_warp[w] = b->threads > w * 32 ? std::min(32u, b->threads - w * 32) : 0;
	b->next = 0;
	for (;;) {
		bool ran = b->next < b->threads;
		while (b->next < b->threads) {
			Fibre *f = new_fibre();
			begin_thread(f);
			fake_switch(&b->scheduler, f->sp);
		}
		for (size_t i = 0; i < b->fibres.size(); i++) {
			Fibre *f = b->fibres[i];
			if (f->state != ready) continue;
			self() = f;
			fake_switch(&b->scheduler, f->sp);
			ran = true;
		}
		if (ran || release()) continue;
		bool ended = std::all_of(b->fibres.begin(), b->fibres.end(), [](Fibre *f) { return f->state == done; });
		if (!ended) stuck();
		break;
	}
	for (const Fibre *f : b->fibres) check_stack(f);
	b->spare.insert(b->spare.end(), b->fibres.begin(), b->fibres.end());
	b->fibres.clear();
}

// Signals are the faults that a kernel may cause: an access outside of memory, and a division
// of integers by 0.
static const int signals[2] = {SIGSEGV, SIGFPE};
static struct sigaction before[2];

// fault names the kernel that causes a signal and ends the process. A signal of another
// thread is not ours: what caused it is done again, under the handler before.
static void fault(int number, siginfo_t *info, void *) {
	if (!running) {
		sigaction(number, &before[number == SIGFPE], nullptr);
		return;
	}
	char what[64], text[400];
	if (number == SIGFPE) snprintf(what, sizeof what, "divides by 0");
	else snprintf(what, sizeof what, "touches %p, outside of the device's memory", info->si_addr);
	int n = snprintf(text, sizeof text, "fake cuda: %s: block %u,%u,%u: thread %u %s\n", block->kernel->name, block->index.x, block->index.y, block->index.z, self()->index, what);
	(void)!write(2, text, n);
	_exit(134);
}

static void launch(const Library *library, const Stub *k, void **params, const unsigned *grid, const unsigned *size, size_t shared) {
	static Running *mine; // with its spare fibres
	if (!mine) mine = new Running();
	Running *b = block = mine;
	b->library = library;
	*library->block = b;
	*library->wait = wait;
	b->kernel = k;
	b->params = params;
	b->grid = {grid[0], grid[1], grid[2]};
	b->size = {size[0], size[1], size[2]};
	b->threads = size[0] * size[1] * size[2];
	std::vector<char> room(shared + 16);
	b->shared = (char *)(((uintptr_t)room.data() + 15) & ~(uintptr_t)15);
	struct sigaction ours = {};
	ours.sa_sigaction = fault;
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
	for (int i = 0; i < 2; i++) sigaction(signals[i], &ours, &before[i]);
	running = true;
	for (unsigned z = 0; z < grid[2]; z++)
		for (unsigned y = 0; y < grid[1]; y++)
			for (unsigned x = 0; x < grid[0]; x++) {
				b->index = {x, y, z};
				if (shared) memset(b->shared, 0xff, shared);
				run_block();
			}
	running = false;
	for (int i = 0; i < 2; i++) sigaction(signals[i], &before[i], nullptr);
}

} // namespace fake
