package models

// vgg16 is configuration D: convolutions of 3x3 alone, in five stages. It is
// initialised by Glorot's rule, which the paper (section 3.1) found to make
// pre-training unnecessary. The first fully connected layer follows the image's
// size.
func vgg16(b *builder) {
	x := b.imageInput()
	for i, stage := range []struct{ layers, out int64 }{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}} {
		s := b.in("stage%d", i+1)
		for k := range stage.layers {
			l := s.in("%d", k)
			x = l.relu(l.conv(x, "conv", conv{out: b.channels(stage.out), kernel: all(3), pad: all(1), weights: xavierUniform, bias: zeros}))
		}
		x = s.maxPool(x, "pool", window{kernel: all(2), stride: all(2)})
	}
	x = b.flatten(x)
	c := b.in("classifier")
	x = c.relu(c.linear(x, "fc1", b.channels(4096), xavierUniform, zeros))
	x = c.relu(c.linear(x, "fc2", b.channels(4096), xavierUniform, zeros))
	b.output("logits", c.linear(x, "fc3", b.whole("classes"), xavierUniform, zeros))
}
