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

// TestFoldKeepsBitsInBodies: so it is in a loop whose body transposes a weight of the outer
// graph and reads one that the outer graph transposes. Other nodes read both weights, too.
func TestFoldKeepsBitsInBodies(t *testing.T) {
	b := newNet()
	declare := func(name string, d graph.DType) {
		b.declare(name).Declared.Type = graph.TensorOf(d)
		b.g.Inputs = append(b.g.Inputs, b.tensor(name))
	}
	declare("i", graph.Int64)
	declare("go", graph.Bool)
	b.input("v", 2, 3, 300)
	b.node("Transpose", "wt", "w")
	b.node("MatMul", "h", "v", "wt")
	b.node("MatMul", "next", "h", "ct")
	b.node("Identity", "on", "go")
	b.g.Outputs = []graph.TensorID{b.tensor("on"), b.tensor("next")}
	b.g.Link()

	n := newNet()
	n.input("x", 2, 3, 300)
	n.weight("w", 70, 300)
	n.weight("c", 300, 70)
	n.constant("times", graph.Int64, nil, int64(3))
	n.node("Transpose", "ct", "c")
	n.node("Loop", "y", "times", "", "x")
	loop := n.nodeOf("y")
	loop.Inputs[1] = graph.None
	loop.Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: b.g}}
	n.node("Gather", "z", "w", "times")
	n.node("Gather", "e", "c", "times")
	n.output("y", 2, 3, 300)
	n.output("z", 300)
	n.output("e", 70)
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	n.write(t, path)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 300})}
	var want []byte
	for _, fold := range []passes.Fold{passes.FoldOff, passes.FoldExact, passes.FoldAny} {
		p, planned := program(t, path, passes.Options{Fold: fold})
		s, err := p.NewSession(vm.Options{Poison: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		out, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if fold == passes.FoldOff {
			want = bytes.Clone(out["y"].Data)
		}
		if !bytes.Equal(out["y"].Data, want) {
			t.Errorf("fold %d: other bits", fold)
		}
		checkBoth(t, p, inputs, vm.Options{Poison: true})
		if fold == passes.FoldAny && len(planned.Plan.Folded.Products) != 2 {
			t.Errorf("folded %+v, expected two products that read a weight as it lies", planned.Plan.Folded)
		}
	}
}
