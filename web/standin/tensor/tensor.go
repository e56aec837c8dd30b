// Package tensor stands in for gorgonia.org/tensor in the build for browsers, which computes
// with no tensor: it has the names that package autodiff uses.
package tensor

// Tensor would hold elements.
type Tensor interface{ Shape() Shape }

// Shape is the lengths of the axes.
type Shape []int

// Dtype is the type of elements.
type Dtype struct{ name string }

// Name is that of the type.
func (d Dtype) Name() string { return d.name }

// String is that of the type.
func (d Dtype) String() string { return d.name }

// Float32 is the only type of the tokens of an expression graph.
var Float32 = Dtype{"float32"}
