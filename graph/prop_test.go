package graph_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestSetPropReplacesDuplicates: a file may hold a metadata entry twice; after the entry
// is set, it occurs once.
func TestSetPropReplacesDuplicates(t *testing.T) {
	twice := func() *graph.Node {
		return &graph.Node{Props: []graph.Prop{{Key: "a", Value: "1"}, {Key: "k", Value: "2"}, {Key: "b", Value: "3"}, {Key: "k", Value: "4"}}}
	}
	n := twice()
	n.SetProp("k", "5")
	if want := []graph.Prop{{Key: "a", Value: "1"}, {Key: "k", Value: "5"}, {Key: "b", Value: "3"}}; !slices.Equal(n.Props, want) {
		t.Errorf("set: got %v, want %v", n.Props, want)
	}
	n = twice()
	n.DropProp("k")
	if want := []graph.Prop{{Key: "a", Value: "1"}, {Key: "b", Value: "3"}}; !slices.Equal(n.Props, want) {
		t.Errorf("dropped: got %v, want %v", n.Props, want)
	}
}
