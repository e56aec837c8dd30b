package vm

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// The gradient of a LayerNormalization is some thirteen nodes. Two of them make the normalized
// rows, in the place of what was normalized, and most often right behind it in the forward
// pass. What the other eleven do takes three kernels on a device: two for the sums over rows,
// and one for the gradient of the rows, where placedOnDevice puts them. Where the gradient of
// the result is gone by then, its product with the scale is a node of its own, and is read.

// layerGradient returns the chain that ends in a node, or nil. It follows autodiff's rule
// from the end to the normalized rows, and from there to the sums.
func (c *chain) layerGradient(end graph.NodeID) *normGradient {
	g := &normGradient{chain: c, result: c.f.g.Nodes[end].Outputs[0], mask: graph.None, scaled: graph.None}
	inverse, rest, ok := c.binary(g.result, "Mul")
	if !ok {
		return nil
	}
	shifted, sloped, ok := c.binary(rest, "Sub")
	if !ok {
		return nil
	}
	scaled, shift, ok := c.binary(shifted, "Sub")
	if !ok {
		return nil
	}
	normal, slope, ok := c.binary(sloped, "Mul")
	if !ok {
		return nil
	}
	d, scale, ok := c.binary(scaled, "Mul")
	if !ok {
		return nil
	}
	shifts, slopes := c.maker(shift, "ReduceMean", 2), c.maker(slope, "ReduceMean", 2)
	if shifts == nil || slopes == nil || shifts.Inputs[0] != scaled {
		return nil
	}
	if a, b, ok := c.binary(slopes.Inputs[0], "Mul"); !ok || a != scaled || b != normal {
		return nil
	}
	axis := c.firstReduced(shifts)
	sum := c.reducedBefore(d, axis)
	var product graph.TensorID = graph.None
	for _, r := range c.f.g.Tensors[normal].Readers {
		if n := c.f.g.Nodes[r]; product < 0 && n.Op == "Mul" && len(n.Inputs) == 2 && n.Inputs[0] == d && n.Inputs[1] == normal {
			product = n.Outputs[0]
		}
	}
	if sum < 0 || product < 0 || c.maker(product, "Mul", 2) == nil {
		return nil
	}
	products := c.reducedBefore(product, axis)
	if products < 0 || !c.reduces(shifts, axis, false) || !c.reduces(slopes, axis, false) {
		return nil
	}
	shape := c.f.tensors[normal].Shape
	ofRow, ofColumn := slices.Clone(shape), slices.Clone(shape) // the shapes of what rows, and columns, have one of
	for a := range shape {
		if a < axis {
			ofColumn[a] = 1
		} else {
			ofRow[a] = 1
		}
	}
	for _, like := range []struct {
		t     graph.TensorID
		shape []int
	}{{normal, shape}, {d, shape}, {g.result, shape}, {scale, ofColumn}, {inverse, ofRow}} {
		v := c.f.tensors[like.t]
		if v.Type != graph.Float32 || !v.exact || len(v.Shape) > len(shape) || !slices.Equal(padded(v.Shape, len(shape)), like.shape) {
			return nil
		}
	}
	g.x, g.d, g.scale, g.inverse = normal, d, scale, inverse
	g.sums, g.products = c.f.g.Tensors[sum].Maker, c.f.g.Tensors[products].Maker
	if c.encloses(g.result, sum, products) {
		if placed := g.placedOnDevice(); placed != nil {
			return placed
		}
	}
	delete(c.nodes, c.f.g.Tensors[scaled].Maker)
	if g.scaled, g.late = scaled, false; !c.encloses(g.result, sum, products) {
		return nil
	}
	return g.placedOnDevice()
}

// padded is a shape with axes of length 1 in front, up to a rank.
func padded(shape []int, rank int) []int {
	return append(slices.Repeat([]int{1}, rank-len(shape)), shape...)
}

// firstReduced is the first of the last axes of a tensor that a node reduces.
func (c *chain) firstReduced(n *graph.Node) int {
	drop, err := form.ReducedAxes(&c.f.steps[c.f.g.Tensors[n.Outputs[0]].Maker].call().Call)
	if err != nil {
		return 0
	}
	axis := len(drop)
	for axis > 0 && drop[axis-1] {
		axis--
	}
	return axis
}

// reduces reports whether a node reduces all axes from one on and no others, or, with
// before, all that are before it. An axis of length 1 may be among either.
func (c *chain) reduces(n *graph.Node, axis int, before bool) bool {
	st := c.f.steps[c.f.g.Tensors[n.Outputs[0]].Maker]
	drop, err := form.ReducedAxes(&st.call().Call)
	if err != nil {
		return false
	}
	for a, size := range st.in[0].Shape {
		if size != 1 && drop[a] != (a < axis == before) {
			return false
		}
	}
	return true
}

// reducedBefore returns the sum of a tensor over all axes before one, and adds its node to
// the chain; None if there is none.
func (c *chain) reducedBefore(t graph.TensorID, axis int) graph.TensorID {
	for _, r := range c.f.g.Tensors[t].Readers {
		n := c.f.g.Nodes[r]
		if n.Op != "ReduceSum" || len(n.Inputs) != 2 || n.Inputs[0] != t || !c.f.steps[r].exact() || !c.reduces(n, axis, true) {
			continue
		}
		if c.maker(n.Outputs[0], "ReduceSum", 2) != nil {
			return n.Outputs[0]
		}
	}
	return graph.None
}
