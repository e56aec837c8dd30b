// Package passes is the spine of onnxmem: the fixed list of passes that turn a
// model into a planned model, and Optimize, which runs them.
//
//	infer     every tensor gets a type and a size (package ops)
//	share     tensors that are views of each other become one storage
//	bodies    bodies of control flow and local functions are planned; what they
//	          take is the workspace of their node
//	order     the storages become a bare problem, whose best order the nodes
//	          then stand in (package schedule)
//	place     storages written in place become one buffer; buffers get offsets
//	          (package alloc)
//	annotate  the plan is put together and the nodes say where their outputs lie
//
// pipeline.go holds the table. Each pass takes the State that the ones before it
// left and adds to it; none prints.
package passes
