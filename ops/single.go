package ops

import "github.com/onnxmem/onnxmem/graph"

// Apply returns the types, and where they fold the values, of the outputs of a
// single node. in has one Arg for each of its inputs; version is that of its
// domain. It serves programs that build graphs and need each tensor's type at
// once. Operators with bodies and local functions need Infer; an unknown
// operator, or one that contradicts its inputs, is an error.
func Apply(n *graph.Node, version int64, in []Arg) ([]Arg, error) {
	op := Lookup(n.Domain, n.Op)
	if op == nil || len(n.Bodies()) > 0 {
		return nil, graph.Errorf("%s: expected a known operator without bodies", n.OpName())
	}
	inf := &inferrer{model: &graph.Model{}, result: &Inference{}}
	c := &Call{Node: n, Version: version, In: in, Out: make([]Arg, len(n.Outputs)), inf: inf}
	for i, t := range n.Outputs {
		c.Out[i].Present = t != graph.None
	}
	if err := op.Infer(c); err != nil {
		return nil, err
	}
	if op.Fold != nil && c.foldable() {
		op.Fold(c)
	}
	return c.Out, nil
}
