package gpu

import "github.com/onnxmem/onnxmem/vm/internal/form"

// expansion lists the operators that repeat elements along axes.
var expansion = []Row{
	{Name: "Expand", Make: makeExpand, Element: expand},
	{Name: "Tile", Make: moving(form.TileMoves)},
}

// makeExpand moves the elements of dtypes that kernels do not compute with.
func makeExpand(n *Node) error {
	switch {
	case n.In[0].Len() == n.Out[0].Len():
		return makeCopy(n)
	case !isAny(n.In[0].Type):
		return moving(form.ExpandMoves)(n)
	}
	return Lookup("", "Expand").alone(n)
}

// expand repeats axes of length 1.
func expand(n *Node, e *expression) error {
	if err := needTypes(n.In[0].Type, n.Out[0]); err != nil {
		return err
	}
	v, err := e.value(n.In[0])
	if err != nil {
		return err
	}
	return e.set(n.Out[0], v)
}
