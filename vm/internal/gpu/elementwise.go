package gpu

import (
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// elementwise lists arithmetic: each output element depends on the input elements at
// the same place, after numpy's broadcasting.
var elementwise = []Row{
	{Name: "Add", Element: numeric},
	{Name: "Sub", Element: numeric},
	{Name: "Mul", Element: numeric},
	{Name: "Div", Element: numeric},
	{Name: "Relu", Element: numeric},
	{Name: "Sigmoid", Element: reals},
}

// numeric calls the C function of the operator's name with the elements of all inputs,
// which are numbers of one dtype.
func numeric(n *Node, e *expression) error {
	if n.Out[0].Type == graph.Bool {
		return unsupportedf("dtype %v", n.Out[0].Type)
	}
	return called(n, e)
}

// reals is numeric for operators on reals.
func reals(n *Node, e *expression) error {
	if !isFloat(n.Out[0]) {
		return unsupportedf("dtype %v", n.Out[0].Type)
	}
	return called(n, e)
}

// called calls the C function of the operator's name with the elements of all inputs.
// more are further arguments.
func called(n *Node, e *expression, more ...string) error {
	if n.Version < 7 && n.Int("broadcast", 0) != 0 {
		return unsupportedf("the broadcasting of opset %d", n.Version)
	}
	var args []string
	for _, t := range n.In {
		v, err := e.value(t)
		if err != nil {
			return err
		}
		args = append(args, v)
	}
	return e.set(n.Out[0], n.Invocation.Node.Op+"("+strings.Join(append(args, more...), ", ")+")")
}
