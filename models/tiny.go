package models

import "github.com/onnxmem/onnxmem/graph"

// The four networks of MLPerf Tiny (Banbury et al. 2021), after the benchmark's reference
// models in Keras (github.com/mlcommons/tiny, benchmark/training): convolutions and dense
// layers have a bias, even before BatchNorm, and convolutions have Keras's padding, which
// puts an odd row or column behind. As in the other classifiers of this package, there
// is no final Softmax.

// kerasEpsilon is what a BatchNorm of Keras adds to the variance.
const kerasEpsilon = 1e-3

// tinyDSCNN spots keywords in MFCCs: a convolution, then four depthwise separable ones,
// all of one width.
func tinyDSCNN(b *builder) {
	frames, coefficients := b.whole("frames"), b.whole("coefficients")
	x := b.input("mfcc", graph.Float32, b.dim("batch"), 1, frames, coefficients)
	width := b.channels(64)
	x = b.relu(b.in("stem").kerasConvNorm(x, conv{out: width, kernel: []int64{10, 4}, stride: all(2), weights: xavierUniform}))
	for i := range 4 {
		x = b.in("blocks.%d", i).separable(x, width, 1, xavierUniform)
	}
	// The pool covers half of the input, rounded down: not the last of 25 rows.
	pool := []int64{frames / 2, coefficients / 2}
	x = b.pool("AveragePool", x, "avgpool", window{kernel: pool, stride: pool})
	b.output("logits", b.linear(b.flatten(x), "fc", b.whole("classes"), xavierUniform, zeros))
}

// tinyMobileNet finds persons in images: MobileNet at a quarter of its width.
func tinyMobileNet(b *builder) {
	x := b.imageInput()
	x = b.relu(b.in("stem").kerasConvNorm(x, conv{out: b.channels(8), kernel: all(3), stride: all(2), weights: heNormal}))
	for i, block := range mobileNetV1Blocks {
		x = b.in("blocks.%d", i).separable(x, b.channels(block.out/4), block.stride, heNormal)
	}
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "fc", b.whole("classes"), xavierUniform, zeros))
}

// tinyResNet8 classifies CIFAR-10: three residual blocks. Where the shape changes, the
// shortcut is a convolution without BatchNorm.
func tinyResNet8(b *builder) {
	x := b.imageInput()
	x = b.relu(b.in("stem").kerasConvNorm(x, conv{out: b.channels(16), kernel: all(3), weights: heNormal}))
	for i, inner := range []int64{16, 32, 64} {
		s, out, stride := b.in("layer%d", i+1), b.channels(inner), int64(min(i+1, 2))
		y := s.relu(s.in("0").kerasConvNorm(x, conv{out: out, kernel: all(3), stride: all(stride), weights: heNormal}))
		y = s.in("1").kerasConvNorm(y, conv{out: out, kernel: all(3), weights: heNormal})
		if stride > 1 {
			x = s.conv(x, "shortcut", conv{out: out, kernel: all(1), stride: all(stride), weights: heNormal, bias: zeros})
		}
		x = s.relu(s.add("add", x, y))
	}
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "fc", b.whole("classes"), heNormal, zeros))
}

// tinyAutoencoder detects anomalies: it reconstructs five frames of 128 mel bands through
// a code of eight numbers.
func tinyAutoencoder(b *builder) {
	x := b.input("features", graph.Float32, b.dim("batch"), b.whole("features"))
	hidden := b.whole("hidden")
	for i, out := range []int64{hidden, hidden, hidden, hidden, b.whole("code"), hidden, hidden, hidden, hidden} {
		s := b.in("layers.%d", i)
		x = s.relu(s.batchNorm(s.linear(x, "dense", out, xavierUniform, zeros), "bn", kerasEpsilon))
	}
	b.output("reconstruction", b.linear(x, "dense", b.whole("features"), xavierUniform, zeros))
}

// separable is a depthwise convolution of 3x3 and a pointwise one.
func (b *builder) separable(x value, out, stride int64, weights initializer) value {
	c := x.shape[1]
	x = b.relu(b.in("depthwise").kerasConvNorm(x, conv{out: c, kernel: all(3), stride: all(stride), groups: c, weights: weights}))
	return b.relu(b.in("pointwise").kerasConvNorm(x, conv{out: out, kernel: all(1), weights: weights}))
}

// kerasConvNorm is a convolution with a bias and Keras's padding, and BatchNorm.
func (b *builder) kerasConvNorm(x value, c conv) value {
	c.same, c.bias = true, zeros
	return b.batchNorm(b.conv(x, "conv", c), "bn", kerasEpsilon)
}
