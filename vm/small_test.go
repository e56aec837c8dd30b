package vm_test

import (
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// Small constants that kernels read in place are copied from the mapped file, so that no
// window of pages around each of them is mapped; large ones are read where they lie. The
// results are the same.
func TestSmallConstantsAreCopied(t *testing.T) {
	const small, large = 1 << 10, 1 << 16
	n := newNet()
	for name, elements := range map[string]int{"small": small, "large": large} {
		list := make([]any, elements)
		for i := range list {
			list[i] = float32(i % 7)
		}
		n.constant(name, graph.Float32, []int64{int64(elements)}, list...)
	}
	n.input("x", large)
	n.input("z", small)
	n.node("Add", "y", "x", "large")
	n.node("Add", "w", "z", "small")
	n.output("y", large)
	n.output("w", small)
	path := filepath.Join(t.TempDir(), "small.onnx")
	n.write(t, path)
	p, s := session(t, path, passes.Options{}, vm.Options{Workers: 1})
	defer s.Close()
	in := map[string]vm.Value{"x": vm.Float32s(make([]float32, large), large), "z": vm.Float32s(make([]float32, small), small)}
	out, err := s.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]int{"y": large, "w": small} {
		list, _ := out[name].Reals()
		for i, x := range list {
			if len(list) != of || x != float64(i%7) {
				t.Fatalf("%s: element %d of %d is %v", name, i, len(list), x)
			}
		}
	}
	if m := s.Memory(); m.DecodedBytes != 4*small {
		t.Errorf("copied %d bytes, want %d", m.DecodedBytes, 4*small)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
