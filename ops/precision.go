package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Precision says in which floating-point type a node computes where a graph is put into 16
// bits: what torch.amp's lists for CUDA say of the operator's function.
type Precision uint8

// The precisions of operators.
const (
	// Widest: in the widest type of its inputs; most operators.
	Widest Precision = iota
	// Half: in 16 bits, whatever its inputs are; products, convolutions and recurrent cells.
	Half
	// Full: in float32, since it sums much or its results grow large; softmax,
	// normalizations, powers and losses.
	Full
)

// String is the name of the precision, as the printed reports have it.
func (p Precision) String() string { return [...]string{"widest", "half", "full"}[p] }

// PrecisionOf is the precision of a node: Full for one with bodies or of an unknown operator.
func PrecisionOf(n *graph.Node) Precision {
	op := Lookup(n.Domain, n.Op)
	if op == nil || len(n.Bodies()) > 0 || op.Class == Control || op.Class == Box {
		return Full
	}
	return op.Precision
}

// Alike reports whether inputs i and j of a node must have the same element type in a version
// of its domain.
func Alike(n *graph.Node, version int64, i, j int) bool {
	_, f := signatureOf(n.Domain, n.Op, version)
	if f == nil {
		return true
	}
	p, q := at(f.in, i), at(f.in, j)
	return p != nil && q != nil && p.symbol != "" && p.symbol == q.symbol && (i == j || !p.mixed)
}

// Permits reports whether input i of a node may have elements of a type in a version of its
// domain. Of an operator without a signature, only the types that it has are known to be
// permitted.
func Permits(n *graph.Node, version int64, i int, elem graph.DType) bool {
	s, f := signatureOf(n.Domain, n.Op, version)
	if f == nil {
		return false
	}
	p := at(f.in, i)
	switch {
	case p == nil || p.any:
		return false
	case p.symbol == "":
		return p.elem == elem
	}
	return holds(s.symbols[p.symbol], elem, version)
}

// Stands reports whether input i of a node takes no part in the choice of the type in which
// the node computes ([Op].Beside).
func Stands(n *graph.Node, i int) bool {
	op := Lookup(n.Domain, n.Op)
	return op != nil && slices.Contains(op.Beside, i)
}
