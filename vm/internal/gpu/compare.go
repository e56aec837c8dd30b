package gpu

import (
	"math"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// comparisons lists the operators that compare numbers, combine truth values or bits,
// or choose between two inputs.
var comparisons = []Row{
	{Name: "Equal", Element: relation("==")},
	{Name: "Less", Element: relation("<")},
	{Name: "LessOrEqual", Element: relation("<=")},
	{Name: "Greater", Element: relation(">")},
	{Name: "GreaterOrEqual", Element: relation(">=")},
	{Name: "And", Element: infix("&&", isBool)},
	{Name: "Or", Element: infix("||", isBool)},
	{Name: "Xor", Element: infix("!=", isBool)},
	{Name: "Not", Element: prefix("!", isBool)},
	{Name: "IsNaN", Element: isNaN},
	{Name: "IsInf", Element: isInf},
	{Name: "BitwiseAnd", Element: infix("&", isInteger)},
	{Name: "BitwiseOr", Element: infix("|", isInteger)},
	{Name: "BitwiseXor", Element: infix("^", isInteger)},
	{Name: "BitwiseNot", Element: prefix("~", isInteger)},
	{Name: "BitShift", Element: bitShift},
	{Name: "Where", Element: where},
}

// isAny holds for every dtype that elements can have on the device.
func isAny(d graph.DType) bool { return cType[d] != "" }

// relation compares two inputs of any dtype.
func relation(sign string) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		if err := needTypes(graph.Bool, n.Out[0]); err != nil {
			return err
		}
		return joined(n, e, sign, n.In[0].Type, isAny)
	}
}

// infix combines two inputs of the output's dtype by an operator of C.
func infix(sign string, accepts func(graph.DType) bool) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error { return joined(n, e, sign, n.Out[0].Type, accepts) }
}

// joined combines two inputs of dtype d.
func joined(n *Node, e *expression, sign string, d graph.DType, accepts func(graph.DType) bool) error {
	args, err := arguments(n, e, n.In, d, accepts)
	if err != nil {
		return err
	}
	return e.set(n.Out[0], strings.Join(args, " "+sign+" "))
}

// prefix applies an operator of C to an input of the output's dtype.
func prefix(sign string, accepts func(graph.DType) bool) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		args, err := arguments(n, e, n.In, n.Out[0].Type, accepts)
		if err != nil {
			return err
		}
		return e.set(n.Out[0], sign+args[0])
	}
}

func isNaN(n *Node, e *expression) error {
	args, err := arguments(n, e, n.In, n.In[0].Type, isReal)
	if err != nil {
		return err
	}
	return e.set(n.Out[0], args[0]+" != "+args[0])
}

// isInf finds infinities of either sign, or of the one that the attributes leave.
func isInf(n *Node, e *expression) error {
	args, err := arguments(n, e, n.In, n.In[0].Type, isReal)
	if err != nil {
		return err
	}
	found := "false"
	for _, s := range []struct {
		name string
		sign int
	}{{"detect_negative", -1}, {"detect_positive", 1}} {
		if n.Int(s.name, 1) != 0 {
			found += " || " + args[0] + " == " + literal(math.Inf(s.sign), n.In[0].Type)
		}
	}
	return e.set(n.Out[0], found)
}

func bitShift(n *Node, e *expression) error {
	if n.Str("direction", "") == "RIGHT" {
		return called(n, e, "ShiftRight", isInteger)
	}
	return called(n, e, "ShiftLeft", isInteger)
}

// where selects elements of input 1 where the condition is true, else of input 2.
func where(n *Node, e *expression) error {
	d := n.Out[0].Type
	if err := needTypes(d, n.In[1:]...); err != nil {
		return err
	}
	if err := needTypes(graph.Bool, n.In[0]); err != nil {
		return err
	}
	var args []string
	for _, t := range n.In {
		v, err := e.value(t)
		if err != nil {
			return err
		}
		args = append(args, v)
	}
	return e.set(n.Out[0], args[0]+" ? "+args[1]+" : "+args[2])
}
