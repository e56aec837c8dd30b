package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Optional reports whether a node may leave out an output that nobody reads and
// still compute the others.
func Optional(n *graph.Node, out int) bool {
	op := known(n)
	return op != nil && op.Optional != nil && op.Optional(out)
}

// Depends reports whether an output of a node depends on the elements of an input.
func Depends(n *graph.Node, out, in int) bool {
	op := Lookup(n.Domain, n.Op)
	return op == nil || op.Depends == nil || op.Depends(n, out, in)
}

// Seeded reports whether a node draws its random numbers from a seed of its own. If
// so, it draws the same numbers again when it runs again in one run of the graph.
func Seeded(n *graph.Node) bool {
	op := known(n)
	return op != nil && op.Seeded && n.Attr("seed") != nil
}

// IsConstant reports whether the output of a node is stored in the file.
func IsConstant(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Constant
}

// ReadsOutput reports whether a node reads no more bytes of its first input than it
// writes.
func ReadsOutput(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.ReadsOutput
}

// OfShape reports whether the results of a node follow from the shape of its input.
func OfShape(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.OfShape
}

// IsProduct reports whether a node computes products of its operands, as a convolution does.
func IsProduct(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Class == Product
}

// Moves reports whether the elements of a node's results are elements of its first input,
// perhaps converted to another type.
func Moves(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Moves
}

// Lengths lists the inputs of a node that say how long a result is, or along which axis it is
// changed.
func Lengths(n *graph.Node) []int {
	if op := Lookup(n.Domain, n.Op); op != nil {
		return op.Lengths
	}
	return nil
}

// Copies reports whether a node's result is its first input.
func Copies(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Copies && len(n.Inputs) > 0
}

// Permutes reports whether a node's result has the axes of its input in another order.
func Permutes(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Permutes
}

// Rearranges reports whether a node's result has all elements of its first input, and no others, in
// another shape or order.
func Rearranges(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && (op.Permutes || op.Class == View && op.Moves)
}

// Concatenates reports whether a node's inputs lie in its result one behind the other.
func Concatenates(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Concatenates
}

// Branches reports whether a node runs one of its bodies.
func Branches(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Branches
}

// Repeats reports whether a node runs its body several times.
func Repeats(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Repeats
}

// Updates returns the input of which a node writes parts over it to make an output; -1 if there
// is none.
func Updates(n *graph.Node, out int) (in int) {
	op := Lookup(n.Domain, n.Op)
	k := slices.IndexFunc(n.Semantics.Inplace, func(a graph.Alias) bool { return a.Out == out })
	if op == nil || !op.Updates || k < 0 {
		return -1
	}
	return n.Semantics.Inplace[k].In
}

// Converts reports whether a node converts reals to quantized elements (quantizes), or
// these to reals; both have a scale and a zero point.
func Converts(n *graph.Node) (quantizes, dequantizes bool) {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Quantizes, op != nil && op.Dequantizes
}

// Recasts reports whether a node makes of its first input the same elements in another type, each
// by itself: it can run again for one pass over them.
func Recasts(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && (op.Casts || op.Dequantizes)
}

// ReadsRows reports whether a node reads of its first input only the rows that it writes.
func ReadsRows(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.ReadsRows
}

// Rounds reports whether runtimes may disagree on a length of a result of a node,
// since it is rounded or the operator is not known.
func Rounds(n *graph.Node) bool {
	op := known(n)
	return op == nil || op.Rounds != nil && op.Rounds(n)
}

// OnWeights reports whether exporters put such a node between a weight and the
// product that reads it.
func OnWeights(n *graph.Node) bool {
	op := known(n)
	return op != nil && op.OnWeights
}

// Prepares reports whether a runtime may rearrange a constant input of a node before
// the first run, and then compute with it in another order than with any other tensor.
// That holds for products, convolutions, recurrent cells, operators of a runtime, and
// what is not known.
func Prepares(n *graph.Node) bool {
	op := known(n)
	return op == nil || n.Domain != "" || op.FLOPs != nil && (op.Inplace == nil || op.Sum != nil)
}

// known is the operator of a node whose meaning comes from the table, and not
// from a local function of the same name.
func known(n *graph.Node) *Op {
	if !n.Semantics.Known || n.Semantics.Call != nil {
		return nil
	}
	return Lookup(n.Domain, n.Op)
}

// anyOutput is the column Optional of operators that may leave out every output.
func anyOutput(int) bool { return true }

// afterFirst is the column Optional of operators for which only output 0 is
// required.
func afterFirst(out int) bool { return out > 0 }

// always is the column Rounds of operators whose lengths follow from floating-point
// numbers.
func always(*graph.Node) bool { return true }

// ceils is the column Rounds of poolings: runtimes differ in whether a last window that
// begins in the padding counts.
func ceils(n *graph.Node) bool {
	a := n.Attr("ceil_mode")
	return a != nil && (a.Int != 0 || a.Ref != "")
}

// chooses is the column Rounds of a transposed convolution whose padding follows from
// its result.
func chooses(n *graph.Node) bool {
	return n.Attr("auto_pad") != nil || n.Attr("output_shape") != nil
}

// Casts reports whether a node gives the elements of its first input in the type that an
// attribute names.
func Casts(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && op.Casts && len(n.Inputs) > 0
}
