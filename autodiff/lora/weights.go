package lora

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// operand is a matrix, or a kernel of a convolution, that depends on one initializer alone.
type operand struct {
	weight    graph.TensorID // the initializer
	shape     []int64        // of the operand
	turned    bool           // it is the initializer transposed
	quantized bool           // it is dequantized
	elem      graph.DType
}

// longest bounds the nodes between an initializer and its reader.
const longest = 8

// operandOf finds the initializer behind a tensor: through Identity, Cast, Transpose of a
// matrix, and DequantizeLinear.
func operandOf(g *graph.Graph, t graph.TensorID) (o operand, ok bool) {
	for range longest {
		if t < 0 {
			return o, false
		}
		x := g.Tensors[t]
		if d := x.Data; d != nil {
			o.weight, o.shape = t, slices.Clone(d.Dims)
			if o.turned {
				slices.Reverse(o.shape)
			}
			if o.elem == graph.Undefined {
				o.elem = d.Type
			}
			return o, d.Sparse == nil && (o.quantized || d.Type.Floating())
		}
		if x.Maker < 0 {
			return o, false
		}
		n := g.Nodes[x.Maker]
		if len(n.Inputs) == 0 || x.Out != 0 {
			return o, false
		}
		step, known := steps[n.Op]
		if !known || !step(g, n, &o) {
			return o, false
		}
		t = n.Inputs[0]
	}
	return o, false
}

// steps are the operators through which operandOf goes, from the last to the first. Each says
// whether it may, and notes what the node does.
var steps = map[string]func(g *graph.Graph, n *graph.Node, o *operand) bool{
	"Identity": func(_ *graph.Graph, n *graph.Node, _ *operand) bool { return n.Domain == "" },
	"Cast": func(_ *graph.Graph, n *graph.Node, o *operand) bool {
		to := n.Attr("to")
		if to != nil && o.elem == graph.Undefined {
			o.elem = graph.DType(to.Int)
		}
		return n.Domain == "" && to != nil && graph.DType(to.Int).Floating()
	},
	"Transpose": func(_ *graph.Graph, n *graph.Node, o *operand) bool {
		o.turned = !o.turned
		perm := n.Attr("perm")
		return n.Domain == "" && (perm == nil || slices.Equal(perm.Ints, []int64{1, 0}))
	},
	"DequantizeLinear": func(g *graph.Graph, n *graph.Node, o *operand) bool {
		if len(n.Inputs) < 2 || n.Inputs[1] < 0 {
			return false
		}
		scale := g.Tensors[n.Inputs[1]]
		if scale.Data == nil {
			return false
		}
		if o.elem == graph.Undefined {
			o.elem = scale.Data.Type
		}
		o.quantized = true
		return true
	},
}
