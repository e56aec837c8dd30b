// Package cost says what a node does that takes time: how much it computes, what it
// moves, and in pieces of which form. A device's model makes a time of that.
package cost

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Most limits a time in nanoseconds so that sums of times cannot overflow.
const Most = math.MaxInt64 >> 24

// Work is what one run of a node does.
type Work struct {
	FLOPs   float64 // floating-point operations
	Bytes   float64 // that it reads and writes, without those of weights
	Weights float64 // bytes of initializers that it reads

	// Batch products of Rows x Columns elements, of a matrix product or a convolution: the
	// columns are those of the second factor, or the channels that a group makes. Else 0.
	Batch, Rows, Columns float64
	// Planes are the channels of images that the node's kernel goes through one by one;
	// 0 if it does not.
	Planes float64
	// Functions are evaluations of functions such as exp, in those of exp: a tanh counts as
	// several.
	Functions float64
	// Fused: an activation of what a product, convolution or BatchNormalization makes, and
	// its only reader, so that their kernel can apply it to elements that it holds anyway.
	Fused bool
}

// Tensor is what a node reads or writes of a tensor. Lengths is nil if they are unknown.
type Tensor struct {
	Bytes   float64
	Lengths []graph.Dim
	Weight  bool // it is an initializer
}

// TensorOf returns a whole tensor.
func TensorOf(g *graph.Graph, t graph.TensorID) Tensor {
	x := g.Tensors[t]
	w := Tensor{Bytes: float64(x.Bytes), Weight: x.Data != nil}
	if x.Type.Kind == graph.KindTensor && x.Type.Exact() {
		w.Lengths = x.Type.Shape
	}
	return w
}

// Rows returns n rows of a tensor along an axis.
func (t Tensor) Rows(axis int, n int64) Tensor {
	var own []graph.Dim
	return t.RowsIn(&own, axis, n)
}

// RowsIn is like Rows, and keeps the lengths behind those that room has.
func (t Tensor) RowsIn(room *[]graph.Dim, axis int, n int64) Tensor {
	if length := t.Lengths[axis]; int64(length) != n {
		t.Bytes = t.Bytes / float64(length) * float64(n)
		from := len(*room)
		*room = append(*room, t.Lengths...)
		t.Lengths = (*room)[from:len(*room):len(*room)]
		t.Lengths[axis] = graph.Dim(n)
	}
	return t
}

// Of returns the work of a node of a graph, or of a part of it, with that many
// floating-point operations, which reads and makes these tensors, each of which is listed
// once.
func Of(g *graph.Graph, n *graph.Node, flops float64, in, out []Tensor) Work {
	op := of(n)
	w := Work{FLOPs: flops, Fused: fused(g, n, op)}
	if op.ReadsOutput { // of its inputs as many bytes as it makes
		in = out
	}
	for _, t := range in {
		if t.Weight {
			w.Weights += t.Bytes
		} else {
			w.Bytes += t.Bytes
		}
	}
	for _, t := range out {
		w.Bytes += t.Bytes
	}
	if len(out) > 0 {
		made := out[0].Lengths
		if w.form(n, op.Form, made); made != nil {
			w.Functions = op.Exp * elements(made)
		}
	}
	return w
}

// Whole returns the work of a node that runs whole.
func Whole(g *graph.Graph, n *graph.Node) Work {
	var in, out []Tensor
	bytes := 0.0
	for k, t := range n.Outputs {
		view := slices.ContainsFunc(n.Semantics.Views, func(a graph.Alias) bool { return a.Out == k })
		if t >= 0 && !view {
			out = append(out, TensorOf(g, t))
			bytes += out[len(out)-1].Bytes
		}
	}
	flops := float64(n.Semantics.FLOPs)
	switch {
	case n.IsPutRows(): // in place, only the part moves
		return Copy(float64(g.Tensors[n.Inputs[1]].Bytes))
	case bytes == 0: // a view moves nothing
		return Work{FLOPs: flops}
	}
	var seen []graph.TensorID
	n.Reads(func(t graph.TensorID) {
		if !slices.Contains(seen, t) {
			seen = append(seen, t)
			in = append(in, TensorOf(g, t))
		}
	})
	return Of(g, n, flops, in, out)
}

// Copy returns the work of copying that many bytes.
func Copy(bytes float64) Work { return Work{Bytes: 2 * bytes} }

// fused reports whether a node is an activation that the kernel before it can apply.
func fused(g *graph.Graph, n *graph.Node, op *ops.Op) bool {
	if !op.Activation || len(n.Inputs) == 0 || n.Inputs[0] < 0 {
		return false
	}
	x := g.Tensors[n.Inputs[0]]
	return x.Maker >= 0 && !x.Output && len(x.Readers) == 1 && of(g.Nodes[x.Maker]).Applies
}

// unknown is the operator of a node that package ops does not know: it says nothing.
var unknown ops.Op

func of(n *graph.Node) *ops.Op {
	if op := ops.Lookup(n.Domain, n.Op); op != nil {
		return op
	}
	return &unknown
}

// form sets the form of a product, or of images, from the lengths of what the node makes.
func (w *Work) form(n *graph.Node, form ops.Form, made []graph.Dim) {
	axes := len(made)
	switch form {
	case ops.Matrices:
		if axes < 2 {
			return
		}
		w.Columns, w.Rows = float64(made[axes-1]), float64(made[axes-2])
		w.Batch = elements(made[:axes-2])
	case ops.Channels:
		if axes < 3 {
			return
		}
		group := 1.0
		if a := n.Attr("group"); a != nil && a.Int > 0 {
			group = float64(a.Int)
		}
		w.Columns, w.Rows = max(float64(made[1])/group, 1), elements(made[2:])
		w.Batch = float64(made[0]) * min(group, float64(made[1]))
		if w.Columns == 1 {
			w.Planes = w.Batch
		}
	case ops.Planes:
		if axes >= 3 {
			w.Planes = elements(made[:2])
		}
	}
}

func elements(lengths []graph.Dim) float64 {
	n := 1.0
	for _, d := range lengths {
		n *= float64(d)
	}
	return n
}
