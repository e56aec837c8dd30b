package models

import "math"

// efficientNet is table 1 of the paper: inverted residuals with squeeze and
// excitation, scaled by width and depth (B1: width 1, depth 1.1, size 240; B7:
// 2, 3.1, 600).
func efficientNet(b *builder) {
	x := b.imageInput()
	stem := b.in("features.0")
	x = stem.silu(stem.convNorm(x, conv{out: b.channels(32), kernel: all(3), stride: all(2), pad: all(1)}))
	for i, row := range []inverted{
		{3, 1, 16, 1, 1},
		{3, 6, 24, 2, 2},
		{5, 6, 40, 2, 2},
		{3, 6, 80, 3, 2},
		{5, 6, 112, 3, 1},
		{5, 6, 192, 4, 2},
		{3, 6, 320, 1, 1},
	} {
		row.count = int64(math.Ceil(float64(row.count) * b.real("depth")))
		for k := range row.count {
			x = b.in("features.%d.%d", i+1, k).mbConv(x, row, k)
		}
	}
	head := b.in("features.8")
	x = head.silu(head.convNorm(x, conv{out: 4 * x.shape[1], kernel: all(1)}))
	x = b.flatten(b.globalAveragePool(x, "avgpool"))
	b.output("logits", b.linear(x, "classifier", b.whole("classes"), uniformOut, zeros))
}

// mbConv is the k-th block of a row: an inverted residual whose channels are
// weighted before the projection.
func (b *builder) mbConv(x value, row inverted, k int64) value {
	stride := row.stride
	if k > 0 {
		stride = 1
	}
	y := x
	if row.expand > 1 {
		s := b.in("expand")
		y = s.silu(s.convNorm(y, conv{out: x.shape[1] * row.expand, kernel: all(1)}))
	}
	s := b.in("depthwise")
	y = s.silu(s.convNorm(y, depthwise(y, row.kernel, stride)))
	y = b.in("se").squeezeExcite(y, max(1, x.shape[1]/4))
	y = b.in("project").convNorm(y, conv{out: b.channels(row.out), kernel: all(1)})
	if stride == 1 && x.shape[1] == y.shape[1] {
		y = b.add("add", x, y)
	}
	return y
}

// squeezeExcite weights each channel by a function of the averages of all
// channels (Hu et al. 2018).
func (b *builder) squeezeExcite(x value, inner int64) value {
	y := b.globalAveragePool(x, "avgpool")
	y = b.silu(b.conv(y, "reduce", conv{out: inner, kernel: all(1), bias: zeros}))
	y = b.sigmoid(b.conv(y, "expand", conv{out: x.shape[1], kernel: all(1), bias: zeros}))
	return b.binary("Mul", "scale", x, y)
}
