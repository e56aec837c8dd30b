package models

// visionTransformer is the model of section 3.1: patches as tokens, one more
// for the class, pre-norm. Dense layers are initialised by Glorot's rule, as in
// the authors' code.
func visionTransformer(b *builder) {
	const epsilon = 1e-6
	hidden, heads, patch := b.whole("hidden"), b.heads(), b.whole("patch")
	x := b.imageInput()
	n := x.shape[0]
	if size := x.shape[2]; size%patch != 0 {
		b.fail("setting \"size\" is %d, expected a multiple of patch, which is %d", size, patch)
	}
	x = b.conv(x, "patches", conv{out: hidden, kernel: all(patch), stride: all(patch), weights: lecunNormal, bias: zeros})
	x = b.reshape(x, "patches.flat", n, hidden, product(x.shape[2:]...))
	x = b.transpose(x, "tokens", 0, 2, 1)
	class := b.expand(b.weight("class_token", zeros, fan{}, 1, 1, hidden), "class", n, 1, hidden)
	x = b.concat("concat", 1, class, x)
	x = b.add("embedded", x, b.weight("positions", normal(0.02), fan{}, 1, x.shape[1], hidden))
	for i := range b.whole("layers") {
		l := b.in("encoder.%d", i)
		y := l.layerNorm(x, "norm1", epsilon)
		y = l.in("attention").attention(y, y, attention{heads, nil, xavierUniform, zeros})
		x = l.add("attention.add", x, y)
		m := l.in("mlp")
		y = m.gelu(m.dense(l.layerNorm(x, "norm2", epsilon), "inner", b.whole("ff"), xavierUniform, zeros))
		x = l.add("mlp.add", x, m.dense(y, "outer", hidden, xavierUniform, zeros))
	}
	x = b.layerNorm(x, "norm", epsilon)
	x = b.at(x, "class.output", 1, 0)
	b.output("logits", b.linear(x, "head", b.whole("classes"), xavierUniform, zeros))
}
