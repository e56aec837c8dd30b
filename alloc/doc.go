// Package alloc gives buffers with fixed lifetimes their offsets in one arena,
// so that no two that are live together overlap and the arena is small.
//
// It knows sizes and lifetimes, nothing else. Four buffers, steps to the right,
// bytes upwards:
//
//	7       ┌───────────┐               a  4 bytes, steps 0-1
//	        │ c         │               b  2 bytes, steps 0-1
//	6 ┌─────┴─────┬─────┘               c  1 byte,  steps 1-2
//	  │ b         │                     d  4 bytes, steps 2-3
//	4 ├───────────┼───────────┐
//	  │ a         │ d         │
//	0 └───────────┴───────────┘
//	  0     1     2     3      step
//
// The load is 6, 7, 5 and 4 bytes at the four steps, and no arena is smaller
// than the largest, 7 ([Problem.MaxLoad]). The offsets 0, 4, 6 and 0 give an
// arena of 7 bytes, which is therefore optimal.
//
//   - [Problem.Check] says whether a placement is one: quadratic and plain.
//     [Problem.CheckSweep] answers the same for a hundred thousand buffers.
//   - [Strategies] lists the ways to place, each in its own file.
//   - [Simulators] lists allocators that do not plan, as those of PyTorch and
//     ONNX Runtime, and says what they would take for the same lifetimes.
//   - [Solve] runs them, then searches: for the smallest arena, or for any within
//     a capacity. It says what it has proven. The exact search (exact.go) decides
//     capacities; the skyline search before it is fast on any size.
//   - [ObjectStrategies] lists the ways to share whole blocks instead of bytes of
//     one arena ([Objects]), for memory that cannot be cut.
//
// GreedyBySize is the first to try: on most networks it reaches the largest
// load. BestFit is the better one where lifetimes are tangled, as in the
// training graphs and the instances of a compiler; the others are there to
// compare with, and win now and then.
//
// # Alignment
//
// The offset of a buffer is a multiple of its alignment. A buffer without one of
// its own has that of the problem, and takes its size rounded up to it; one with
// its own takes its size as it stands, as MiniMalloc has it, and the bytes that
// its alignment costs may serve another. Loads and arenas count so. A buffer of
// 0 bytes has offset 0 and takes nothing. An offset may be fixed.
package alloc
