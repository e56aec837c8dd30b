// Package alloc assigns offsets in one arena to buffers with fixed lifetimes, so
// that no two buffers that are live together overlap and the arena is small.
//
// It knows sizes and lifetimes, nothing else. Four buffers, with steps to the right
// and bytes upwards:
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
// The load is 6, 7, 5 and 4 bytes at the four steps. No arena is smaller than the
// largest load, 7 ([Problem.MaxLoad]): at that step, these buffers are all in it. The
// offsets 0, 4, 6 and 0 give an arena of 7 bytes, which is therefore optimal.
//
// [Solve] finds a placement and says what it has proven. [Problem.Check] checks any
// placement by comparing each pair of buffers.
//
// # How a placement is found
//
// Solve has three stages. It stops as soon as the arena is the lower bound, which at
// first is the largest load.
//
// First come the [Strategies], each a simple rule that takes milliseconds.
// [GreedyBySize] is the first: on most networks it reaches the largest load. [BestFit]
// is better where lifetimes are tangled, as in training graphs and in the instances
// from compilers.
//
// Then the skyline search repeats the rule of BestFit, with other priorities each time. The
// skyline is the tops of the buffers placed so far. On its lowest part, the search places the
// buffer with the highest priority that fits there. The first priorities are a fixed list.
// Later ones are random, or vary the best ones so far.
//
// Then the exact search decides capacities: it finds a placement within a capacity,
// or proves that there is none.
//
// # How it is proven optimal
//
// Seven buffers, where the largest load, 4, is out of reach. Each letter is one byte
// at one step:
//
//	4  ·  c  c  c  ·      a  2 bytes, step  0       e  1 byte,  steps 2-3
//	3  b  b  ·  ·  g      b  2 bytes, steps 0-1     f  2 bytes, steps 3-4
//	2  b  b  e  e  g      c  1 byte,  steps 1-3     g  2 bytes, step  4
//	1  a  ·  ·  f  f      d  1 byte,  steps 1-2
//	0  a  d  d  f  f
//	   0  1  2  3  4      step
//
// All strategies need 5 bytes, and so do the first attempts of the skyline search.
// The exact search decides the capacity 4. It places buffers from the bottom up. At
// each step it keeps a floor: the unplaced buffers lie there or above. A branch ends
// where the floor and the unplaced bytes of a step together exceed the capacity.
//
// The load of step 0 is 4, so it has no bytes to waste, and a or b lies on the floor,
// at 0. With b at 0, a is at 2. Step 3 has no bytes to waste either, and c is above b,
// so f or e lies on the floor there:
//
//	3  a  ·  ·  ·  ·      f at 0: c, d and e are live together at step 2, and each
//	2  a  ·  ·  ·  ·      is above b or f, so at 2 or above: 2 + 3 bytes exceed 4.
//	1  b  b  ·  f  f
//	0  b  b  ·  f  f
//
//	3  a  ·  ·  ·  ·      e at 0: step 4 has no bytes to waste, so f is at 0 or 2,
//	2  a  ·  ·  ·  ·      and above e only at 2. At step 3, f and c are both at 2 or
//	1  b  b  ·  ·  ·      above: 2 + 3 bytes exceed 4.
//	0  b  b  e  e  ·
//
// With a at 0, b is at 2, and both cases fail in the same way, upside down. No case is
// left: the capacity 4 is proven too small, the lower bound becomes 5, and the arena
// of 5 bytes is optimal. The search visits six nodes for that.
//
// For large problems the search needs to prune more than this. exact.go describes the state
// and names the files with the rules: how it chooses the next step (exact_branch.go), what it
// infers after each placement (exact_propagate.go), and how it avoids proving the same twice
// (exact_table.go). The argument about f and g above is in exact_propagate.go, too. If the
// lower bound is out of reach, Solve bisects between it and the best arena. A capacity that
// the search cannot decide within [Options].Effort stays open, and [Result].Optimal is false.
//
// # What else there is
//
//   - [Problem.CheckSweep] answers as Check does, for a hundred thousand buffers.
//   - [Simulators] lists allocators that do not plan, such as those of PyTorch and
//     ONNX Runtime, and computes what they would take for the same lifetimes.
//   - [ObjectStrategies] lists the ways to share whole blocks instead of the bytes of
//     one arena ([Objects]), for memory that cannot be cut.
//   - [Problem.ILP] is the problem as an integer program for solvers, OLLA's.
//   - [ReadCSV], [ReadJSON] and their counterparts read and write problems.
//
// # Alignment
//
// The offset of a buffer is a multiple of its alignment. A buffer without an alignment
// of its own has the problem's, and its size is rounded up to it. A buffer with its
// own alignment keeps its size, as in MiniMalloc, and other buffers may use the bytes
// that its alignment leaves free. Loads and arenas are computed from these sizes. A
// buffer of 0 bytes has offset 0 and takes nothing. Offsets may be fixed.
package alloc
