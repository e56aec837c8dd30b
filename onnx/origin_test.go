package onnx_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestOrigins: the exporter's metadata say which initializers are parameters, or were
// computed from parameters.
func TestOrigins(t *testing.T) {
	f, err := onnx.Open("../testdata/light/groupnorm.onnx", onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]graph.Origin{
		"0.weight": graph.OriginParameter, "4.bias": graph.OriginParameter,
		"val_20": graph.OriginParameter, // computed from 1.weight, which the file has not
		"val_28": graph.OriginParameter, // 3.weight, transposed
		"val_13": graph.OriginConstant,  // a shape
	}
	for _, x := range f.Model.Graph.Tensors {
		if origin, ok := want[x.Name]; ok && x.Origin != origin {
			t.Errorf("%s has origin %d, expected %d", x.Name, x.Origin, origin)
		}
		if x.Data == nil && x.Origin != graph.OriginUnknown {
			t.Errorf("%s is no initializer, and has origin %d", x.Name, x.Origin)
		}
		delete(want, x.Name)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
