package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// Rule is the gradient of one operator, for all opset versions from 18 on.
type Rule struct {
	Op string
	// Inputs are the inputs to which a gradient flows; nil: all of a
	// floating-point type, empty: none.
	Inputs []int
	// Grad emits the gradients of the inputs that need one and passes them to
	// Backward.Set. It reads as little of the forward graph as it can, since it
	// keeps alive every tensor that it reads.
	Grad func(c *Backward)
	// Suffixes are the ends of the names of outputs that only the backward pass
	// reads.
	Suffixes []string
	// Fused: the gradient takes several nodes and tensors of full size that one
	// kernel would not need, so Options.FusedGradients makes a function of it.
	//
	// Operators that scatter into zeros (Gather, MaxPool) are not fused: in the
	// graph the scatter overwrites the zeros, which is impossible across the
	// boundary of a function. BERT's embedding by itself would double the peak.
	// Nor is cross-entropy, whose gradient overwrites the log-probabilities, the
	// largest tensor of a language model.
	Fused bool
	// Forwards: the operator passes a weight (input 0) on with another shape or
	// type: a class token is repeated for each example, a table of positions is
	// cut to the length.
	Forwards bool
	// TakesConstants: the operator reads constants as often as weights; their
	// names and values decide.
	TakesConstants bool
}

// family is the table of rules in one file.
type family struct {
	domain string
	rules  []Rule
}

type ruleKey struct{ domain, op string }

var rules map[ruleKey]*Rule

func init() {
	rules = map[ruleKey]*Rule{}
	for _, f := range families {
		for i := range f.rules {
			k := ruleKey{f.domain, f.rules[i].Op}
			if rules[k] != nil {
				panic("autodiff: two rules for " + k.domain + " " + k.op)
			}
			rules[k] = &f.rules[i]
		}
	}
}

// suffix is the end of the name of output k; "" if the rule has none.
func (r *Rule) suffix(k int) string {
	if r == nil || k >= len(r.Suffixes) {
		return ""
	}
	return r.Suffixes[k]
}

// LookupRule returns the gradient rule of an operator; nil if there is none.
func LookupRule(domain, op string) *Rule {
	if domain == spelledDomain {
		return spelled[op]
	}
	return rules[ruleKey{domain, op}]
}

// flows reports whether a gradient flows through input i, given its type.
func (r *Rule) flows(i int, elem graph.DType) bool {
	return elem.Floating() && (r.Inputs == nil || slices.Contains(r.Inputs, i))
}

// Backward is a forward node for which a gradient is needed.
type Backward struct {
	*emitter
	Node  *graph.Node
	rule  *Rule
	needs []bool
	d     []ID
	grads []ID
	wide  map[ID]ID // inputs that were widened from 16 bits: what widens them again
}

// X is input i, graph.None if it is left out. Reading an input keeps it alive, or what it was
// widened from.
func (c *Backward) X(i int) ID {
	if i >= len(c.Node.Inputs) {
		return graph.None
	}
	return c.widenedAgain(c.Node.Inputs[i])
}

// Y is output k. If the node lacks that output, Y adds it; if the node replaces a
// group, to the last node of the group.
func (c *Backward) Y(k int) ID {
	n := c.Node
	if last := c.stands[n]; last != nil && (k >= len(n.Outputs) || n.Outputs[k] == graph.None) {
		n = last
	}
	for len(n.Outputs) <= k {
		n.Outputs = append(n.Outputs, graph.None)
	}
	if n.Outputs[k] == graph.None && c.err == nil {
		name := c.unique(c.g.Tensors[n.Outputs[0]].Name + LookupRule(n.Domain, n.Op).suffix(k))
		n.Outputs[k] = c.newTensor(name, graph.Type{}, nil)
		n.Span = graph.Span{}
		c.infer(n)
	}
	return n.Outputs[k]
}

// D is the gradient of output k, graph.None if nothing depends on that output.
func (c *Backward) D(k int) ID {
	if k >= len(c.d) {
		return graph.None
	}
	return c.d[k]
}

// Needs reports whether input i needs a gradient.
func (c *Backward) Needs(i int) bool { return i < len(c.needs) && c.needs[i] }

// Set sets the gradient of input i. Its shape and type must be those of the
// input.
func (c *Backward) Set(i int, d ID) {
	if c.err != nil || !c.Needs(i) {
		return
	}
	want, got := c.typeOf(c.X(i)), c.typeOf(d)
	if d == graph.None || want.String() != got.String() {
		c.Failf("the gradient of input %d has type %v, expected %v (a bug in its rule)", i, got, want)
		return
	}
	c.grads[i] = d
}

// Failf refuses the node with an error.
func (c *Backward) Failf(format string, args ...any) {
	c.fail(graph.Errorf(format, args...).AtNode(label(c.Node)))
}

// label is the name of a node in messages.
func label(n *graph.Node) string {
	return (&graph.Graph{Nodes: []*graph.Node{n}}).Label(0)
}

// Int is an integer attribute, or its default.
func (c *Backward) Int(name string, otherwise int64) int64 {
	return attr.Int(c.Node, name, otherwise)
}

// Float is a float attribute, or its default.
func (c *Backward) Float(name string, otherwise float64) float64 {
	if c.Node.Attr(name) == nil {
		return otherwise
	}
	return float64(attr.Float(c.Node, name, 0))
}

// Str is a string attribute, or its default.
func (c *Backward) Str(name, otherwise string) string { return attr.String(c.Node, name, otherwise) }

// List is a list attribute, or its default.
func (c *Backward) List(name string, otherwise []int64) []int64 {
	if c.Node.Attr(name) == nil {
		return otherwise
	}
	return attr.Ints(c.Node, name)
}

// Axis is the attribute that names an axis of input i, in [0, rank). A scalar has
// an axis 0.
func (c *Backward) Axis(name string, otherwise int64, i int) int {
	k, err := attr.Axis(name, c.Int(name, otherwise), max(c.rank(c.X(i)), 1))
	if err != nil {
		c.Failf("%w", err)
	}
	return k
}

// Axes are the elements of input k, axes of input i, each in [0, rank) and in the
// order of the input.
func (c *Backward) Axes(k, i int) []int64 {
	list, rank := c.Lengths(k), c.rank(c.X(i))
	if c.err != nil {
		return nil
	}
	over, err := attr.Axes("axes", list, rank)
	if err != nil {
		c.Failf("%w", err)
	}
	return toInt64s(over)
}

// AxisSet is Axes in ascending order. As in runtimes, an axis may occur twice.
func (c *Backward) AxisSet(k, i int) []int64 {
	list, rank := c.Lengths(k), c.rank(c.X(i))
	if c.err != nil {
		return nil
	}
	set, err := attr.AxisSet("axes", list, rank)
	if err != nil {
		c.Failf("%w", err)
	}
	var over []int64
	for a, named := range set {
		if named {
			over = append(over, int64(a))
		}
	}
	return over
}

func toInt64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, v := range list {
		out[i] = int64(v)
	}
	return out
}

// Lengths returns the elements of integer input i, which must be known.
func (c *Backward) Lengths(i int) []int64 {
	list, ok := c.ints(c.X(i))
	if !ok {
		c.Failf("input %d depends on data: expected a constant", i)
	}
	return list
}

// none is Rule.Inputs of an operator through which no gradient flows: its result
// is piecewise constant, or does not depend on the elements of its inputs.
var none = []int{}

// present reports whether an optional input is there.
func (c *Backward) present(t ID) bool { return t != graph.None }

// setUnbroadcast sets the gradient of input i to d, summed to its shape.
func (c *Backward) setUnbroadcast(i int, d ID) {
	if c.Needs(i) {
		c.Set(i, c.unbroadcast(d, c.X(i)))
	}
}
