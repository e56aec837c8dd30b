package autodiff

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/onnxmem/onnxmem/graph"
)

// token is the type of all nodes of the expression graph. Gorgonia differentiates
// and adds tokens; the real shapes and types are in our graph.
var token = gorgonia.TensorType{Dims: 1, Of: tensor.Float32}

// tape represents our graph as an expression graph of gorgonia. Each ONNX
// operator is one gorgonia node of type operator; an operator with several
// outputs is a tuple with a projection for each of them. Gorgonia walks the graph
// and asks each operator for its gradient (operator.SymDiff). SymDiff emits ONNX
// nodes into our graph and returns to gorgonia one operator for each term of a
// gradient, to be added. These operators have no children: gorgonia searches all
// nodes for the maker of each new edge, which took 12 s for 10,000 nodes when
// every emitted operator had children.
type tape struct {
	*emitter
	expr    *gorgonia.ExprGraph
	tokens  map[ID]*gorgonia.Node // by tensor
	serial  int
	need    map[ID]bool            // tensors that need a gradient
	reached map[ID]bool            // tensors through which the loss depends on such a tensor
	pending map[*gorgonia.Node]int // by child: the number of terms of its gradient that were returned
	grow    vertices
}

func newTape(e *emitter) *tape {
	return &tape{
		emitter: e, expr: gorgonia.NewGraph(), tokens: map[ID]*gorgonia.Node{},
		need: map[ID]bool{}, reached: map[ID]bool{}, pending: map[*gorgonia.Node]int{},
	}
}

// kind says what an operator represents.
type kind int8

const (
	whole      kind = iota // an ONNX node: its output, or the tuple of its outputs
	projection             // one output of a tuple
	term                   // one term of the gradient of a tensor, or of a tuple's output
)

// operator implements gorgonia.Op and gorgonia.SDOp for all ONNX operators.
type operator struct {
	t      *tape
	serial int
	kind   kind
	node   *graph.Node
	inputs []int // for whole: for each child, which input of the node it is
	slot   int   // for projection, and for a term of a tuple: the output
	value  ID    // for term: the gradient
	arity  int
}

func (o *operator) Arity() int { return o.arity }

func (o *operator) Type() hm.Type {
	list := make([]hm.Type, o.arity+1)
	for i := range list {
		list[i] = token
	}
	return hm.NewFnType(list...)
}

func (o *operator) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	return tensor.Shape{1}, nil
}

// Do is never called: the expression graph is differentiated, not run.
func (o *operator) Do(...gorgonia.Value) (gorgonia.Value, error) {
	return nil, fmt.Errorf("autodiff: %v is not to be run", o)
}

func (o *operator) ReturnsPtr() bool     { return true }
func (o *operator) CallsExtern() bool    { return false }
func (o *operator) OverwritesInput() int { return -1 }

// WriteHash makes every operator different: gorgonia merges nodes of equal hash.
func (o *operator) WriteHash(h hash.Hash) { fmt.Fprintf(h, "onnxmem %d %d", o.t.salt, o.serial) }

// errMerged reports that gorgonia merged two additions of gradients, because
// their 32-bit hashes are equal.
var errMerged = errors.New("gorgonia merged nodes with equal hashes")

// retryIfMerged tries again with other hashes if gorgonia merged nodes. With n
// additions, that happens in one of 2³³/n² models.
func retryIfMerged(try func(salt int) error) error {
	const most = 8
	for salt := 0; ; salt++ {
		if err := try(salt); !errors.Is(err, errMerged) || salt == most {
			return err
		}
	}
}

func (o *operator) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *operator) String() string {
	if o.node == nil {
		return "term"
	}
	return o.node.Op
}

// apply adds an operator to the expression graph.
func (t *tape) apply(o *operator, children ...*gorgonia.Node) (*gorgonia.Node, error) {
	t.serial++
	o.t, o.serial, o.arity = t, t.serial, len(children)
	before := len(t.expr.AllNodes())
	if len(children) == 0 {
		n := gorgonia.NewUniqueNode(gorgonia.WithType(token), gorgonia.WithOp(o), gorgonia.In(t.expr), gorgonia.WithShape(1))
		if len(t.expr.AllNodes()) == before {
			return t.apply(o)
		}
		return n, nil
	}
	n, err := gorgonia.ApplyOp(o, children...)
	if err == nil && len(t.expr.AllNodes()) == before {
		// Two nodes have the same 32-bit hash. Another serial number changes it.
		return t.apply(o, children...)
	}
	return n, err
}

// leaf returns the token of a tensor that no operator of the tape makes.
func (t *tape) leaf(id ID) *gorgonia.Node {
	if n := t.tokens[id]; n != nil {
		return n
	}
	t.serial++
	n := gorgonia.NewTensor(t.expr, tensor.Float32, 1, gorgonia.WithShape(1), gorgonia.WithName(fmt.Sprintf("t%d", t.serial)))
	t.tokens[id] = n
	return n
}

// record adds a node of our graph to the expression graph.
func (t *tape) record(n *graph.Node) error {
	o := &operator{kind: whole, node: n}
	var children []*gorgonia.Node
	for i, id := range n.Inputs {
		if id != graph.None {
			o.inputs = append(o.inputs, i)
			children = append(children, t.leaf(id))
		}
	}
	if len(children) == 0 {
		return nil // a constant: its outputs are leaves
	}
	made, err := t.apply(o, children...)
	if err != nil {
		return err
	}
	if len(n.Outputs) == 1 {
		t.tokens[n.Outputs[0]] = made
		return nil
	}
	for k, id := range n.Outputs {
		if id == graph.None {
			continue
		}
		p, err := t.apply(&operator{kind: projection, node: n, slot: k}, made)
		if err != nil {
			return err
		}
		t.tokens[id] = p
	}
	return nil
}

// DiffWRT reports to which children gradients flow.
func (o *operator) DiffWRT(inputs int) []bool {
	flows := make([]bool, inputs)
	for j := range flows {
		switch o.kind {
		case whole:
			flows[j] = o.t.flows(o.node, o.inputs[j])
		case projection:
			flows[j] = o.t.reached[o.node.Outputs[o.slot]]
		}
	}
	return flows
}

// flows reports whether input i of a node needs a gradient.
func (t *tape) flows(n *graph.Node, i int) bool {
	id := n.Inputs[i]
	if id == graph.None || !t.need[id] || !t.outputReached(n) {
		return false
	}
	r := LookupRule(n.Domain, n.Op)
	return r != nil && r.flows(i, t.g.Tensors[id].Type.Elem)
}

func (t *tape) outputReached(n *graph.Node) bool {
	for _, id := range n.Outputs {
		if id != graph.None && t.reached[id] {
			return true
		}
	}
	return false
}

// SymDiff emits the gradients of the children of one operator.
func (o *operator) SymDiff(children gorgonia.Nodes, made, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	t := o.t
	defer t.attributeTo(o.node)()
	out := make(gorgonia.Nodes, len(children))
	if o.kind == projection {
		total, err := t.sumTerms(made, grad)
		if err != nil {
			return nil, err
		}
		out[0], err = t.passTerm(children[0], total, o.slot)
		return out, err
	}
	c := &Backward{emitter: t.emitter, Node: o.node, rule: LookupRule(o.node.Domain, o.node.Op)}
	c.d = make([]ID, len(o.node.Outputs))
	for k := range c.d {
		c.d[k] = graph.None
	}
	if len(o.node.Outputs) == 1 {
		total, err := t.sumTerms(made, grad)
		if err != nil {
			return nil, err
		}
		c.d[0] = total
	} else {
		terms, err := t.terms(made, grad)
		if err != nil {
			return nil, err
		}
		for _, s := range terms {
			c.d[s.slot] = s.value
		}
	}
	c.needs, c.grads = make([]bool, len(o.node.Inputs)), make([]ID, len(o.node.Inputs))
	for _, i := range o.inputs {
		c.needs[i], c.grads[i] = t.flows(o.node, i), graph.None
	}
	t.phase = phaseBackward
	t.emitGradient(c)
	for j, i := range o.inputs {
		if t.err != nil {
			return nil, t.err
		}
		if !c.needs[i] {
			continue
		}
		if c.grads[i] == graph.None {
			c.Failf("its rule gives no gradient of input %d", i)
			return nil, t.err
		}
		var err error
		if out[j], err = t.passTerm(children[j], c.grads[i], 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// attributeTo attributes the nodes emitted from now on to a forward node, until the
// returned function is called.
func (t *tape) attributeTo(n *graph.Node) func() {
	scope, of, phase := t.scope, t.of, t.phase
	t.of = n.Name
	if t.of == "" {
		t.of = t.g.Tensors[n.Outputs[0]].Name
	}
	t.scope = t.of + ".grad/"
	return func() { t.scope, t.of, t.phase = scope, of, phase }
}

// passTerm passes one term of the gradient of child to gorgonia.
func (t *tape) passTerm(child *gorgonia.Node, value ID, slot int) (*gorgonia.Node, error) {
	t.pending[child]++
	return t.apply(&operator{kind: term, slot: slot, value: value})
}

// terms lists, in order, the terms of the sum that gorgonia made for the gradient
// of a node. It fails if terms are missing: gorgonia merges additions with equal
// 32-bit hashes without comparing them.
func (t *tape) terms(made, grad *gorgonia.Node) ([]*operator, error) {
	var list []*operator
	stack := []*gorgonia.Node{grad}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if o, ok := n.Op().(*operator); ok {
			list = append(list, o)
			continue
		}
		var children []*gorgonia.Node
		for it := t.expr.From(n.ID()); it.Next(); {
			children = append(children, it.Node().(*gorgonia.Node))
		}
		for i := len(children) - 1; i >= 0; i-- {
			stack = append(stack, children[i])
		}
	}
	if len(list) != t.pending[made] {
		t.fail(fmt.Errorf("gorgonia gave %d terms of a gradient, expected %d: %w", len(list), t.pending[made], errMerged))
		return nil, t.err
	}
	return list, nil
}

// sumTerms adds the terms of a gradient one after the other, so that each can be
// freed at once.
func (t *tape) sumTerms(made, grad *gorgonia.Node) (ID, error) {
	terms, err := t.terms(made, grad)
	if err != nil {
		return graph.None, err
	}
	t.phase = phaseAccumulate
	values := make([]ID, len(terms))
	for i, o := range terms {
		values[i] = o.value
	}
	if len(values) > 1 {
		t.widenTerms(made, values)
	}
	return t.sumOf(values), t.err
}
