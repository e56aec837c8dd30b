package ops

import "github.com/onnxmem/onnxmem/graph"

// Apply gives the types, and where they fold the values, of the outputs of one
// node that stands alone: in holds one Arg for each of its inputs, version is
// that of its domain. It is for those who build graphs and want each tensor's
// type at once. Operators with bodies and local functions need Infer; an
// operator that is not known, or that contradicts its inputs, is an error.
func Apply(n *graph.Node, version int64, in []Arg) ([]Arg, error) {
	op := Lookup(n.Domain, n.Op)
	if op == nil || len(n.Bodies()) > 0 {
		return nil, graph.Errorf("%s: expected an operator that is known and has no body", n.OpName())
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
