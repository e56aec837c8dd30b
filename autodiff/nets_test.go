package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// The networks of these tests have random float32 parameters, no two alike.

// real draws a float32 tensor.
func (b *builder) real(shape ...int) *reference.Tensor {
	x := b.value(operand{shape: shape, elem: graph.Float32})
	for i, v := range x.F { // as the file stores it
		x.F[i] = float64(float32(v / 2))
	}
	return x
}

// weights adds a parameter.
func (b *builder) weights(name string, shape ...int) ID {
	return b.initializer(name, b.real(shape...))
}

// classes draws labels.
func (b *builder) classes(shape []int, most int) {
	x := &reference.Tensor{Type: graph.Int64, Shape: shape}
	n := 1
	for _, d := range shape {
		n *= d
	}
	for range n {
		x.I = append(x.I, int64(b.rnd.IntN(most)))
	}
	b.feeds[labelsName] = x
}

// perceptron has two layers, the second without Gemm, and, if asked, Dropouts.
func perceptron(dropouts int) (*graph.Model, map[string]*reference.Tensor) {
	b := newBuilder("perceptron", 13)
	h := b.op("h", "Gemm", attrs{"transB": 1}, b.input("x", b.real(5, 4)), b.weights("fc1.weight", 6, 4), b.weights("fc1.bias", 6))
	h = b.op("h.act", "Tanh", nil, h)
	for k := range dropouts {
		h = b.op([]string{"d0", "d1"}[k], "Dropout", nil, h)
	}
	h = b.op("logits.matmul", "MatMul", nil, h, b.weights("fc2.weight", 6, 3))
	y := b.op("logits", "Add", nil, h, b.weights("fc2.bias", 3))
	b.classes([]int{5}, 3)
	return b.finish(y), b.feeds
}

// convolutional has a strided and a grouped convolution with batch normalization,
// overlapping pooling, and a shortcut.
func convolutional() (*graph.Model, map[string]*reference.Tensor) {
	b := newBuilder("convolutional", 17)
	norm := func(name string, x ID, channels int) ID {
		mean := b.initializer(name+".running_mean", b.real(channels))
		variance := b.value(operand{shape: []int{channels}, elem: graph.Float32, low: 0.5, high: 1.5})
		for i, v := range variance.F {
			variance.F[i] = float64(float32(v))
		}
		return b.op(name, "BatchNormalization", nil, x, b.weights(name+".weight", channels), b.weights(name+".bias", channels), mean, b.initializer(name+".running_var", variance))
	}
	same := []int64{1, 1, 1, 1}
	h := b.op("conv1", "Conv", attrs{"pads": same}, b.input("x", b.real(2, 2, 6, 6)), b.weights("conv1.weight", 4, 2, 3, 3), b.weights("conv1.bias", 4))
	h = b.op("act1", "Sigmoid", nil, norm("bn1", h, 4))
	h = b.op("pool", "MaxPool", attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2}, "pads": same}, h)
	g := b.op("conv2", "Conv", attrs{"pads": same, "group": 2}, h, b.weights("conv2.weight", 4, 2, 3, 3))
	h = b.op("sum", "Add", nil, b.op("act2", "HardSwish", nil, norm("bn2", g, 4)), h)
	h = b.op("conv3", "Conv", attrs{"strides": []int64{2, 2}}, h, b.weights("conv3.weight", 5, 4, 1, 1))
	h = b.op("flat", "Flatten", nil, b.op("mean", "GlobalAveragePool", nil, h))
	y := b.op("logits", "Gemm", attrs{"transB": 1}, h, b.weights("fc.weight", 3, 5), b.weights("fc.bias", 3))
	b.classes([]int{2}, 3)
	return b.finish(y), b.feeds
}

// transformer is one block of attention and perceptron; the embedding table also makes
// the logits.
func transformer() (*graph.Model, map[string]*reference.Tensor) {
	b := newBuilder("transformer", 20)
	const batch, places, width, heads, words = 2, 3, 4, 2, 7
	ids := b.input("ids", &reference.Tensor{Type: graph.Int64, Shape: []int{batch, places}, I: []int64{1, 6, 1, 0, 3, 5}})
	table := b.weights("wte.weight", words, width)
	h := b.op("embedded", "Add", nil, b.op("tokens", "Gather", nil, table, ids), b.weights("wpe.weight", places, width))
	norm := func(name string, x ID) ID {
		return b.op(name, "LayerNormalization", nil, x, b.weights(name+".weight", width), b.weights(name+".bias", width))
	}
	linear := func(name string, x ID, in, out int) ID {
		return b.op(name, "Add", nil, b.op(name+".matmul", "MatMul", nil, x, b.weights(name+".weight", in, out)), b.weights(name+".bias", out))
	}
	shape := b.initializer("heads", reference.Ints([]int{4}, batch, places, heads, width/heads))
	parts := b.node("", "Split", attrs{"axis": -1, "num_outputs": 3}, []ID{linear("qkv", norm("ln1", h), width, 3*width)}, "q", "k", "v")
	for i, p := range parts {
		name := []string{"q", "k", "v"}[i]
		perm := []int64{0, 2, 1, 3}
		if name == "k" {
			perm = []int64{0, 2, 3, 1}
		}
		parts[i] = b.op(name+".heads", "Transpose", attrs{"perm": perm}, b.op(name+".split", "Reshape", nil, p, shape))
	}
	scale := b.initializer("scale", &reference.Tensor{Type: graph.Float32, Shape: []int{}, F: []float64{0.75}})
	mask := b.initializer("val_3", &reference.Tensor{Type: graph.Float32, Shape: []int{places, places}, F: []float64{0, -1e4, -1e4, 0, 0, -1e4, 0, 0, 0}})
	scores := b.op("masked", "Add", nil, b.op("scaled", "Mul", nil, b.op("scores", "MatMul", nil, parts[0], parts[1]), scale), mask)
	mixed := b.op("mixed", "MatMul", nil, b.op("weights", "Softmax", attrs{"axis": -1}, scores), parts[2])
	flat := b.initializer("flat", reference.Ints([]int{3}, 0, 0, -1))
	mixed = b.op("merged", "Reshape", nil, b.op("back", "Transpose", attrs{"perm": []int64{0, 2, 1, 3}}, mixed), flat)
	h = b.op("h1", "Add", nil, h, linear("proj", mixed, width, width))
	inner := b.op("gelu", "Gelu", nil, linear("up", norm("ln2", h), width, 6))
	h = norm("ln3", b.op("h2", "Add", nil, h, linear("down", inner, 6, width)))
	y := b.op("logits", "MatMul", nil, h, b.op("tied", "Transpose", attrs{"perm": []int64{1, 0}}, table))
	b.classes([]int{batch, places}, words)
	return b.finish(y), b.feeds
}
