package models

// mobileNetV1Blocks are the output channels and strides of MobileNet's blocks.
var mobileNetV1Blocks = []struct{ out, stride int64 }{
	{64, 1},
	{128, 2},
	{128, 1},
	{256, 2},
	{256, 1},
	{512, 2},
	{512, 1},
	{512, 1},
	{512, 1},
	{512, 1},
	{512, 1},
	{1024, 2},
	{1024, 1},
}

// mobileNetV1 is table 1 of the paper: after the stem, a depthwise convolution
// of 3x3 and a pointwise one, thirteen times.
func mobileNetV1(b *builder) {
	x := b.imageInput()
	x = b.in("stem").convNorm(x, conv{out: b.channels(32), kernel: all(3), stride: all(2), pad: all(1)})
	x = b.relu(x)
	for i, block := range mobileNetV1Blocks {
		s := b.in("blocks.%d", i)
		x = s.relu(s.in("depthwise").convNorm(x, depthwise(x, 3, block.stride)))
		x = s.relu(s.in("pointwise").convNorm(x, conv{out: b.channels(block.out), kernel: all(1)}))
	}
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "fc", b.whole("classes"), truncatedNormal(0.09), zeros))
}

// inverted is a row of a table of inverted residuals: blocks of one kind, the
// first of which has the stride.
type inverted struct{ kernel, expand, out, count, stride int64 }

// mobileNetV2 is table 2 of the paper. The last convolution does not shrink
// with a width below 1.
func mobileNetV2(b *builder) {
	x := b.imageInput()
	x = b.in("features.0").convNorm(x, conv{out: b.channels(32), kernel: all(3), stride: all(2), pad: all(1)})
	x = b.relu6(x)
	i := 1
	for _, row := range []inverted{
		{3, 1, 16, 1, 1},
		{3, 6, 24, 2, 2},
		{3, 6, 32, 3, 2},
		{3, 6, 64, 4, 2},
		{3, 6, 96, 3, 1},
		{3, 6, 160, 3, 2},
		{3, 6, 320, 1, 1},
	} {
		for k := range row.count {
			x = b.in("features.%d", i).invertedResidual(x, row, k, (*builder).relu6)
			i++
		}
	}
	head := b.in("features.%d", i)
	x = head.relu6(head.convNorm(x, conv{out: divisible(1280 * max(1, b.real("width"))), kernel: all(1)}))
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "classifier", b.whole("classes"), normal(0.01), zeros))
}

// invertedResidual is the k-th block of a row: expand, filter each channel,
// project without activation.
func (b *builder) invertedResidual(x value, row inverted, k int64, activation func(*builder, value) value) value {
	stride := row.stride
	if k > 0 {
		stride = 1
	}
	y := x
	if row.expand > 1 {
		s := b.in("expand")
		y = activation(s, s.convNorm(y, conv{out: x.shape[1] * row.expand, kernel: all(1)}))
	}
	s := b.in("depthwise")
	y = activation(s, s.convNorm(y, depthwise(y, row.kernel, stride)))
	y = b.in("project").convNorm(y, conv{out: b.channels(row.out), kernel: all(1)})
	if stride == 1 && x.shape[1] == y.shape[1] {
		y = b.add("add", x, y)
	}
	return y
}

// depthwise is a convolution of each channel of x on its own.
func depthwise(x value, kernel, stride int64) conv {
	c := x.shape[1]
	return conv{out: c, kernel: all(kernel), stride: all(stride), pad: all(kernel / 2), groups: c}
}

// convNorm is a convolution and BatchNorm.
func (b *builder) convNorm(x value, c conv) value {
	return b.batchNorm(b.conv(x, "conv", c), "bn", 1e-5)
}
