package graph

import (
	"slices"
	"testing"
)

// A node has an effect if it is random or unknown, or if a node of its bodies or its
// function has an effect.
func TestEffects(t *testing.T) {
	plain := func() *Node { return &Node{Semantics: Semantics{Known: true}} }
	draws := func() *Node { return &Node{Semantics: Semantics{Known: true, Random: true}} }
	within := func(nodes ...*Node) *Node {
		n := plain()
		n.Attrs = []*Attr{{Name: "body", Type: AttrGraph, Graph: &Graph{Nodes: nodes}}}
		return n
	}
	calls := func(c *Call) *Node { return &Node{Semantics: Semantics{Call: c}} }
	quiet, loud := &Call{Body: &Graph{Nodes: []*Node{plain()}}}, &Call{Body: &Graph{Nodes: []*Node{plain(), within(draws())}}}
	outer := &Call{Body: &Graph{Nodes: []*Node{calls(loud), calls(loud)}}}
	g := &Graph{Nodes: []*Node{
		plain(), draws(), {}, within(plain()), within(plain(), within(&Node{})), calls(quiet), calls(loud), calls(outer),
	}}
	want := []bool{false, true, true, false, true, false, true, true}
	if got := Effects(g); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
