// Package reference evaluates graphs simply and slowly. It is a second opinion on the
// results of operators, for tests of gradients and kernels. Each operator follows the
// text of ONNX's specification, with loops over all elements and without regard to
// speed, and shares no code with packages ops and autodiff.
//
// Floating-point elements are stored and computed as float64, whatever their type. Only
// float16 and bfloat16 are rounded; the result of a float32 graph is that without
// rounding, so that finite differences of it are meaningful. Integers are stored as
// int64 (uint64 up to 2^63) and wrap as their type does.
//
// ONNX's own operator tests check the evaluator.
package reference
