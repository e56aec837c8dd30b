// Package vm runs a plan: a planned model, inference or training, on gorgonia's
// tape machine, in the planned order, with every tensor at its planned offset in
// one block of memory.
//
//	Program   a planned model and its weights, checked and ready; shared by sessions
//	Session   one run at a time: its arena, its parameters, its tape
//	Value     a tensor of the caller
//
// A Program maps the model's file and the files of its external data: a
// constant is read where it lies in them and never copied, unless its elements
// stand there in another form. A Session takes three blocks when it is made and
// no other memory for planned tensors afterwards: the arena, the resident pool
// (of which only parameters and states are ever touched), and scratch for
// kernels. Tensors whose size is known only when the data are there, and that
// the plan leaves out, live in a side pool that grows (DynamicBytes). All of it is
// counted before it is taken (Options.MemoryLimit), and a context ends a run that
// takes too long.
//
//	New          verify the plan against the model, map constants
//	NewSession   lay out memory, prepare a kernel for every node, build the tape
//	Run          copy inputs in, run the tape, give views of the outputs
//
// A node is one operator of gorgonia without children: its kernel knows where
// its inputs and outputs lie, and the tape machine keeps the order. Bodies of
// If, Loop and Scan and local functions run within their node, in its
// workspace.
package vm
