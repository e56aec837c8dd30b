package gorgonia

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"sort"

	"github.com/chewxy/hm"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/topo"
	"gorgonia.org/tensor"
)

// Backpropagate asks the operators for gradients, from outputs to wrt, and returns one gradient
// for each of wrt.
func Backpropagate(outputs, gradOutputs, wrt Nodes) (Nodes, error) {
	g := outputs[0].g
	sorted, err := topo.SortStabilized(g, byNumber)
	if err != nil {
		return nil, err
	}
	affects, affected := set(outputs), set(wrt)
	for _, v := range sorted {
		if n := v.(*Node); affects[n] && n.op != nil {
			for j, flows := range n.flows() {
				if flows {
					affects[n.children[j]] = true
				}
			}
		}
	}
	for i := len(sorted) - 1; i >= 0; i-- {
		n := sorted[i].(*Node)
		for j, flows := range n.flows() {
			if flows && affected[n.children[j]] {
				affected[n] = true
				break
			}
		}
	}
	for _, n := range wrt {
		if !affects[n] {
			return nil, errors.New("non-differentiable inputs")
		}
	}
	for _, n := range outputs {
		if !affected[n] {
			return nil, errors.New("non-differentiable outputs")
		}
	}
	terms := map[*Node]Nodes{}
	for i, n := range outputs {
		terms[n] = Nodes{gradOutputs[i]}
	}
	for _, v := range sorted {
		n := v.(*Node)
		if !affects[n] || !affected[n] {
			continue
		}
		if len(terms[n]) == 0 {
			return nil, errors.New("no gradients found for a node")
		}
		grad := terms[n][0]
		for _, t := range terms[n][1:] {
			if grad, err = ApplyOp(add{}, grad, t); err != nil {
				return nil, err
			}
		}
		terms[n] = Nodes{grad}
		if n.op == nil {
			continue
		}
		op, is := n.op.(SDOp)
		if !is {
			return nil, errors.New("an operator without a gradient")
		}
		grads, err := op.SymDiff(n.children, n, grad)
		if err != nil {
			return nil, fmt.Errorf(".SymDiff() failed: %w", err)
		}
		for j, flows := range n.flows() {
			if child := n.children[j]; flows {
				terms[child] = append(terms[child], grads[j])
			}
		}
	}
	var found Nodes
	for _, n := range wrt {
		found = append(found, terms[n][0])
	}
	return found, nil
}

// flows says to which operands gradients flow.
func (n *Node) flows() []bool {
	if op, is := n.op.(SDOp); is {
		return op.DiffWRT(len(n.children))
	}
	return nil
}

func set(nodes Nodes) map[*Node]bool {
	s := map[*Node]bool{}
	for _, n := range nodes {
		s[n] = true
	}
	return s
}

// byNumber decides between nodes that may follow each other in any order, as gorgonia does.
func byNumber(nodes []graph.Node) {
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].ID() > nodes[j].ID() })
}

// add is the sum of two terms of a gradient.
type add struct{}

func (add) Arity() int                                   { return 2 }
func (add) Type() hm.Type                                { return nil }
func (add) InferShape(...DimSizer) (tensor.Shape, error) { return tensor.Shape{1}, nil }
func (add) Do(...Value) (Value, error)                   { return nil, errors.New("not to be run") }
func (add) ReturnsPtr() bool                             { return true }
func (add) CallsExtern() bool                            { return false }
func (add) OverwritesInput() int                         { return -1 }
func (add) WriteHash(h hash.Hash)                        { fmt.Fprint(h, "add") }
func (add) String() string                               { return "+" }

func (o add) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}
