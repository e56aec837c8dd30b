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

// contrib adds a node of ONNX Runtime's.
func (n *net) contrib(op, out string, attrs []*graph.Attr, in ...string) {
	n.with(op, out, attrs, in...)
	n.g.Nodes[len(n.g.Nodes)-1].Domain = "com.microsoft"
}

// packed adds a product of in, of k elements, and weights of 4 bits for each of m outputs.
func (n *net) packed(out, in string, m, k int, more ...*graph.Attr) {
	n.bytes(out+".w", int64(m), int64(k/32), 16)
	n.reals(out+".s", int64(m*k/32))
	n.g.Tensors[n.tensor(out+".w")].Data.Type = graph.Uint8
	n.contrib("MatMulNBits", out, append(attrs(attr("N", m), attr("K", k), attr("bits", 4), attr("block_size", 32)), more...), in, out+".w", out+".s")
}

// fewBits is a small network with weights of 4 bits and the operators around them in decoders.
func fewBits(n *net) {
	n.other = append(n.other, graph.Opset{Domain: "com.microsoft", Version: 1})
	n.input("x", 2, 3)
	n.constant("words", graph.Float32, nil, float32(23))
	n.node("Mul", "i", "x", "words")
	n.with("Cast", "ids", attrs(attr("to", int(graph.Int64))), "i")
	n.bytes("table", 24, 32)
	n.g.Tensors[n.tensor("table")].Data.Type = graph.Uint8
	n.reals("table.s", 24, 2)
	n.contrib("GatherBlockQuantized", "h", attrs(attr("block_size", 32)), "table", "ids", "table.s")
	n.reals("scale", 64)
	n.node("SimplifiedLayerNormalization", "normal", "h", "scale")
	n.packed("q", "normal", 96, 64)
	n.constant("first", graph.Int64, []int64{1}, int64(1))
	n.reals("cos", 5, 8)
	n.reals("sin", 5, 8)
	n.contrib("RotaryEmbedding", "turned", attrs(attr("num_heads", 6)), "q", "first", "cos", "sin")
	n.packed("o", "turned", 64, 96, attr("accuracy_level", 4))
	n.contrib("SkipSimplifiedLayerNormalization", "last", nil, "h", "o", "scale")
	n.packed("y", "last", 40, 64)
	n.output("y", 2, 3, 40)
}

// TestDeviceTypes: sessions in 16-bit reals, in quantized bytes and with weights of 4 bits
// give the same bits with every tensor apart and in every order of work, every node is right, and none runs on the
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
		{"4 bits", fewBits, 2e-2}, // the CPU rounds a row to 8 bits
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
