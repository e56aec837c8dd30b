package vm_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	opattr "github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// blocked adds a node of ONNX Runtime's operators on images in blocks.
func (n *net) blocked(op, out string, attrs []*graph.Attr, in ...string) {
	n.node(op, out, in...)
	k := n.g.Nodes[len(n.g.Nodes)-1]
	k.Domain, k.Attrs = opattr.Nchwc, attrs
	for i, name := range in {
		if name == "" {
			k.Inputs[i] = graph.None
		}
	}
}

// planesNet writes a network of ONNX Runtime's operators on images in blocks.
func planesNet(t *testing.T) string {
	same := attrs(integers("pads", 1, 1, 1, 1))
	n := newNet()
	n.other = []graph.Opset{{Domain: opattr.Nchwc, Version: 1}}
	n.input("x", 2, 3, 9, 11)
	n.weight("w", 8, 3, 3, 3)
	n.weight("v", 8, 8, 3, 3)
	n.blocked("Conv", "a", same, "x", "w")
	n.blocked("Conv", "b", same, "a", "v", "", "a")
	n.node("Relu", "c", "b")
	n.node("Concat", "d", "c", "a")
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = axisAttr(1)
	n.blocked("ReorderOutput", "y", attrs(attr("channels", 14)), "d")
	n.blocked("Conv", "e", same, "a", "v")
	n.blocked("Conv", "f", same, "a", "v")
	n.node("Add", "g", "e", "f")
	n.node("Softmax", "h", "f")
	n.blocked("MaxPool", "i", attrs(integers("kernel_shape", 2, 2)), "g")
	n.output("y", 2, 14, 9, 11)
	n.output("h", 2, 8, 9, 11)
	n.output("i", 2, 8, 8, 10)
	path := filepath.Join(t.TempDir(), "blocks.onnx")
	n.write(t, path)
	return path
}

// Images in blocks are held in NCHW where only operators that do not see the difference
// touch them, with the same results: not where another operator reads them, or the caller,
// and so neither what is added to those.
func TestImagesHeldInNCHW(t *testing.T) {
	path := planesNet(t)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 9, 11})}
	p, s := session(t, path, passes.Options{}, vm.Options{})
	if held := s.HeldInNCHW(); !slices.Equal(held, []string{"a", "b", "c", "d"}) {
		t.Errorf("held in NCHW: %v", held)
	}
	want, err := s.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []vm.Options{{Workers: 3, Poison: true}, {NoPack: true}, {Separate: true}, {Guard: vm.GuardEnd}} {
		_, s := session(t, path, passes.Options{}, opt)
		got, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range want {
			if !bytes.Equal(v.Data, got[name].Data) {
				t.Errorf("%+v: output %s has other bits", opt, name)
			}
		}
	}
	checkBoth(t, p, inputs, vm.Options{})
}
