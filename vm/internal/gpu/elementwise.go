package gpu

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// elementwise lists arithmetic: each output element depends on the input elements at
// the same place, after numpy's broadcasting.
var elementwise = []Row{
	{Name: "Add", Element: like(isNumber)},
	{Name: "Sub", Element: like(isNumber)},
	{Name: "Mul", Element: like(isNumber)},
	{Name: "Div", Element: like(isNumber)},
	{Name: "Sum", Element: folded("Add", isNumber)},
	{Name: "Min", Element: folded("Min", isNumber)},
	{Name: "Max", Element: folded("Max", isNumber)},
	{Name: "Mean", Element: mean},
	{Name: "Mod", Element: mod},
	{Name: "Pow", Element: pow},

	{Name: "Abs", Element: like(isNumber)},
	{Name: "Neg", Element: like(isSigned)},
	{Name: "Sign", Element: like(isNumber)},
	{Name: "Floor", Element: like(isReal)},
	{Name: "Ceil", Element: like(isReal)},
	{Name: "Round", Element: like(isReal)},
	{Name: "Sqrt", Element: like(isReal)},
	{Name: "Reciprocal", Element: like(isReal)},
	{Name: "Exp", Element: like(isReal)},
	{Name: "Log", Element: like(isReal)},
	{Name: "Erf", Element: like(isReal)},
	{Name: "Sin", Element: like(isReal)},
	{Name: "Cos", Element: like(isReal)},
	{Name: "Tan", Element: like(isReal)},
	{Name: "Asin", Element: like(isReal)},
	{Name: "Acos", Element: like(isReal)},
	{Name: "Atan", Element: like(isReal)},
	{Name: "Sinh", Element: like(isReal)},
	{Name: "Cosh", Element: like(isReal)},
	{Name: "Asinh", Element: like(isReal)},
	{Name: "Acosh", Element: like(isReal)},
	{Name: "Atanh", Element: like(isReal)},
}

// Sets of dtypes.

func isReal(d graph.DType) bool {
	return d == graph.Float32 || d == graph.Float64 || d == graph.Float16 || d == graph.BFloat16
}

func isInteger(d graph.DType) bool { return isNumber(d) && !isReal(d) }

func isNumber(d graph.DType) bool { return cType[d] != "" && d != graph.Bool }

func isSigned(d graph.DType) bool {
	return isReal(d) || slices.Contains([]graph.DType{graph.Int8, graph.Int16, graph.Int32, graph.Int64}, d)
}

func isBool(d graph.DType) bool { return d == graph.Bool }

// like makes the Element of an operator whose tensors have one dtype, of a set: it calls
// the C function of the operator's name with the elements of all inputs.
func like(accepts func(graph.DType) bool) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error { return called(n, e, n.Node.Op, accepts) }
}

// called computes output 0 by a C function of the elements of all inputs, which have its
// dtype, one of a set, and of more arguments.
func called(n *Node, e *expression, function string, accepts func(graph.DType) bool, more ...string) error {
	args, err := arguments(n, e, n.In, n.Out[0].Type, accepts)
	if err != nil {
		return err
	}
	return e.set(n.Out[0], call(function, append(args, more...)...))
}

// call is a call in C.
func call(function string, args ...string) string {
	return function + "(" + strings.Join(args, ", ") + ")"
}

// arguments returns the elements of inputs, of which there is one at least. It refuses
// inputs of another dtype than d, and a d outside of a set.
func arguments(n *Node, e *expression, in []*form.Tensor, d graph.DType, accepts func(graph.DType) bool) ([]string, error) {
	if !accepts(d) {
		return nil, unsupportedf("dtype %v", d)
	}
	if err := needTypes(d, in...); err != nil {
		return nil, err
	}
	var args []string
	for i, t := range in {
		shape := t.Shape
		if i == 1 && len(in) == 2 && n.Node.Domain == "" && n.Version != 0 && n.Version < 7 {
			shape = n.LegacyShape()
		}
		v, err := e.valueAs(t, shape)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return args, nil
}

// needTypes refuses omitted tensors and those of another dtype than d.
func needTypes(d graph.DType, list ...*form.Tensor) error {
	for _, t := range list {
		if t == nil {
			return unsupportedf("an omitted input")
		}
		if t.Type != d {
			return unsupportedf("dtypes %v and %v", d, t.Type)
		}
	}
	return nil
}

// folded combines one or more inputs from left to right by a C function.
func folded(function string, accepts func(graph.DType) bool) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		v, err := foldedValue(n, e, n.In, function, accepts)
		if err != nil {
			return err
		}
		return e.set(n.Out[0], v)
	}
}

func foldedValue(n *Node, e *expression, in []*form.Tensor, function string, accepts func(graph.DType) bool) (string, error) {
	args, err := arguments(n, e, in, n.Out[0].Type, accepts)
	if err != nil {
		return "", err
	}
	v := args[0]
	for _, a := range args[1:] {
		v = call(function, v, a)
	}
	return v, nil
}

// mean divides the sum of the inputs by their number.
func mean(n *Node, e *expression) error {
	v, err := foldedValue(n, e, n.In, "Add", isReal)
	if err != nil {
		return err
	}
	return e.set(n.Out[0], call("Div", v, literal(float64(len(n.In)), n.Out[0].Type)))
}

// mod computes the remainder. It has the sign of the divisor, or, with attribute fmod,
// that of the dividend.
func mod(n *Node, e *expression) error {
	function := "Mod"
	if n.Int("fmod", 0) != 0 {
		function = "FMod"
	}
	return called(n, e, function, isNumber)
}

// pow computes powers. The exponent's dtype may differ from the base's.
func pow(n *Node, e *expression) error {
	x, y := n.In[0], n.In[1]
	if !isReal(x.Type) && x.Type != graph.Int32 && x.Type != graph.Int64 || !isNumber(y.Type) {
		return unsupportedf("dtypes %v and %v", x.Type, y.Type)
	}
	if x.Type == y.Type {
		return called(n, e, "Pow", isNumber)
	}
	a, err := e.value(x)
	if err != nil {
		return err
	}
	b, err := e.value(y)
	if err != nil {
		return err
	}
	return e.set(n.Out[0], call("Pow", a, b))
}
