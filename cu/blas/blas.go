// Package cublas stands in for gorgonia.org/cu/blas, NVIDIA's library of products. Only
// gorgonia's own operators call them, so they are missing here: Err tells.
package cublas

import (
	"fmt"

	"gonum.org/v1/gonum/blas"

	"gorgonia.org/cu"
)

// Standard is the library's context.
type Standard struct{ err error }

// ConsOpt is an option of Init.
type ConsOpt func(*Standard)

// WithContext names the context to work in.
func WithContext(*cu.BatchedContext) ConsOpt { return func(*Standard) {} }

// Init does nothing.
func (*Standard) Init(...ConsOpt) error { return nil }

// Close does nothing.
func (*Standard) Close() error { return nil }

// Err returns the error of the first call of a product.
func (s *Standard) Err() error { return s.err }

func (s *Standard) lacks(what string) {
	if s.err == nil {
		s.err = fmt.Errorf("cublas: %s %w", what, cu.ErrMissing)
	}
}

// Sgemm is missing.
func (s *Standard) Sgemm(_, _ blas.Transpose, _, _, _ int, _ float32, _ []float32, _ int, _ []float32, _ int, _ float32, _ []float32, _ int) {
	s.lacks("Sgemm")
}

// Dgemm is missing.
func (s *Standard) Dgemm(_, _ blas.Transpose, _, _, _ int, _ float64, _ []float64, _ int, _ []float64, _ int, _ float64, _ []float64, _ int) {
	s.lacks("Dgemm")
}

// Sgemv is missing.
func (s *Standard) Sgemv(_ blas.Transpose, _, _ int, _ float32, _ []float32, _ int, _ []float32, _ int, _ float32, _ []float32, _ int) {
	s.lacks("Sgemv")
}

// Dgemv is missing.
func (s *Standard) Dgemv(_ blas.Transpose, _, _ int, _ float64, _ []float64, _ int, _ []float64, _ int, _ float64, _ []float64, _ int) {
	s.lacks("Dgemv")
}

// Sger is missing.
func (s *Standard) Sger(_, _ int, _ float32, _ []float32, _ int, _ []float32, _ int, _ []float32, _ int) {
	s.lacks("Sger")
}

// Dger is missing.
func (s *Standard) Dger(_, _ int, _ float64, _ []float64, _ int, _ []float64, _ int, _ []float64, _ int) {
	s.lacks("Dger")
}
