package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// The words of package form that all kernels use.
type (
	Tensor  = form.Tensor
	Run     = form.Run
	Runtime = form.Runtime
)

func data[T any](t *Tensor) []T { return form.Elements[T](t) }

func count(shape []int) int { return form.Count(shape) }

func strides(shape []int) []int { return form.Strides(shape) }

func mul(factors ...int) int { return form.Mul(factors...) }

func isHalf(t *Tensor) bool { return form.IsHalf(t) }

func tableOf[T any](c *Invocation, n int) []T { return form.Table[T](&c.Call, n) }

func numbersOf[T number | int](c *Invocation, n int) []T { return form.Numbers[T](&c.Call, n) }

func unsupported(d graph.DType) error { return form.Unsupported(d) }

func unsupportedf(format string, args ...any) error { return form.Unsupportedf(format, args...) }
