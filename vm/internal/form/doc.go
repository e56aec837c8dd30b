// Package form says what a node asks for, whichever device runs it: a Call is a node with
// its tensors, a Tensor a value by its dtype, shape and address. Its methods read attributes
// and inputs that are known before the node runs, and give them the form in which kernels
// take them: how a window moves over an image (Window), which copies an operator that only
// moves elements consists of (Move), where the heads of an attention lie (Attention).
//
// The kernels of the host (package kernel) and those of a GPU (package gpu) build on it. It
// has a file for each family of operators that needs one, named as in package ops, and
// computes no result.
package form
