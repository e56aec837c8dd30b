package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// makeCol2Im adds up blocks into an image: the adjoint of extracting the blocks.
func makeCol2Im(n *Node) error {
	x, y := n.In[0], n.Out[0]
	if !isFloat(x) {
		return unsupportedf("dtype %v", x.Type)
	}
	block, err := n.Value(2)
	if err != nil {
		return err
	}
	var kernel []graph.Dim
	for _, k := range block {
		kernel = append(kernel, graph.Dim(k))
	}
	w, err := attr.ReadWindow(n.Node, kernel)
	if err != nil {
		return err
	}
	if len(y.Shape) != 2+len(block) {
		return unsupportedf("an image of %v and blocks of %v", y.Shape, block)
	}
	image, places, all := make([]int64, len(block)), make([]int64, len(block)), int64(1)
	for i := range block {
		image[i] = int64(y.Shape[2+i])
		places[i] = w.Places(i, image[i]+w.Before[i]+w.After[i], w.Reach(i))
		all *= int64(block[i]) * places[i]
	}
	s, err := windowOf(w, image, places)
	if err != nil {
		return err
	}
	if err := tooLarge(x, y); err != nil {
		return err
	}
	if y.Len() == 0 {
		return nil
	}
	if all*int64(y.Shape[0])*int64(y.Shape[1]) != int64(x.Len()) {
		return unsupportedf("%v as blocks of %v at %v", x.Shape, block, places)
	}
	at, err := n.addresses(y, x)
	if err != nil {
		return err
	}
	return n.launch(n.kernel("col2im.cu", "add_blocks", "ELEMENT="+cType[x.Type]), blocksFor(y.Len()), threadsPerBlock, at[0], at[1], s, uint32(y.Len()))
}
