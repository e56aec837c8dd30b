package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// composites finds groups of nodes that spell out one operator, such as Mul(x,
// Sigmoid(x)), and returns the nodes with each group replaced by that operator.
// Only differentiation uses the result: the forward graph keeps its nodes, but
// the inner tensors of a group die in the forward pass, because the rule of the
// one operator recomputes what it needs from the group's input. A group whose
// inner tensors are read elsewhere stays as it is.
func (e *emitter) composites(nodes []*graph.Node) []*graph.Node {
	e.stands = map[*graph.Node]*graph.Node{}
	replaced := map[*graph.Node]*graph.Node{} // keyed by the last node of a group: the node that replaces the group
	gone := map[*graph.Node]bool{}
	for _, g := range e.spellings(nodes, patterns) {
		for _, k := range g.inner {
			gone[k] = true
		}
		gone[g.last] = true
		stands := &graph.Node{
			Name: g.last.Name, Domain: g.domain, Op: g.op, Attrs: append(g.attrs.list(), g.more...),
			Inputs: append([]ID{g.x}, g.rest...), Outputs: append(slices.Clone(g.last.Outputs), g.besides...),
		}
		replaced[g.last], e.stands[stands] = stands, g.last
	}
	if len(replaced) == 0 {
		return nodes
	}
	var out []*graph.Node
	for _, n := range nodes {
		switch {
		case replaced[n] != nil:
			out = append(out, replaced[n])
		case !gone[n]:
			out = append(out, n)
		}
	}
	return out
}

// spellings finds groups among some nodes.
func (e *emitter) spellings(nodes []*graph.Node, patterns []pattern) (list []group) {
	m := e.matcherOf(nodes)
	gone := map[*graph.Node]bool{}
	for _, n := range nodes {
		if n.Domain != "" {
			continue
		}
		for _, find := range patterns {
			g, ok := find(m, n)
			if !ok || slices.ContainsFunc(g.inner, func(k *graph.Node) bool { return gone[k] || !m.private(k, g.inner, g.last) }) {
				continue
			}
			for _, k := range g.inner {
				gone[k] = true
			}
			gone[g.last] = true
			list = append(list, g)
			break
		}
	}
	return list
}

// Group is a set of nodes that spell out one operator of tensor X, which no other node reads
// in between.
type Group struct {
	Domain, Op string
	X          graph.TensorID
	Nodes      []*graph.Node // the last one makes the result
}

// Groups finds the groups among the nodes of a graph, which are in topological order: those
// that are differentiated as one operator, and layer normalizations. The graph has its types,
// and values are the folded elements of its tensors.
func Groups(g *graph.Graph, opsets []graph.Opset, values []*ops.Value, nodes []*graph.Node) (list []Group) {
	e := newEmitter(g, opsets, values)
	for _, found := range e.spellings(nodes, append(slices.Clone(patterns), layerNormGroup)) {
		list = append(list, Group{found.domain, found.op, found.x, append(slices.Clone(found.inner), found.last)})
	}
	return list
}

// group is a set of nodes that spell out one operator of x.
type group struct {
	domain  string
	op      string
	attrs   attrs
	more    []*graph.Attr // attributes to copy from a node of the group
	x       ID
	rest    []ID          // inputs after x
	inner   []*graph.Node // all nodes but the last
	last    *graph.Node   // the node that makes the result
	besides []ID          // outputs of inner nodes that follow the last node's
}

// pattern finds a group, starting from a node that identifies it.
type pattern func(*matcher, *graph.Node) (group, bool)

var patterns = []pattern{swishGroup, geluGroup, crossEntropyGroup, safeSoftmaxGroup, poolGroup, rmsNormGroup, logGroup, atanGroup, dynamicGroup, spelledGroup}

// matcher searches the neighbourhood of a node.
type matcher struct {
	*emitter
	maker   map[ID]*graph.Node
	readers map[ID][]*graph.Node
}

// matcherOf returns one for a list of nodes.
func (e *emitter) matcherOf(nodes []*graph.Node) *matcher {
	m := &matcher{emitter: e, maker: map[ID]*graph.Node{}, readers: map[ID][]*graph.Node{}}
	for _, n := range nodes {
		for _, t := range n.Outputs {
			if t != graph.None {
				m.maker[t] = n
			}
		}
		n.Reads(func(t ID) { m.readers[t] = append(m.readers[t], n) })
	}
	for _, t := range e.g.Outputs {
		m.readers[t] = append(m.readers[t], nil) // read outside
	}
	return m
}

// private reports whether only the group reads the outputs of a node.
func (m *matcher) private(n *graph.Node, inner []*graph.Node, last *graph.Node) bool {
	for _, t := range n.Outputs {
		if t == graph.None {
			continue
		}
		for _, r := range m.readers[t] {
			if r != last && !slices.Contains(inner, r) {
				return false
			}
		}
	}
	return true
}

// onlyReader returns the node that reads t, if it is the only reader and has that
// operator.
func (m *matcher) onlyReader(t ID, op string) (*graph.Node, bool) {
	r := m.readers[t]
	if len(r) == 0 || r[0] == nil || r[0].Op != op || r[0].Domain != "" {
		return nil, false
	}
	for _, n := range r {
		if n != r[0] {
			return nil, false
		}
	}
	return r[0], true
}

// otherOperand returns the operand of a binary node that is not t.
func otherOperand(n *graph.Node, t ID) ID {
	if len(n.Inputs) != 2 {
		return graph.None
	}
	if n.Inputs[0] == t {
		return n.Inputs[1]
	}
	return n.Inputs[0]
}

// isNumber reports whether t is a constant of one element close to v.
func (m *matcher) isNumber(t ID, v float64) bool {
	if t == graph.None {
		return false
	}
	list, ok := m.values[t].Floats()
	return ok && len(list) == 1 && m.typeOf(t).Elem.Floating() && math.Abs(list[0]-v) <= 1e-3*math.Abs(v)
}

// factor returns x, and the node, if t is x times a number close to v, or x
// divided by 1/v.
func (m *matcher) factor(t ID, v float64) (ID, *graph.Node, bool) {
	n := m.maker[t]
	if n == nil || n.Domain != "" || len(n.Inputs) != 2 {
		return graph.None, nil, false
	}
	switch {
	case n.Op == "Mul" && m.isNumber(n.Inputs[1], v), n.Op == "Div" && m.isNumber(n.Inputs[1], 1/v):
		return n.Inputs[0], n, true
	case n.Op == "Mul" && m.isNumber(n.Inputs[0], v):
		return n.Inputs[1], n, true
	}
	return graph.None, nil, false
}

// swishGroup is x·sigmoid(x), and x·hardsigmoid(x) with the slope of HardSwish.
func swishGroup(m *matcher, n *graph.Node) (group, bool) {
	op := ""
	switch n.Op {
	case "Sigmoid":
		op = "Swish"
	case "HardSigmoid":
		a, b := n.Attr("alpha"), n.Attr("beta")
		if a != nil && math.Abs(float64(a.Float)-1.0/6) < 1e-6 && (b == nil || b.Float == 0.5) {
			op = "HardSwish"
		}
	}
	if op == "" {
		return group{}, false
	}
	last, ok := m.onlyReader(n.Outputs[0], "Mul")
	if !ok || otherOperand(last, n.Outputs[0]) != n.Inputs[0] {
		return group{}, false
	}
	return group{op: op, x: n.Inputs[0], inner: []*graph.Node{n}, last: last}, true
}

// geluGroup is 0.5·x·(1+erf(x/√2)), or 0.5·x·(1+tanh(√(2/π)·(x+0.044715·x³))),
// with the factors in any order.
func geluGroup(m *matcher, n *graph.Node) (group, bool) {
	g := group{op: "Gelu", inner: []*graph.Node{n}}
	ok := false
	switch n.Op {
	case "Erf":
		var scale *graph.Node
		g.x, scale, ok = m.factor(n.Inputs[0], 1/math.Sqrt2)
		g.inner = append(g.inner, scale)
	case "Tanh":
		g.attrs = attrs{"approximate": "tanh"}
		ok = m.tanhArgument(n.Inputs[0], &g)
	}
	if !ok {
		return g, false
	}
	sum, ok := m.onlyReader(n.Outputs[0], "Add")
	if !ok || !m.isNumber(otherOperand(sum, n.Outputs[0]), 1) {
		return g, false
	}
	// Two of the three factors x, one half and the sum are multiplied first.
	first, ok := m.onlyReader(sum.Outputs[0], "Mul")
	if !ok {
		return g, false
	}
	g.inner = append(g.inner, sum)
	beside := otherOperand(first, sum.Outputs[0])
	if x, half, ok := m.factor(beside, 0.5); ok && x == g.x {
		g.inner = append(g.inner, half)
		g.last = first
		return g, true
	}
	last, ok := m.onlyReader(first.Outputs[0], "Mul")
	if !ok {
		return g, false
	}
	g.inner, g.last = append(g.inner, first), last
	rest := otherOperand(last, first.Outputs[0])
	return g, beside == g.x && m.isNumber(rest, 0.5) || m.isNumber(beside, 0.5) && rest == g.x
}

// tanhArgument finds x in √(2/π)·(x + 0.044715·x³).
func (m *matcher) tanhArgument(t ID, g *group) bool {
	inner, scale, ok := m.factor(t, math.Sqrt(2/math.Pi))
	if !ok {
		return false
	}
	sum := m.maker[inner]
	if sum == nil || sum.Op != "Add" || sum.Domain != "" || len(sum.Inputs) != 2 {
		return false
	}
	for i, t := range sum.Inputs {
		cube, part, ok := m.factor(t, 0.044715)
		x := sum.Inputs[1-i]
		if !ok {
			continue
		}
		power := m.maker[cube]
		if power == nil || power.Op != "Pow" || power.Domain != "" || power.Inputs[0] != x || !m.isNumber(power.Inputs[1], 3) {
			continue
		}
		g.x = x
		g.inner = append(g.inner, scale, sum, part, power)
		return true
	}
	return false
}

// crossEntropyGroup is the negative log-likelihood of a LogSoftmax. The gradient
// of the combined operator needs the log-probabilities, but no tensor of zeros of
// their size. As separate operators, the log-probabilities can overwrite the
// scores; as an output of one operator they could not.
func crossEntropyGroup(m *matcher, n *graph.Node) (group, bool) {
	if n.Op != "LogSoftmax" || !m.saves(savingCrossEntropy) {
		return group{}, false
	}
	last, ok := m.onlyReader(n.Outputs[0], "NegativeLogLikelihoodLoss")
	if !ok || last.Inputs[0] != n.Outputs[0] || !m.hasAxis(n, 1) {
		return group{}, false
	}
	return group{
		op: "SoftmaxCrossEntropyLoss", more: last.Attrs, x: n.Inputs[0], rest: last.Inputs[1:],
		inner: []*graph.Node{n}, last: last, besides: n.Outputs,
	}, true
}

// hasAxis reports whether a node's axis, by default the last, equals axis.
func (m *matcher) hasAxis(n *graph.Node, axis int64) bool {
	rank := int64(m.rank(n.Inputs[0]))
	at := int64(-1)
	if a := n.Attr("axis"); a != nil {
		at = a.Int
	}
	return at == axis || at+rank == axis
}

// safeSoftmaxGroup is a softmax whose NaN are replaced by 0, for rows that a mask
// hides completely: exporters write PyTorch's attention in this way. It is
// differentiated as a softmax with that result; a row of zeros has the gradient
// 0.
func safeSoftmaxGroup(m *matcher, n *graph.Node) (group, bool) {
	if n.Op != "Softmax" || !m.saves(savingSoftmax) {
		return group{}, false
	}
	isNaN, last := m.replacedNaN(n.Outputs[0])
	if last == nil {
		return group{}, false
	}
	return group{op: "Softmax", more: n.Attrs, x: n.Inputs[0], inner: []*graph.Node{n, isNaN}, last: last}, true
}

// replacedNaN returns the nodes that replace the NaN of a tensor by 0, nil if there are none.
func (m *matcher) replacedNaN(t ID) (isNaN, last *graph.Node) {
	for _, r := range m.readers[t] {
		switch {
		case r != nil && r.Domain == "" && r.Op == "IsNaN":
			isNaN = r
		case r != nil && r.Domain == "" && r.Op == "Where":
			last = r
		}
	}
	if isNaN == nil || last == nil || last.Inputs[0] != isNaN.Outputs[0] || last.Inputs[2] != t || !m.isNumber(last.Inputs[1], 0) {
		return nil, nil
	}
	return isNaN, last
}

// reluAttr marks a MaxPool that replaces a group with a Relu before it.
const reluAttr = "onnxmem.relu"

// poolGroup is a Relu that only a MaxPool reads: where no gradient passes, the
// maximum of a window is 0.
func poolGroup(m *matcher, n *graph.Node) (group, bool) {
	if n.Op != "Relu" || !m.saves(savingPool) {
		return group{}, false
	}
	last, ok := m.onlyReader(n.Outputs[0], "MaxPool")
	if !ok || len(last.Outputs) > 1 && last.Outputs[1] != graph.None {
		return group{}, false
	}
	return group{
		op: "MaxPool", attrs: attrs{reluAttr: 1}, more: last.Attrs, x: n.Inputs[0],
		inner: []*graph.Node{n}, last: last,
	}, true
}
