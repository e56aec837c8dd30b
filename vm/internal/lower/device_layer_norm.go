package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// The gradient of a LayerNormalization is some thirteen nodes. Two of them make the normalized
// rows, in the place of what was normalized, and most often right behind it in the forward
// pass. What the other eleven do takes three kernels on a device: two for the sums over rows,
// and one for the gradient of the rows, where normGradient.placed puts them. Where the gradient of
// the result is gone by then, its product with the scale is a node of its own, and is read.

// layerNormGradient returns the gradient of a LayerNormalization, by the names of its table, if
// the kernels take it: its shapes say that two reductions are over the rows' elements, and two
// over all rows.
func (c *chain) layerNormGradient(of map[string]graph.TensorID) *normGradient {
	whole, rows := c.f.Tensors[of["normal"]].Shape, c.f.Tensors[of["shift"]].Shape // of a number for each row
	axis := len(rows)
	for axis > 0 && rows[axis-1] == 1 {
		axis--
	}
	if len(rows) != len(whole) || !slices.Equal(rows[:axis], whole[:axis]) {
		return nil
	}
	columns := slices.Concat(slices.Repeat([]int{1}, axis), whole[axis:]) // of one for each of a row's elements
	if !c.are(of, whole, "normal", "d", "result") || !c.are(of, rows, "inverse", "shift", "slope") || !c.are(of, columns, "scale", "sums", "products") {
		return nil
	}
	g := c.newNormGradient(of, "normal")
	g.inverse = of["inverse"]
	if c.encloses(g.result, of["sums"], of["products"]) && g.placed() {
		return g
	}
	g.scaled = of["scaled"]
	if delete(c.nodes, c.f.Graph.Tensors[g.scaled].Maker); !c.encloses(g.result, of["sums"], of["products"]) || !g.placed() {
		return nil
	}
	return g
}
