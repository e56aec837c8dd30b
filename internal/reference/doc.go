// Package reference evaluates graphs plainly and slowly: a second opinion on
// what operators compute, for tests of gradients and of kernels. Each operator
// is written as the specification of ONNX reads, with loops over all elements
// and no thought of speed, and shares nothing with packages ops and autodiff.
//
// Floating-point elements are held and computed as float64 whatever their type,
// and rounded only where the type is float16 or bfloat16: the result of a
// float32 graph is what it would be without rounding, so that finite
// differences of it mean something. Integers are held as int64 (those of uint64
// up to 2^63) and wrap as their type does.
//
// ONNX's own operator tests check the evaluator.
package reference
