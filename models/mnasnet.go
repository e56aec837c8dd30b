package models

// mnasNet is MNASNet-B1: the network that the search of the paper found without
// squeeze and excitation.
func mnasNet(b *builder) {
	x := b.imageInput()
	x = b.in("stem.0").convNorm(x, conv{out: b.channels(32), kernel: all(3), stride: all(2), pad: all(1)})
	x = b.relu(x)
	s := b.in("stem.1")
	x = s.relu(s.in("depthwise").convNorm(x, depthwise(x, 3, 1)))
	x = s.in("project").convNorm(x, conv{out: b.channels(16), kernel: all(1)})
	for i, row := range []inverted{
		{3, 3, 24, 3, 2},
		{5, 3, 40, 3, 2},
		{5, 6, 80, 3, 2},
		{3, 6, 96, 2, 1},
		{5, 6, 192, 4, 2},
		{3, 6, 320, 1, 1},
	} {
		for k := range row.count {
			x = b.in("stack%d.%d", i+1, k).invertedResidual(x, row, k, (*builder).relu)
		}
	}
	x = b.in("head").convNorm(x, conv{out: 1280, kernel: all(1)})
	x = b.relu(x)
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "classifier", b.whole("classes"), kaimingUniformSigmoid, zeros))
}
