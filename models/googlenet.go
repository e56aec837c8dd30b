package models

// inception holds the channels of one module: of the 1x1 branch, of the 3x3 and
// 5x5 branches (reduced, then expanded), and of the branch after the pooling.
type inception struct {
	name                                            string
	one, threeReduce, three, fiveReduce, five, pool int64
}

// googLeNet is table 1 of the paper in torchvision's form: BatchNorm after
// every convolution, and 3x3 where the paper has 5x5. The two auxiliary
// classifiers serve training alone and are left out.
func googLeNet(b *builder) {
	x := b.imageInput()
	halve := window{kernel: all(3), stride: all(2), ceil: true}
	x = b.in("conv1").inceptionConv(x, conv{out: 64, kernel: all(7), stride: all(2), pad: all(3)})
	x = b.maxPool(x, "maxpool1", halve)
	x = b.in("conv2").inceptionConv(x, conv{out: 64, kernel: all(1)})
	x = b.in("conv3").inceptionConv(x, conv{out: 192, kernel: all(3), pad: all(1)})
	x = b.maxPool(x, "maxpool2", halve)
	x = b.inception(x, inception{"inception3a", 64, 96, 128, 16, 32, 32})
	x = b.inception(x, inception{"inception3b", 128, 128, 192, 32, 96, 64})
	x = b.maxPool(x, "maxpool3", halve)
	x = b.inception(x, inception{"inception4a", 192, 96, 208, 16, 48, 64})
	x = b.inception(x, inception{"inception4b", 160, 112, 224, 24, 64, 64})
	x = b.inception(x, inception{"inception4c", 128, 128, 256, 24, 64, 64})
	x = b.inception(x, inception{"inception4d", 112, 144, 288, 32, 64, 64})
	x = b.inception(x, inception{"inception4e", 256, 160, 320, 32, 128, 128})
	x = b.maxPool(x, "maxpool4", window{kernel: all(2), stride: all(2), ceil: true})
	x = b.inception(x, inception{"inception5a", 256, 160, 320, 32, 128, 128})
	x = b.inception(x, inception{"inception5b", 384, 192, 384, 48, 128, 128})
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "fc", b.whole("classes"), truncatedNormal(0.01), zeros))
}

func (b *builder) inception(x value, m inception) value {
	b = b.in("%s", m.name)
	one := b.in("branch1").inceptionConv(x, conv{out: m.one, kernel: all(1)})
	three := b.in("branch2.0").inceptionConv(x, conv{out: m.threeReduce, kernel: all(1)})
	three = b.in("branch2.1").inceptionConv(three, conv{out: m.three, kernel: all(3), pad: all(1)})
	five := b.in("branch3.0").inceptionConv(x, conv{out: m.fiveReduce, kernel: all(1)})
	five = b.in("branch3.1").inceptionConv(five, conv{out: m.five, kernel: all(3), pad: all(1)})
	pool := b.maxPool(x, "branch4.pool", window{kernel: all(3), pad: all(1)})
	pool = b.in("branch4").inceptionConv(pool, conv{out: m.pool, kernel: all(1)})
	return b.concat("concat", 1, one, three, five, pool)
}

// inceptionConv is a convolution, BatchNorm and ReLU.
func (b *builder) inceptionConv(x value, c conv) value {
	c.out = b.channels(c.out)
	return b.relu(b.batchNorm(b.conv(x, "conv", c), "bn", 1e-3))
}
