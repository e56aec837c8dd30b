package models

// residual builds a block: inner channels, and the stride of its first step.
type residual func(b *builder, x value, inner, stride int64) value

func resNet18(b *builder) { resNet(b, basicBlock, 2, 2, 2, 2) }

func resNet50(b *builder) { resNet(b, bottleneck, 3, 4, 6, 3) }

// resNet is table 1 of the paper.
func resNet(b *builder, block residual, counts ...int) {
	x := b.imageInput()
	x = b.conv(x, "conv1", conv{out: b.channels(64), kernel: all(7), stride: all(2), pad: all(3)})
	x = b.relu(b.batchNorm(x, "bn1", 1e-5))
	x = b.maxPool(x, "maxpool", window{kernel: all(3), stride: all(2), pad: all(1)})
	b.residuals(x, block, uniformIn, counts)
}

// residuals adds the four stages and the classifier of a ResNet.
func (b *builder) residuals(x value, block residual, weights initializer, counts []int) {
	inner, stride := int64(64), int64(1)
	for i, count := range counts {
		for k := range count {
			x = block(b.in("layer%d.%d", i+1, k), x, b.channels(inner), stride)
			stride = 1
		}
		inner, stride = 2*inner, 2
	}
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "fc", b.whole("classes"), weights, zeros))
}

// basicBlock is two convolutions of 3x3, of 3x3x3 on video.
func basicBlock(b *builder, x value, inner, stride int64) value {
	y := b.conv(x, "conv1", conv{out: inner, kernel: all(3), stride: all(stride), pad: all(1)})
	y = b.relu(b.batchNorm(y, "bn1", 1e-5))
	y = b.conv(y, "conv2", conv{out: inner, kernel: all(3), pad: all(1)})
	y = b.batchNorm(y, "bn2", 1e-5)
	return b.relu(b.add("add", y, b.shortcut(x, inner, stride)))
}

// bottleneck is 1x1, 3x3, 1x1 with four times the channels at the end. The
// 3x3 has the stride, as in all implementations since the paper (v1.5).
func bottleneck(b *builder, x value, inner, stride int64) value {
	y := b.conv(x, "conv1", conv{out: inner, kernel: all(1)})
	y = b.relu(b.batchNorm(y, "bn1", 1e-5))
	y = b.conv(y, "conv2", conv{out: inner, kernel: all(3), stride: all(stride), pad: all(1)})
	y = b.relu(b.batchNorm(y, "bn2", 1e-5))
	y = b.conv(y, "conv3", conv{out: 4 * inner, kernel: all(1)})
	y = b.batchNorm(y, "bn3", 1e-5)
	return b.relu(b.add("add", y, b.shortcut(x, 4*inner, stride)))
}

// shortcut is x itself, or a projection where the shape changes.
func (b *builder) shortcut(x value, out, stride int64) value {
	if x.shape[1] == out && stride == 1 {
		return x
	}
	y := b.conv(x, "downsample.0", conv{out: out, kernel: all(1), stride: all(stride)})
	return b.batchNorm(y, "downsample.1", 1e-5)
}
