package vm_test

import (
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// reals adds an initializer of random numbers in [-1, 1).
func (n *net) reals(name string, dims ...int64) {
	var list []any
	count := int64(1)
	for _, k := range dims {
		count *= k
	}
	for range count {
		list = append(list, 2*n.draw.Float32()-1)
	}
	n.constant(name, graph.Float32, dims, list...)
}

// bytes adds an initializer of random bytes.
func (n *net) bytes(name string, dims ...int64) {
	var list []any
	count := int64(1)
	for _, k := range dims {
		count *= k
	}
	for range count {
		list = append(list, int8(n.draw.IntN(256)-128))
	}
	n.constant(name, graph.Int8, dims, list...)
}

// cast adds name.t, a tensor as a dtype.
func (n *net) cast(name string, d graph.DType) {
	n.node("Cast", name+".t", name)
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = []*graph.Attr{attr("to", int(d))}
}

// inType is a small network that computes in a dtype.
func inType(d graph.DType) func(n *net) {
	return func(n *net) {
		n.input("x", 2, 3, 8, 8)
		n.reals("w", 5, 3, 3, 3)
		n.reals("b", 5)
		n.reals("v", 5, 7)
		for _, name := range []string{"x", "w", "b", "v"} {
			n.cast(name, d)
		}
		n.node("Conv", "c", "x.t", "w.t", "b.t")
		n.node("Relu", "r", "c")
		n.node("GlobalAveragePool", "p", "r")
		n.node("Flatten", "f", "p")
		n.node("MatMul", "m", "f", "v.t")
		n.node("Sigmoid", "s", "m")
		n.node("Softmax", "y", "s")
		n.cast("y", graph.Float32)
		n.output("y.t", 2, 7)
	}
}

// quantizedAtRunTime is a small network whose activations are quantized by their range.
func quantizedAtRunTime(n *net) {
	n.input("x", 4, 24)
	n.bytes("w", 24, 10)
	n.constant("scale", graph.Float32, nil, float32(1)/128)
	n.node("DynamicQuantizeLinear", "q", "x")
	last := n.g.Nodes[len(n.g.Nodes)-1]
	last.Outputs = append(last.Outputs, n.tensor("q.scale"), n.tensor("q.zero"))
	n.node("MatMulInteger", "i", "q", "w", "q.zero")
	n.cast("i", graph.Float32)
	n.node("Mul", "s", "q.scale", "scale")
	n.node("Mul", "m", "i.t", "s")
	n.node("Softmax", "y", "m")
	n.output("y", 4, 10)
}

// quantizedBefore is a small network with the scales of all tensors, between pairs of
// QuantizeLinear and DequantizeLinear.
func quantizedBefore(n *net) {
	n.input("x", 1, 3, 8, 8)
	n.quantize("x", 1.0/64, 128)
	n.convolve("c", "x", 1.0/64, 1, nil, 6, 3, 3, 3)
	n.node("Relu", "r", "c")
	n.quantize("r", 1.0/16, 0)
	n.convolve("y", "r", 1.0/16, 1, nil, 4, 6, 3, 3)
	n.output("y", 1, 4, 4, 4)
}

// TestDeviceTypes: sessions in 16-bit reals and in quantized bytes give the same bits with
// every tensor apart and in every order of work, every node is right, and none runs on the
// host.
func TestDeviceTypes(t *testing.T) {
	d, f := onDevice(t)
	for _, c := range []struct {
		name  string
		build func(n *net)
		part  float64 // of the largest element, by which the CPU may differ
	}{
		{"float16", inType(graph.Float16), 4e-3},
		{"bfloat16", inType(graph.BFloat16), 3e-2},
		{"int8, quantized at run time", quantizedAtRunTime, 2e-5},
		{"int8, quantized before", quantizedBefore, 2e-5},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNet()
			c.build(n)
			path := filepath.Join(t.TempDir(), "net.onnx")
			n.write(t, path)
			p, _ := program(t, path, passes.Options{})
			want, _ := runSteps(t, p, vm.Options{}, nil, 1)
			got, s := runSteps(t, p, vm.Options{Device: d}, nil, 1)
			nearly(t, got, want, c.part)
			if u := s.DeviceUse(); u.FallbackNodes > 0 {
				t.Errorf("on the CPU: %d nodes (%v)", u.FallbackNodes, u.FallbackOps)
			}
			apart, _ := runSteps(t, p, vm.Options{Device: d, Separate: true}, nil, 1)
			sameBits(t, "apart", apart, got)
			replayed, s := runSteps(t, p, vm.Options{Device: d}, nil, 3)
			sameBits(t, "replayed", replayed, got)
			if k := s.DeviceUse().ReplayedSteps; k != 1 {
				t.Errorf("%d steps of 3 were replayed, expected 1", k)
			}
			found, err := p.CheckReference(t.Context(), []map[string]vm.Value{inputsOf(p)}, vm.Options{Device: d})
			if err != nil {
				t.Fatal(err)
			}
			if found.Wrong > 0 || found.Compared == 0 {
				t.Errorf("%d of %d nodes are wrong: %v", found.Wrong, found.Compared, found.First)
			}
			if f == nil {
				return
			}
			for _, mode := range modes {
				f.Mode(mode)
				again, _ := runSteps(t, p, vm.Options{Device: d}, nil, 1)
				sameBits(t, mode, again, got)
			}
		})
	}
}
