// What MiniMalloc takes as a static library: docs/results/library.md.
//
// In a clone of github.com/google/minimalloc with its submodule abseil-cpp, after
//
//     cmake -B b -DCMAKE_BUILD_TYPE=Release . && cmake --build b --target minimalloc_core
//     g++ -std=c++20 -O2 -s -Isrc -Iexternal/abseil-cpp .../bench/minimalloc_start.cc -o start -pthread
//         b/libminimalloc_core.a -Wl,--start-group $(find b/external -name '*.a') -Wl,--end-group
//     ./start [FILE.csv CAPACITY]...
//
// It prints the time of the first call, of later ones, and of each file, at most 10 s.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "converter.h"
#include "solver.h"

static double Now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static long ResidentKiB() {
  long pages = 0;
  std::ifstream("/proc/self/statm").ignore(99, ' ') >> pages;
  return pages * sysconf(_SC_PAGESIZE) / 1024;
}

int main(int argc, char** argv) {
  const long before = ResidentKiB();
  const double t0 = Now();
  minimalloc::Problem two;
  two.capacity = 6;
  two.buffers = {{.id = "a", .lifespan = {0, 1}, .size = 4}, {.id = "b", .lifespan = {0, 2}, .size = 2}};
  const bool placed = minimalloc::Solver().Solve(two).ok();
  const double t1 = Now();
  for (int i = 0; i < 1000; i++) (void)minimalloc::Solver().Solve(two);
  std::printf("placed %d: first call %.3f ms, a call of two buffers %.1f us, resident %ld KiB more\n", placed, t1 - t0, Now() - t1,
              ResidentKiB() - before);
  for (int i = 1; i + 1 < argc; i += 2) {
    std::stringstream text;
    text << std::ifstream(argv[i]).rdbuf();
    auto problem = minimalloc::FromCsv(text.str());
    if (!problem.ok()) {
      std::printf("%s: expected a file of buffers\n", argv[i]);
      return 1;
    }
    problem->capacity = std::atoll(argv[i + 1]);
    minimalloc::SolverParams params;
    params.timeout = absl::Seconds(10);
    const double began = Now();
    const bool found = minimalloc::Solver(params).Solve(*problem).ok();
    std::printf("%s: %zu buffers, placed %d, %.2f ms\n", argv[i], problem->buffers.size(), found, Now() - began);
  }
}
