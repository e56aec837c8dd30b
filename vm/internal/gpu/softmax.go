package gpu

import "github.com/onnxmem/onnxmem/vm/internal/form"

// softmaxes lists the operators that turn the elements along an axis into weights.
var softmaxes = []Row{
	{Name: "Softmax", Make: func(n *Node) error { return makeSoftmax(n, "softmax.cu", "softmax") }},
	{Name: "LogSoftmax", Make: func(n *Node) error { return makeSoftmax(n, "softmax.cu", "log_softmax") }},
	{Name: "Hardmax", Make: func(n *Node) error { return makeSoftmax(n, "best.cu", "hardmax") }},
}

// makeSoftmax runs along one axis, or, before opset 13, over that axis and all that
// follow.
func makeSoftmax(n *Node, file, name string) error {
	x, y := n.In[0], n.Out[0]
	if !isFloat(x) {
		return unsupportedf("dtype %v", x.Type)
	}
	old := n.Version < 13
	otherwise := -1
	if old {
		otherwise = 1
	}
	if old && name == "hardmax" && n.Int("axis", 1) == len(x.Shape) {
		return unsupportedf("rows of no axis")
	}
	axis, err := n.axis(otherwise, max(len(x.Shape), 1))
	if err != nil {
		return err
	}
	l, width := linesOf(x.Shape, axis, old), 0
	if name != "hardmax" {
		l, width = l.inFours(), computeBytes(x)
	}
	k := n.kernel(file, name, "ELEMENT="+cType[x.Type])
	return n.launchTeams(k, l, width, []*form.Tensor{y, x})
}
