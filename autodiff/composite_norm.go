package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// rmsNormGroup is x/√(mean(x²)+ε)·scale along the last axis, as exporters write
// it before opset 23; the quotient is a Div, or a Mul by a Reciprocal. Its
// gradient reads only x from the forward pass; node by node it would also read
// the quotient.
func rmsNormGroup(m *matcher, n *graph.Node) (group, bool) {
	g := group{op: "RMSNormalization", attrs: attrs{"axis": -1}}
	if n.Op != "ReduceMean" || !m.saves(savingNorm) || !m.reducesLastAxis(n) {
		return g, false
	}
	square := m.maker[n.Inputs[0]]
	switch {
	case square == nil || square.Domain != "" || len(square.Inputs) != 2:
		return g, false
	case square.Op == "Pow" && m.isNumber(square.Inputs[1], 2), square.Op == "Mul" && square.Inputs[0] == square.Inputs[1]:
		g.x = square.Inputs[0]
	default:
		return g, false
	}
	sum, ok := m.onlyReader(n.Outputs[0], "Add")
	if !ok {
		return g, false
	}
	epsilon, known := m.scalarConstant(otherOperand(sum, n.Outputs[0]))
	root, ok := m.onlyReader(sum.Outputs[0], "Sqrt")
	if !ok || !known {
		return g, false
	}
	g.attrs["epsilon"] = epsilon
	g.inner = []*graph.Node{square, n, sum, root}
	quotient, ok := m.onlyReader(root.Outputs[0], "Div")
	if !ok || quotient.Inputs[0] != g.x {
		inverse, isInverse := m.onlyReader(root.Outputs[0], "Reciprocal")
		if ok && m.isNumber(quotient.Inputs[0], 1) {
			inverse, isInverse = quotient, true
		}
		if !isInverse {
			return g, false
		}
		g.inner = append(g.inner, inverse)
		if quotient, ok = m.onlyReader(inverse.Outputs[0], "Mul"); !ok || otherOperand(quotient, inverse.Outputs[0]) != g.x {
			return g, false
		}
	}
	if g.last, ok = m.onlyReader(quotient.Outputs[0], "Mul"); !ok {
		return g, false
	}
	g.inner = append(g.inner, quotient)
	scale := otherOperand(g.last, quotient.Outputs[0])
	shape := m.shape(g.x)
	g.rest = []ID{scale}
	return g, len(shape) > 0 && slices.Equal(m.shape(scale), shape[len(shape)-1:])
}

// reducesLastAxis reports whether a reduction is over the last axis and keeps that axis.
func (m *matcher) reducesLastAxis(n *graph.Node) bool {
	if len(n.Inputs) < 2 {
		return false
	}
	list, ok := m.ints(n.Inputs[1])
	if keep := n.Attr("keepdims"); !ok || len(list) != 1 || keep != nil && keep.Int == 0 {
		return false
	}
	return list[0] == -1 || list[0] == int64(m.rank(n.Inputs[0]))-1
}

// scalarConstant returns the element of a constant that has only one.
func (m *matcher) scalarConstant(t ID) (float64, bool) {
	if t == graph.None {
		return 0, false
	}
	list, ok := m.values[t].Floats()
	if !ok || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}
