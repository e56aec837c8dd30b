package ops

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// Class says on which elements of its inputs an element of an operator's result depends. What
// holds for all operators of a class is decided by it, and not by lists of names.
type Class uint8

// The classes of operators.
const (
	// Elementwise: the elements at its place, where the inputs are broadcast to one another
	// or are single numbers, such as the bounds of Clip.
	Elementwise Class = iota + 1
	Move              // one element of an input at another place, or a constant
	View              // the element at its place, under another shape or type of the same bytes
	Reduce            // all elements along some axes, or all up to a place
	Window            // those in a window of an image
	Product           // sums of products: of matrices, convolutions, attention, recurrent cells
	Norm              // the element at its place, and statistics of those along some axes
	Scatter           // the element at its place, unless another input replaces it
	Draw              // random numbers, one for each place
	Control           // whatever a body computes
	Box               // an input or a result is a sequence, an optional or a map
	Other             // anything else
)

// Form says in which pieces a kernel makes its result.
type Form uint8

// The forms of results.
const (
	Matrices Form = iota + 1 // rows by columns, the last two axes
	Channels                 // all places of an image for each channel of a group, axis 1
	Planes                   // one place after the other, for each channel of an image
)

var classes = [...]string{
	Elementwise: "elementwise", Move: "move", View: "view", Reduce: "reduce", Window: "window", Product: "product", Norm: "norm",
	Scatter: "scatter", Draw: "draw", Control: "control", Box: "box", Other: "other",
}

// String is the class in lower case.
func (c Class) String() string {
	if int(c) < len(classes) && classes[c] != "" {
		return classes[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// ClassOf is the class of a node's operator; 0 if the operator is unknown.
func ClassOf(n *graph.Node) Class {
	if op := Lookup(n.Domain, n.Op); op != nil {
		return op.Class
	}
	return 0
}
