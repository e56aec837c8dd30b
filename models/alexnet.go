package models

// alexNet is the form of Krizhevsky 2014, which has no grouped convolution and
// no response normalization, initialised as in the paper of 2012 (section 5).
// The first fully connected layer follows the image's size.
func alexNet(b *builder) {
	weights := normal(0.01)
	x := b.imageInput()
	f := b.in("features")
	pool := window{kernel: all(3), stride: all(2)}
	x = f.relu(f.conv(x, "conv1", conv{out: b.channels(64), kernel: all(11), stride: all(4), pad: all(2), weights: weights, bias: zeros}))
	x = f.maxPool(x, "pool1", pool)
	x = f.relu(f.conv(x, "conv2", conv{out: b.channels(192), kernel: all(5), pad: all(2), weights: weights, bias: ones}))
	x = f.maxPool(x, "pool2", pool)
	x = f.relu(f.conv(x, "conv3", conv{out: b.channels(384), kernel: all(3), pad: all(1), weights: weights, bias: zeros}))
	x = f.relu(f.conv(x, "conv4", conv{out: b.channels(256), kernel: all(3), pad: all(1), weights: weights, bias: ones}))
	x = f.relu(f.conv(x, "conv5", conv{out: b.channels(256), kernel: all(3), pad: all(1), weights: weights, bias: ones}))
	x = b.flatten(f.maxPool(x, "pool5", pool))
	c := b.in("classifier")
	x = c.relu(c.linear(x, "fc6", b.channels(4096), weights, ones))
	x = c.relu(c.linear(x, "fc7", b.channels(4096), weights, ones))
	b.output("logits", c.linear(x, "fc8", b.whole("classes"), weights, zeros))
}
