package vm_test

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// alike adds a tensor of one number.
func (n *net) alike(name string, number float32, dims ...int64) {
	list := make([]any, len(dims))
	for i, d := range dims {
		list[i] = d
	}
	n.constant(name+".shape", graph.Int64, []int64{int64(len(dims))}, list...)
	n.with("ConstantOfShape", name, attrs(&graph.Attr{Name: "value", Type: graph.AttrTensor, Tensor: &graph.Data{Type: graph.Float32, Dims: []int64{1}, Bytes: 4, Raw: binary.LittleEndian.AppendUint32(nil, math.Float32bits(number))}}), name+".shape")
}

// alikeNet writes a network whose weights nodes make, each of one number: convolutions in both
// layouts, of groups and of several depths, products on either side, and weights that others
// read, too.
func alikeNet(t *testing.T) string {
	n := newNet()
	n.input("x", 1, 3, 12, 12)
	n.alike("w0", 0.25, 32, 3, 3, 3)
	n.with("Conv", "a", attrs(integers("strides", 2, 2), integers("pads", 1, 1, 1, 1)), "x", "w0")
	n.alike("w1", -0.125, 64, 32, 3, 3)
	n.with("Conv", "b", attrs(integers("pads", 1, 1, 1, 1)), "a", "w1")
	n.node("Relu", "r", "b")
	n.alike("w2", 0.3, 64, 16, 1, 1)
	n.with("Conv", "c", attrs(integer("group", 4)), "r", "w2")
	n.alike("h", 0.05, 24, 64, 1, 1) // half a block more
	n.with("Conv", "h0", nil, "c", "h")
	n.alike("h2", 0.4, 40, 24, 1, 1)
	n.with("Conv", "h1", nil, "h0", "h2")
	n.alike("w3", 0.0625, 5, 40, 3, 3)
	n.with("Conv", "d", attrs(integers("pads", 1, 1, 1, 1)), "h1", "w3")
	n.node("Flatten", "f", "d") // 1 x 180
	n.alike("w4", 0.5, 40, 180)
	n.with("Gemm", "g", attrs(integer("transB", 1)), "f", "w4")
	n.alike("w5", 0.7, 7, 1)
	n.node("MatMul", "m", "w5", "g") // 7 x 40
	n.alike("w6", 1.5, 40, 40)
	n.node("MatMul", "s", "w6", "w6")
	n.node("MatMul", "p", "m", "s")
	n.alike("w7", 0.2, 40, 40)
	n.node("MatMul", "q", "p", "w7")
	n.node("Sigmoid", "e", "w7")
	n.node("MatMul", "y", "q", "e")
	n.output("y", 7, 40)
	path := filepath.Join(t.TempDir(), "alike.onnx")
	n.write(t, path)
	return path
}

// TestAlikeWeights: a node that makes alike weights does not run if each of its readers has
// packed them, and what is packed takes one strip for each side and number.
func TestAlikeWeights(t *testing.T) {
	p, _ := program(t, alikeNet(t), passes.Options{Fold: passes.FoldOff})
	want, s := runSteps(t, p, vm.Options{Workers: 1}, nil, 1)
	for _, line := range strings.Split(s.Lowered(), "\n") {
		name, does, _ := strings.Cut(line, ": ")
		if !strings.Contains(name, "ConstantOfShape") {
			continue
		}
		runs := strings.Contains(name, `"w6"`) || strings.Contains(name, `"w7"`)
		if runs == strings.Contains(does, "packed by its readers") {
			t.Errorf("%s: %s", name, does)
		}
	}
	if packed := s.Memory().PackedBytes; packed <= 0 || packed > 8*32<<10 {
		t.Errorf("packed %d bytes, want a strip of 256 depths for each number and side", packed)
	}
	for _, opt := range []vm.Options{{Workers: 3}, {NoPack: true}, {Separate: true}, {Workers: 1, Poison: true}} {
		got, _ := runSteps(t, p, opt, nil, 2)
		sameBits(t, "other options", got, want)
	}
}
