// Lib is libonnxmem: placement, order and limits of bare problems as functions of C.
//
//	make lib
//
// builds it into build/lib with onnxmem.h, which documents it; docs/library.md says when to take
// it. It needs cgo and a C compiler: without them, this package is an empty program.
//
//	onnxmem.h      the functions and structs
//	guard.c        the functions of C: what has to be decided before Go is entered
//	export.go      what they call
//	memory.go      arrays of C as slices, and results as blocks of C
//	internal/flat  flat arrays as problems, their answers and the checks of these
package main

func main() {}
