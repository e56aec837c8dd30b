package vm_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestFoldKeepsBits: folding changes no bit of a run, also where a product reads a
// transposed weight as it lies.
func TestFoldKeepsBits(t *testing.T) {
	n := newNet()
	n.input("x", 2, 3, 300)
	n.weight("w", 70, 300)
	n.weight("b", 300, 70)
	n.node("Transpose", "wt", "w")
	n.node("Transpose", "bt", "b")
	n.node("MatMul", "h", "x", "wt")
	n.node("MatMul", "y", "h", "bt")
	n.node("Neg", "z", "w")
	n.input("v", 70, 5)
	n.node("MatMul", "l", "wt", "v")
	n.output("y", 2, 3, 300)
	n.output("z", 70, 300)
	n.output("l", 300, 5)
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 300}), "v": ramp([]graph.Dim{70, 5})}
	var want, left []byte
	for _, fold := range []passes.Fold{passes.FoldOff, passes.FoldExact, passes.FoldAny} {
		p, s := session(t, path, passes.Options{Fold: fold}, vm.Options{Poison: true})
		out, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if fold == passes.FoldOff {
			want, left = bytes.Clone(out["y"].Data), bytes.Clone(out["l"].Data)
		}
		if !bytes.Equal(out["y"].Data, want) || !bytes.Equal(out["l"].Data, left) {
			t.Errorf("fold %d: other bits", fold)
		}
		found, err := p.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
		if err != nil || !found.Identical() {
			t.Errorf("fold %d: %+v, %v", fold, found, err)
		}
	}
}
