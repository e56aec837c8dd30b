package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// cumulations lists running sums and products along an axis.
var cumulations = []Row{
	{Name: "CumSum", Make: func(n *Node) error { return makeCumulate(n, 0) }},
	{Name: "CumProd", Make: func(n *Node) error { return makeCumulate(n, 1) }},
}

// way is Way of cumulate.cu.
type way struct{ product, exclusive, reverse int32 }

func makeCumulate(n *Node, product int32) error {
	x := n.In[0]
	switch x.Type {
	case graph.Int32, graph.Int64, graph.Uint32, graph.Uint64:
	default:
		if !isFloat(x) {
			return unsupportedf("dtype %v", x.Type)
		}
	}
	axes, err := n.Value(1)
	if err != nil {
		return err
	}
	axis, err := attr.Axis("axis", int64(axes[0]), len(x.Shape))
	if err != nil {
		return err
	}
	if err := tooLarge(x); err != nil {
		return err
	}
	at, err := n.addresses(n.Out[0], x)
	if err != nil {
		return err
	}
	l := linesOf(x.Shape, axis, false)
	w := way{product, int32(n.Int("exclusive", 0)), int32(n.Int("reverse", 0))}
	definition := "ELEMENT=" + cType[x.Type]
	if l.step > 1 {
		blocks := (l.count + threadsPerBlock - 1) / threadsPerBlock
		return n.launch(n.kernel("cumulate.cu", "cumulate_columns", definition), blocks, threadsPerBlock,
			at[0], at[1], int64(l.count), int32(l.n), int64(l.step), w)
	}
	const rows = 4
	grid := driver.Dim3{X: uint32((l.count + rows - 1) / rows), Y: 1, Z: 1}
	return n.launch3(n.kernel("cumulate.cu", "cumulate_rows", definition), grid, driver.Dim3{X: 32, Y: rows, Z: 1}, 0,
		at[0], at[1], int64(l.count), int32(l.n), w)
}
