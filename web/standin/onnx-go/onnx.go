// Package onnx stands in for onnx-go in the build for browsers: it has the interface of
// onnx-go's backends, which package autodiff implements.
package onnx

import "gonum.org/v1/gonum/graph"

// Backend receives a graph.
type Backend interface {
	ApplyOperation(Operation, ...graph.Node) error
	graph.DirectedWeightedBuilder
}

// Operation is an operator with its attributes.
type Operation struct {
	Name       string
	Attributes map[string]any
}
