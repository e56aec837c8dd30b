package vm_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// The transpose of a constant that only products read is computed when the session is
// built, and freed once it is packed. The memory and the bits are the same as for a weight
// that is stored transposed.
func TestConstantsAreMadeOnce(t *testing.T) {
	build := func(name string, transposed, alsoRead bool, fold passes.Fold) (*vm.Program, *vm.Session) {
		n := newNet()
		n.input("x", 4, 32)
		weight := "w"
		n.weight("w", 32, 32)
		if transposed {
			// Two transposes leave the numbers in their places.
			n.node("Transpose", "wt", "w")
			n.node("Transpose", "wtt", "wt")
			weight = "wtt"
		}
		n.node("MatMul", "a", "x", weight)
		n.node("Tanh", "b", "a")
		n.node("MatMul", "y", "b", weight)
		n.output("y", 4, 32)
		if alsoRead {
			n.node("Neg", "z", weight)
			n.output("z", 32, 32)
		}
		path := filepath.Join(t.TempDir(), name)
		n.write(t, path)
		return session(t, path, passes.Options{Fold: fold}, vm.Options{Poison: true})
	}
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{4, 32})}
	run := func(s *vm.Session) []byte {
		out, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(out["y"].Data)
	}
	_, plain := build("plain.onnx", false, false, passes.FoldOff)
	want, packed := run(plain), plain.Memory().PackedBytes
	for i := range 4 {
		// Folded, the weight is a view of a constant, which is packed like one.
		alsoRead, fold := i%2 == 1, []passes.Fold{passes.FoldOff, passes.FoldExact}[i/2]
		p, s := build("net.onnx", true, alsoRead, fold)
		if got := run(s); !bytes.Equal(got, want) {
			t.Errorf("other bits (also read: %v)", alsoRead)
		}
		// A constant that other nodes read, too, is computed and packed at every step.
		expected := packed
		if alsoRead && fold == passes.FoldOff {
			expected = 0
		}
		if got := s.Memory().PackedBytes; got != expected {
			t.Errorf("%d bytes packed (also read: %v), want %d", got, alsoRead, expected)
		}
		found, err := p.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
		if err != nil || !found.Identical() {
			t.Errorf("%+v, %v", found, err)
		}
	}
}

// A constant that a convolution reads twice is packed as weights and kept as the image.
func TestConstantsThatAreReadTwice(t *testing.T) {
	n := newNet()
	n.input("x", 1)
	n.weight("w", 12, 6, 3, 3)
	n.node("Transpose", "wt", "w")
	n.g.Nodes[0].Attrs = []*graph.Attr{integers("perm", 0, 1, 3, 2)}
	n.node("Conv", "a", "wt", "wt")
	n.node("Add", "y", "a", "x")
	n.output("y", 12, 12, 1, 1)
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	p, s := session(t, path, passes.Options{Fold: passes.FoldOff}, vm.Options{Poison: true})
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{1})}
	if _, err := s.Run(t.Context(), inputs); err != nil {
		t.Fatal(err)
	}
	checkBoth(t, p, inputs, vm.Options{})
}
