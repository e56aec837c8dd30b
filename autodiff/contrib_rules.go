package autodiff

import "github.com/onnxmem/onnxmem/graph"

// cdistGrad: the gradient of a distance goes along the difference of the two rows. With Q,
// the gradient of each distance over twice its slope by the square, it is
// A · (sum of Q's rows) - Q · B. Rows at the same place have no gradient.
func cdistGrad(c *Backward) {
	q := c.D(0)
	switch metric := c.Str("metric", "sqeuclidean"); metric {
	case "sqeuclidean":
		q = c.times(q, 2)
	case "euclidean":
		zero := c.op("Equal", c.Y(0), c.scalar(q, 0))
		q = c.where(zero, c.scalar(q, 0), c.div(q, c.Y(0)))
	default:
		c.Failf("metric %q has no gradient rule: expected sqeuclidean or euclidean", metric)
		return
	}
	side := func(i int, q ID) {
		if c.Needs(i) {
			c.Set(i, c.sub(c.mul(c.X(i), c.sum(q, []int64{1}, true)), c.op("MatMul", q, c.X(1-i))))
		}
	}
	side(0, q)
	if c.Needs(1) {
		side(1, c.swapLast(q))
	}
}

// packedProductGrad: the weights are frozen. They are unpacked for the gradient of the
// input alone, so a step does not hold them longer than for one product. Inputs: A, B [N,
// blocks, bytes], scales, zero points, g_idx, bias.
func packedProductGrad(c *Backward) {
	bits, block := c.Int("bits", 4), c.Int("block_size", 0)
	n, k := c.Int("N", 0), c.Int("K", 0)
	b, scales := c.shape(c.X(1)), c.shape(c.X(2))
	a := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	blocks := int64(0)
	if len(b) == 3 {
		blocks = b[1]
	}
	switch {
	case bits != 4 && bits != 8:
		c.Failf("bits is %d: expected 4 or 8 on a path to the loss", bits)
		return
	case c.present(c.X(4)):
		c.Failf("input 4 (g_idx) is given: expected blocks in order on a path to the loss")
		return
	case n < 1 || k < 1 || block < 1 || blocks < 1 || b[0] != n || b[2] != block*bits/8 || blocks > k || (blocks-1)*block >= k || elements(scales) != n*blocks || a[len(a)-1] != k:
		c.Failf("weights %v and scales %v: expected %d rows of blocks of %d elements that cover %d", b, scales, n, block, k)
		return
	}
	elem := c.typeOf(c.X(0)).Elem
	// unpacked gives [n, blocks, of each] numbers of [n, ..., bytes].
	unpacked := func(t ID) ID {
		if bits == 8 {
			return t
		}
		low := c.op("BitwiseAnd", t, c.constant(graph.Uint8, nil, []byte{15}, nil))
		high := c.with("BitShift", attrs{"direction": "RIGHT"}, t, c.constant(graph.Uint8, nil, []byte{4}, nil))
		s := c.shape(t)
		pair := c.joined([]ID{c.op("Unsqueeze", low, c.list(-1)), c.op("Unsqueeze", high, c.list(-1))}, len(s))
		return c.reshape(pair, concat(s[:len(s)-1], []int64{2 * s[len(s)-1]}))
	}
	if c.Needs(0) {
		w := c.castTo(unpacked(c.X(1)), elem)
		switch zero := c.X(3); {
		case !c.present(zero):
			w = c.plus(w, -float64(int64(1)<<(bits-1)))
		case c.typeOf(zero).Elem == graph.Uint8:
			packed := (blocks*bits + 7) / 8
			if elements(c.shape(zero)) != n*packed {
				c.Failf("zero points of shape %v: expected %d for each of %d rows", c.shape(zero), packed, n)
				return
			}
			t := c.resized(unpacked(c.reshape(zero, []int64{n, packed})), 1, blocks)
			w = c.sub(w, c.castTo(c.reshape(t, []int64{n, blocks, 1}), elem))
		default:
			w = c.sub(w, c.castTo(c.reshape(zero, []int64{n, blocks, 1}), elem))
		}
		w = c.mul(w, c.castTo(c.reshape(c.X(2), []int64{n, blocks, 1}), elem))
		w = c.resized(c.reshape(w, []int64{n, blocks * block}), 1, k)
		c.Set(0, c.op("MatMul", c.D(0), w))
	}
	if c.Needs(5) {
		c.setUnbroadcast(5, c.D(0))
	}
}

// cropAndResizeGrad adds the gradients of the crops where their samples lie. The boxes
// [y1, x1, y2, x2] are relative to the image; its borders are the centres of the outer
// elements.
func cropAndResizeGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.D(0))
	if c.err != nil {
		return
	}
	if exceeds(maxMask, y[0], y[2], y[3]) {
		c.Failf("crops of shape %v: expected at most %d samples of each channel", y, maxMask)
		return
	}
	linear := c.Str("mode", "bilinear") == "bilinear"
	corners := c.split(c.X(1), 1, 1, 1, 1, 1)
	along := func(k int, n, places int64) []gridTap {
		from, to := c.times(corners[k], float64(n-1)), c.times(corners[k+2], float64(n-1))
		steps := make([]float64, places)
		for i := range steps {
			if steps[i] = 0.5; places > 1 {
				steps[i] = float64(i) / float64(places-1)
			}
		}
		p := c.add(from, c.mul(c.sub(to, from), c.reals(c.typeOf(from).Elem, []int64{1, places}, steps)))
		inside := c.op("And", c.op("GreaterOrEqual", p, c.scalar(p, 0)), c.op("LessOrEqual", p, c.scalar(p, float64(n-1))))
		if !linear { // halves are rounded up
			p = c.op("Floor", c.plus(p, 0.5))
		}
		return c.tapsOf(p, inside, n)
	}
	rows, columns := along(0, x[2], y[2]), along(1, x[3], y[3])
	d := c.reshape(c.transpose(c.D(0), 0, 2, 3, 1), []int64{y[0] * y[2] * y[3], x[1]})
	c.Set(0, c.sampled(d, x, y[0], y[2], y[3], c.X(2), rows, columns))
}
