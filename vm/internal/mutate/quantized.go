package mutate

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// quantizedConvolutions lists the seeds of quantizedSeed.
var quantizedConvolutions = []struct {
	name   string
	group  int64
	shared bool
}{
	{"large_quantized_Conv", 1, false},
	{"large_quantized_Conv_groups", 2, true},
	{"large_quantized_Conv_depthwise", 6, true},
}

// quantizedSeed is a convolution between DequantizeLinear and QuantizeLinear, which
// sessions compute from bytes to bytes. Scales, weights and bias are constants, so it is
// no row of large. If shared is set, the image is read as reals, too.
func quantizedSeed(name string, group int64, shared bool) (*Seed, error) {
	const channels, made = 6, 12
	g := &graph.Graph{Name: "g"}
	tensor := map[string]graph.TensorID{}
	id := func(name string) graph.TensorID {
		if _, known := tensor[name]; !known {
			tensor[name] = g.NewTensor(name)
		}
		return tensor[name]
	}
	constant := func(name string, v vm.Value) {
		d := &graph.Data{Name: name, Type: v.Type, Raw: v.Data, Bytes: int64(len(v.Data))}
		for _, n := range v.Shape {
			d.Dims = append(d.Dims, int64(n))
		}
		g.Tensors[id(name)].Data = d
	}
	node := func(op string, a []*graph.Attr, out string, in ...string) {
		n := &graph.Node{Name: out, Op: op, Attrs: a, Outputs: []graph.TensorID{id(out)}}
		for _, t := range in {
			n.Inputs = append(n.Inputs, id(t))
		}
		g.Nodes = append(g.Nodes, n)
	}
	output := func(name string, d graph.DType) {
		g.Tensors[id(name)].Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: d}}
		g.Outputs = append(g.Outputs, id(name))
	}
	// Powers of two, so that a bias in units of both scales is exact.
	constant("x.scale", vm.Float32s([]float32{1.0 / 64}))
	constant("w.scale", vm.Float32s([]float32{1.0 / 32}))
	constant("b.scale", vm.Float32s([]float32{1.0 / 2048}))
	constant("y.scale", vm.Float32s([]float32{1.0 / 16}))
	constant("zero", converted(vm.Float32s([]float32{7}), graph.Uint8))
	constant("w.q", converted(hundreds([]int{made, channels / int(group), 3, 3}, 1), graph.Int8))
	constant("b.q", converted(hundreds([]int{made}, 2), graph.Int32))
	x := converted(hundreds([]int{2, channels, 9, 11}, 3), graph.Uint8)
	g.Tensors[id("x.q")].Declared = &graph.Declared{Type: graph.TensorOf(graph.Uint8, 2, channels, 9, 11), Symbols: make([]string, 4)}
	g.Inputs = append(g.Inputs, id("x.q"))

	node("DequantizeLinear", nil, "x", "x.q", "x.scale", "zero")
	node("DequantizeLinear", nil, "w", "w.q", "w.scale")
	node("DequantizeLinear", nil, "b", "b.q", "b.scale")
	node("Conv", append(attrs("pads", 1, 1, 1, 1), attrs("group", group)...), "y", "x", "w", "b")
	node("QuantizeLinear", nil, "y.q", "y", "y.scale", "zero")
	output("y.q", graph.Uint8)
	if shared {
		node("Neg", nil, "z", "x")
		output("z", graph.Float32)
	}
	g.Link()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 23}}, Graph: g}
	return NewSeed(name, m, []vm.Value{x})
}

// hundreds is noise between -100 and 100.
func hundreds(shape []int, salt int) vm.Value {
	v := noise(shape, salt)
	list, _ := v.Reals()
	big := make([]float32, len(list))
	for i, x := range list {
		big[i] = float32(100 * x)
	}
	return vm.Float32s(big, shape...)
}
