package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// rmsNormGroup is x/√(mean(x²)+ε)·scale along the last axis, as exporters write
// it before opset 23; the quotient is a Div, or a Mul by a Reciprocal. Its
// gradient reads only x from the forward pass; node by node it would also read
// the quotient.
func rmsNormGroup(m *matcher, n *graph.Node) (group, bool) {
	g := group{op: "RMSNormalization", attrs: attrs{"axis": -1}}
	if !m.saves(savingNorm) {
		return g, false
	}
	x, inner, epsilon, ok := m.rootMeanSquare(n)
	if !ok {
		return g, false
	}
	root := inner[len(inner)-1]
	g.x, g.inner = x, inner
	g.attrs["epsilon"] = epsilon
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

// rootMeanSquare finds √(mean(x²)+ε) along the last axis, of which n is the mean: x, and the
// nodes, the root last.
func (m *matcher) rootMeanSquare(n *graph.Node) (x ID, list []*graph.Node, epsilon float64, ok bool) {
	if n.Op != "ReduceMean" || !m.reducesLastAxis(n) {
		return graph.None, nil, 0, false
	}
	square := m.maker[n.Inputs[0]]
	switch {
	case square == nil || square.Domain != "" || len(square.Inputs) != 2:
		return graph.None, nil, 0, false
	case square.Op == "Pow" && m.isNumber(square.Inputs[1], 2), square.Op == "Mul" && square.Inputs[0] == square.Inputs[1]:
	default:
		return graph.None, nil, 0, false
	}
	sum, ok := m.onlyReader(n.Outputs[0], "Add")
	if !ok {
		return graph.None, nil, 0, false
	}
	epsilon, known := m.scalarConstant(otherOperand(sum, n.Outputs[0]))
	root, ok := m.onlyReader(sum.Outputs[0], "Sqrt")
	return square.Inputs[0], []*graph.Node{square, n, sum, root}, epsilon, ok && known
}

// layerNormGroup is (x-mean(x))/√(mean((x-mean(x))²)+ε) along the last axis, without the scale
// and the bias that follow.
func layerNormGroup(m *matcher, n *graph.Node) (group, bool) {
	g := group{op: "LayerNormalization"}
	centered, inner, _, ok := m.rootMeanSquare(n)
	if !ok {
		return g, false
	}
	sub := m.maker[centered]
	if sub == nil || len(sub.Inputs) != 2 {
		return g, false
	}
	mean := m.maker[sub.Inputs[1]]
	if mean == nil || mean.Op != "ReduceMean" || mean.Domain != "" || mean.Inputs[0] != sub.Inputs[0] {
		return g, false
	}
	if sub, ok = m.onlyReader(mean.Outputs[0], "Sub"); !ok || sub.Outputs[0] != centered {
		return g, false
	}
	g.x, g.inner = mean.Inputs[0], append([]*graph.Node{mean, sub}, inner...)
	g.last, ok = m.onlyReader(inner[len(inner)-1].Outputs[0], "Div")
	return g, ok && g.last.Inputs[0] == centered
}

// reducesLastAxis reports whether a reduction is over the last axis and keeps that axis.
func (m *matcher) reducesLastAxis(n *graph.Node) bool {
	list, ok := attr.Ints(n, "axes"), true // before opset 18
	if len(n.Inputs) > 1 {
		list, ok = m.ints(n.Inputs[1])
	}
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
