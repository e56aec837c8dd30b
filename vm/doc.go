// Package vm runs a planned model, inference or training, on gorgonia's tape
// machine, in the planned order, with every tensor at its planned offset in one
// block of memory.
//
//	Program   a planned model and its weights, checked and ready; shared by sessions
//	Session   one run at a time: its arena, its parameters, its tape
//	Value     a tensor of the caller
//
// A Program maps the model's file and the files of its external data. Constants are read in
// place and never copied, unless the file encodes their elements differently from what
// kernels read. A Session allocates three blocks when it is created and no other memory for
// planned tensors afterwards: the arena, the resident pool (of which only parameters and
// states are ever touched), and scratch for kernels. Tensors that the plan leaves out,
// because their size depends on the data, live in a side pool that grows
// (Memory.DynamicBytes). The session records what a run takes from it, packs that, and gives
// the next runs places in one arena (Session.Dynamic). Blocks that no earlier run took come
// from the pool as before, and are in the next arena. All memory is counted against
// Options.MemoryLimit before it is allocated, and a context can stop a run that takes too
// long.
//
//	New          verify the plan against the model, map constants
//	NewSession   lay out memory, prepare a kernel for every node, build the tape
//	Run          copy inputs in, run the tape, return views of the outputs
//
// A plan for ranges of dimensions holds for many shapes. A Session of it finds the point
// of each run in the shapes of its inputs, prepares it when it is new, and keeps the last
// 32: At gives the program of one point alone.
//
// Each node, or some that follow each other in a graph of more than 32, becomes one
// gorgonia operator without children: its kernel knows the
// addresses of its inputs and outputs, and the tape machine keeps the order. Bodies
// of If, Loop and Scan, and local functions, run inside their node, in its
// workspace.
package vm
