package constant

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// notComputed are operators that move elements, but are not computed: exporters put none of
// them between a weight and what reads it.
var notComputed = []string{
	"BitCast", "CenterCropPad", "Compress", "Crop", "DepthToSpace", "GatherElements", "GatherND", "ReverseSequence", "SpaceToDepth", "Trilu",
}

// TestMovesAreComputed: operators that only move elements, by their class in package ops, are
// computed or listed.
func TestMovesAreComputed(t *testing.T) {
	listed := map[string]bool{}
	for _, name := range notComputed {
		listed[name] = true
	}
	for _, name := range ops.Names("") {
		class := ops.Lookup("", name).Class
		if class != ops.Move && class != ops.View {
			continue
		}
		if known := Known(&graph.Node{Op: name}); known == listed[name] {
			t.Errorf("%s moves elements: computed: %v, listed as not computed: %v", name, known, listed[name])
		}
	}
}
