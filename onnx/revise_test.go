package onnx_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/onnx"
)

// TestEncodeLeavesOutRemovedNodes: the last node too, where the others stand as
// they stood.
func TestEncodeLeavesOutRemovedNodes(t *testing.T) {
	f, err := onnx.Open("../testdata/light/light_squeezenet.onnx", onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := len(f.Graph.Nodes)
	f.Graph.Nodes = f.Graph.Nodes[:n-1]
	im, err := onnx.Encode(f.Model)
	if err != nil {
		t.Fatal(err)
	}
	if im.Size >= int64(len(f.Source.Bytes)) {
		t.Errorf("%d bytes without the last of %d nodes, %d with it", im.Size, n, len(f.Source.Bytes))
	}
}
