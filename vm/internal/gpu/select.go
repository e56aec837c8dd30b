package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// selections lists the operators that select elements by value.
var selections = []Row{
	{Name: "ArgMax", Make: func(n *Node) error { return makeArg(n, 0) }},
	{Name: "ArgMin", Make: func(n *Node) error { return makeArg(n, 1) }},
	{Name: "OneHot", Make: makeOneHot},
	{Name: "TopK", Make: makeTopK},
}

// makeOneHot writes the second of two values at each index, and the first elsewhere.
func makeOneHot(n *Node) error {
	index, values, out := n.In[0], n.In[2], n.Out[0]
	k, err := n.axis(-1, len(out.Shape))
	if err != nil {
		return err
	}
	width, err := widthOf(out)
	if err != nil || width > 8 {
		return unsupportedf("dtype %v", out.Type)
	}
	name, err := typeOf(index)
	if err != nil {
		return err
	}
	if name == "bool" {
		name = "u8"
	}
	if err := tooLarge(out); err != nil {
		return err
	}
	at, err := n.addresses(out, index, values)
	if err != nil {
		return err
	}
	f := n.kernel("select.cu", "one_hot", "ELEMENT="+unitOf[width], "INDEX="+name)
	return n.launch(f, blocksFor(out.Len()), threadsPerBlock, at[0], at[1], at[2], uint32(out.Len()),
		unsigned(divider(count(out.Shape[k+1:])), 4), unsigned(divider(out.Shape[k]), 4))
}

// makeArg finds the place of the largest or smallest element along an axis. Of equal
// elements it takes the first, or the last (attribute select_last_index).
func makeArg(n *Node, least int32) error {
	x, y := n.In[0], n.Out[0]
	switch x.Type {
	case graph.Int32, graph.Int64, graph.Uint32, graph.Uint64:
	default:
		if !isFloat(x) {
			return unsupportedf("dtype %v", x.Type)
		}
	}
	axis, err := n.axis(0, max(len(x.Shape), 1))
	if err != nil {
		return err
	}
	k := n.kernel("best.cu", "arg", "ELEMENT="+cType[x.Type])
	return n.launchTeams(k, linesOf(x.Shape, axis, false), 0, []*form.Tensor{y, x}, least, int32(n.Int("select_last_index", 0)))
}
