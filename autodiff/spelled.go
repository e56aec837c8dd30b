package autodiff

import "github.com/onnxmem/onnxmem/graph"

// spelledDomain is the domain of operators that ONNX lacks and graphs spell out. Only
// differentiation sees them: as one operator, they have finite gradients where those of
// their nodes are no numbers.
const spelledDomain = "onnxmem.spelled"

var spelled = map[string]*Rule{
	// log(sigmoid(x)): far below 0, its nodes divide by a sigmoid that is rounded to 0.
	"LogSigmoid": {Grad: func(c *Backward) { c.Set(0, c.mul(c.D(0), c.op("Sigmoid", c.op("Neg", c.X(0))))) }},
	// atan(a/b): where b is 0, the slope of Atan is 0 and that of the quotient infinite.
	"Atan2": {Grad: func(c *Backward) {
		a, b := c.X(0), c.X(1)
		square := c.add(c.mul(a, a), c.mul(b, b))
		q := c.div(c.D(0), square)
		q = c.where(c.op("Equal", square, c.scalar(square, 0)), c.scalar(q, 0), q)
		if c.Needs(0) {
			c.setUnbroadcast(0, c.mul(q, b))
		}
		if c.Needs(1) {
			c.setUnbroadcast(1, c.op("Neg", c.mul(q, a)))
		}
	}},
	"DynamicProduct": {Inputs: []int{0}, Grad: dynamicGrad},
	// label·log p + (1-label)·log(1-p) of a probability p, each logarithm at least -100:
	// that of PyTorch's binary_cross_entropy, whose gradient is bounded, too.
	"BinaryCrossEntropy": {Inputs: []int{0}, Grad: func(c *Backward) {
		p, label := c.X(0), c.X(1)
		room := c.op("Max", c.mul(p, c.sub(c.scalar(p, 1), p)), c.scalar(p, 1e-12))
		c.Set(0, c.mul(c.D(0), c.div(c.sub(label, p), room)))
	}},
}

// logGroup is the logarithm of a Sigmoid or of a Softmax.
func logGroup(m *matcher, n *graph.Node) (group, bool) {
	g := group{inner: []*graph.Node{n}}
	switch n.Op {
	case "Sigmoid":
		g.domain, g.op = spelledDomain, "LogSigmoid"
	case "Softmax":
		g.op, g.more = "LogSoftmax", n.Attrs
	default:
		return g, false
	}
	last, ok := m.onlyReader(n.Outputs[0], "Log")
	g.x, g.last = n.Inputs[0], last
	return g, ok
}

// atanGroup is the arc tangent of a quotient, of which exporters make atan2.
func atanGroup(m *matcher, n *graph.Node) (group, bool) {
	if n.Op != "Div" {
		return group{}, false
	}
	last, ok := m.onlyReader(n.Outputs[0], "Atan")
	return group{domain: spelledDomain, op: "Atan2", x: n.Inputs[0], rest: n.Inputs[1:], inner: []*graph.Node{n}, last: last}, ok
}

// spelledGroup is a group that the emitter made.
func spelledGroup(m *matcher, n *graph.Node) (group, bool) {
	for _, g := range m.spelled {
		if g.inner[0] == n {
			return g, true
		}
	}
	return group{}, false
}
