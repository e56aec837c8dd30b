package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/onnxmem/onnxmem/graph"
)

// network returns a network of two convolutions, the first with BatchNormalization, each
// followed by pooling, and a dense layer: 9,098 parameters. The batch is symbolic. The
// network is smooth (Tanh and average pooling, as in LeNet-5), so that its loss curve is the
// same in every runtime. At the kink of a Relu or a MaxPool, a rounding error decides where
// the gradient goes, and a hundred steps with momentum amplify the difference.
func network(seed uint64) *graph.Model {
	b := &builder{g: &graph.Graph{Name: "digits"}, named: map[string]graph.TensorID{}, draw: rand.New(rand.NewPCG(seed, 5))}
	b.input("image", graph.Unknown, 1, side, side)
	b.conv("conv1", "image", 1, 8)
	b.normal("norm1", "conv1", 8)
	b.node("Tanh", "tanh1", "norm1")
	b.pool("pool1", "tanh1")
	b.conv("conv2", "pool1", 8, 16)
	b.node("Tanh", "tanh2", "conv2")
	b.pool("pool2", "tanh2")
	b.node("Flatten", "flat", "pool2")
	const features = 16 * (side / 4) * (side / 4)
	b.weight("dense.weight", spread(1/math.Sqrt(features)), features, classes)
	b.weight("dense.bias", spread(0.01), classes)
	b.node("Gemm", "logits", "flat", "dense.weight", "dense.bias")
	b.output("logits", graph.Unknown, classes)
	b.g.Link()
	return &graph.Model{IRVersion: 8, Producer: "train-mnist-like", Opsets: []graph.Opset{{Version: 17}}, Graph: b.g}
}

// builder builds a graph; names stand for tensors, and a node has the name of its
// output.
type builder struct {
	g     *graph.Graph
	named map[string]graph.TensorID
	draw  *rand.Rand
}

func (b *builder) tensor(name string) graph.TensorID {
	t, ok := b.named[name]
	if !ok {
		t = b.g.NewTensor(name)
		b.named[name] = t
	}
	return t
}

// declare states the type of an input or output; the first axis is the batch.
func (b *builder) declare(name string, shape []graph.Dim) graph.TensorID {
	id := b.tensor(name)
	t := b.g.Tensors[id]
	t.Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, shape...), Symbols: make([]string, len(shape))}
	t.Declared.Symbols[0] = "batch"
	return id
}

func (b *builder) input(name string, shape ...graph.Dim) {
	b.g.Inputs = append(b.g.Inputs, b.declare(name, shape))
}

func (b *builder) output(name string, shape ...graph.Dim) {
	b.g.Outputs = append(b.g.Outputs, b.declare(name, shape))
}

// spread draws from a normal distribution around 0, about around a given mean.
func spread(by float64) func(*rand.Rand) float64 { return about(0, by) }

func about(center, by float64) func(*rand.Rand) float64 {
	return func(draw *rand.Rand) float64 { return center + by*draw.NormFloat64() }
}

// weight adds an initializer.
func (b *builder) weight(name string, draw func(*rand.Rand) float64, shape ...int64) {
	count := int64(1)
	for _, n := range shape {
		count *= n
	}
	var raw []byte
	for range count {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(draw(b.draw))))
	}
	b.g.Tensors[b.tensor(name)].Data = &graph.Data{Name: name, Type: graph.Float32, Dims: shape, Raw: raw, Bytes: int64(len(raw))}
}

func (b *builder) node(op, out string, in ...string) *graph.Node {
	n := &graph.Node{Name: out, Op: op, Outputs: []graph.TensorID{b.tensor(out)}}
	for _, name := range in {
		n.Inputs = append(n.Inputs, b.tensor(name))
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return n
}

// conv adds a 3x3 convolution that keeps the size.
func (b *builder) conv(name, in string, from, to int64) {
	b.weight(name+".weight", spread(1/math.Sqrt(9*float64(from))), to, from, 3, 3)
	inputs := []string{in, name + ".weight"}
	if name != "conv1" { // a bias before BatchNormalization has no effect
		b.weight(name+".bias", spread(0.01), to)
		inputs = append(inputs, name+".bias")
	}
	b.node("Conv", name, inputs...).Attrs = []*graph.Attr{ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1)}
}

// normal adds a BatchNormalization.
func (b *builder) normal(name, in string, channels int64) {
	b.weight(name+".scale", about(1, 0.01), channels)
	b.weight(name+".bias", spread(0.01), channels)
	b.weight(name+".running_mean", spread(0.01), channels)
	b.weight(name+".running_var", about(1, 0.01), channels)
	b.node("BatchNormalization", name, in, name+".scale", name+".bias", name+".running_mean", name+".running_var")
}

// pool adds a pooling that halves width and height.
func (b *builder) pool(name, in string) {
	b.node("AveragePool", name, in).Attrs = []*graph.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}
}

func ints(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}
