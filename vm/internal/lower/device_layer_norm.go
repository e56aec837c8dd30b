package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// The gradient of a LayerNormalization is some thirteen nodes. Two of them make the normalized
// rows, in the place of what was normalized, and most often right behind it in the forward
// pass. What the other eleven do takes three kernels on a device: two for the sums over rows,
// and one for the gradient of the rows, where placedOnDevice puts them. Where the gradient of
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
	g := &normGradient{chain: c, x: of["normal"], d: of["d"], scale: of["scale"], inverse: of["inverse"], result: of["result"], mask: graph.None, scaled: graph.None}
	g.sums, g.products = c.f.Graph.Tensors[of["sums"]].Maker, c.f.Graph.Tensors[of["products"]].Maker
	if c.encloses(g.result, of["sums"], of["products"]) {
		if placed := g.placedOnDevice(); placed != nil {
			return placed
		}
	}
	g.scaled, g.late = of["scaled"], false
	if delete(c.nodes, c.f.Graph.Tensors[g.scaled].Maker); !c.encloses(g.result, of["sums"], of["products"]) {
		return nil
	}
	return g.placedOnDevice()
}
