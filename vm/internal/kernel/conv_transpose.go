package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func makeConvTranspose(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NCHW16c && isHalf(c.Out[0]) {
		return (&Kernel{Make: makeConvTranspose}).widened(c)
	}
	if c.In[0].Layout == form.NCHW16c {
		c.by("direct", c.In[1].Shape[2:], noted(c.Has(2), "bias"))
		return makeBlocksTranspose(c)
	}
	switch c.Out[0].Type {
	case graph.Float32, graph.Float16, graph.BFloat16:
		return packedTranspose(c)
	case graph.Float64:
		return convTranspose[float64](c)
	}
	return nil, unsupported(c.Out[0].Type)
}

// convTranspose computes each plane of the output on its own, as one part: it adds
// up the planes of the input, each spread by the taps of its weights.
func convTranspose[T floating](c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	v, err := c.TransposedWindow()
	if err != nil {
		return nil, err
	}
	group := c.Int("group", 1)
	channels, per := out.Shape[1], weight.Shape[1]
	ch := x.Shape[1] / group
	c.by("loops", nil)
	part := func(p, _ int) {
		image, o := p/channels, p%channels
		d := span[T](element[T](out, p*v.Inputs()), v.Inputs())
		bias := T(0)
		if c.Has(2) {
			bias = data[T](c.In[2])[o]
		}
		fillAll(c, d, bias)
		for k := range ch {
			i := o/per*ch + k
			spread(c, d, span[T](element[T](x, (image*x.Shape[1]+i)*v.Outputs()), v.Outputs()),
				span[T](element[T](weight, (i*per+o%per)*v.Taps()), v.Taps()), v)
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// transposedLen is about how many products of a transposed convolution are stored
// at once, before they are spread over the output: they stay in the cache.
const transposedLen = 1 << 16

// leastAside is a number of products that may always be stored. A kernel that is
// far larger than the image makes more products of one row than the image and the
// output have elements; beyond this limit, the plain form runs.
const leastAside = 1 << 24

// mostPackedAside is how many weights, which are not constant, are packed aside at once.
const mostPackedAside = 1 << 16

// packedTranspose multiplies the weights of some output channels, tap by tap, by
// rows of the input, through the packed micro-kernel, and spreads the products
// over the output. Some channels of some images are one part.
func packedTranspose(c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	v, err := c.TransposedWindow()
	if err != nil {
		return nil, err
	}
	group := c.Int("group", 1)
	ch, per, taps := x.Shape[1]/group, weight.Shape[1], v.Taps()
	if ch == 1 && per == 1 {
		if run := depthwiseTranspose(c, v); run != nil {
			c.by("depthwise", weight.Shape[2:], noted(c.Has(2), "bias"))
			return run, nil
		}
	}
	if mirrors(weight, v) {
		c.by("implicit GEMM of mirrored weights", weight.Shape[2:], noted(c.Has(2), "bias"))
		return mirroredTranspose(c, v, group)
	}
	// Enough channels that packing the input costs little compared with the products.
	together := min(per, max(1, cuts(96, taps)))
	if isHalf(out) { // they are added up in scratch
		together = min(together, max(1, mostPlanes/max(v.Inputs(), 1)))
	}
	blocks := cuts(per, together)
	lines := v.Out[0] * v.Out[1]
	most := max(1, transposedLen/(together*taps)/max(v.Out[2], 1))
	atOnce := min(lines, most)
	if far := taps > max(leastAside, 8*(x.Len()+out.Len()))/max(together*atOnce*v.Out[2], 1); far && isHalf(out) {
		return (&Kernel{Make: makeConvTranspose}).widened(c)
	} else if far {
		return convTranspose[float32](c)
	}
	c.by("GEMM and col2im", weight.Shape[2:], noted(c.Has(2), "bias"))
	images := x.Shape[0]
	inPart := max(1, min(images, images*group*blocks/leastParts))
	inProduct := 1 // small images are multiplied together
	if v.Out[0] == 1 && lines > 0 && !isHalf(x) {
		inProduct = max(1, min(inPart, most/lines))
	}
	each, aside := c.Each(gemm.ScratchBytes), c.Each(mul(4, together, taps, atOnce, v.Out[2], inProduct))
	result := newPlane(c, mul(together, v.Inputs()))
	type side struct { // of some channels of a group, in all images
		m      int
		a      gemm.Dense
		packed gemm.Packed
	}
	sides := tableOf[side](c, mul(group, blocks))
	constant := true
	for i := range sides {
		s := &sides[i]
		first := i % blocks * together
		s.m = min(together, per-first) * taps
		s.a = gemm.Dense{Len: s.m, Step: 1, Deep: per * taps, Format: formatOf(weight.Type)}
		if !c.pack(&s.packed, &s.a, weight, (i/blocks*ch*per+first)*taps, ch, false) {
			constant = false
		}
	}
	// Weights that are not constant are packed once for a part, if that is for several
	// products or strips of one.
	held := -1
	if often := inPart > inProduct || lines > atOnce || lines*v.Out[2]*inProduct > 64; often && !constant && ch > 0 && mul(together, taps, ch) <= mostPackedAside {
		held = c.Each(gemm.PackedABytes(together*taps, ch))
	}
	type piece struct { // of a worker
		packed gemm.Packed
		rows   gemm.Dense // of one image
		whole  gemm.Image // several images
		p      gemm.Product
	}
	var pieces []piece
	var pool *work.Pool
	fills := !tiles(v)
	part := func(i, worker int) {
		side, s := &sides[i%len(sides)], &pieces[worker]
		g := i % len(sides) / blocks
		first := i % blocks * together
		s.rows = gemm.Dense{Step: 1, Deep: v.Outputs(), Format: formatOf(x.Type)}
		s.whole = gemm.Image{
			Channels: ch, Kernel: [3]int{1, 1, 1}, Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1},
			Volume: v.Outputs(), Plane: x.Shape[1] * v.Outputs(),
		}
		s.p = gemm.Product{M: side.m, K: ch, A: &side.a, B: &s.rows, Alpha: 1, Stop: c.Runtime}
		switch {
		case side.packed.At != nil:
			s.p.A = &side.packed
		case held >= 0:
			s.packed = gemm.PackA(pool.Each(worker, held), &side.a, side.m, ch, c.Runtime)
			s.p.A = &s.packed
			c.Poll()
		}
		scratch, sums := pool.Each(worker, each), pool.Each(worker, aside)
		plane := func(image, k int) []float32 {
			if isHalf(out) {
				return span[float32](unsafe.Add(result.at(pool, worker, 0), 4*k*v.Inputs()), v.Inputs())
			}
			return span[float32](element[float32](out, ((image*group+g)*per+first+k)*v.Inputs()), v.Inputs())
		}
		bias := func(k int) float32 {
			if c.Has(2) {
				return realAt(c.In[2], g*per+first+k)
			}
			return 0
		}
		image := i / len(sides) * inPart
		for last := min(image+inPart, images); image < last; image += inProduct {
			count := min(inProduct, last-image)
			for k := range side.m / taps {
				for n := 0; n < count && fills; n++ {
					fillAll(c, plane(image+n, k), bias(k))
				}
			}
			for line := 0; line < lines; line += atOnce {
				n := min(atOnce, lines-line) * v.Out[2]
				at := elementAt(x, (image*group+g)*ch*v.Outputs()+line*v.Out[2], x.Width())
				s.rows.At, s.rows.Len = at, n
				if s.p.B = &s.rows; count > 1 {
					s.whole.At, s.whole.In = at, [3]int{count, 1, n}
					s.whole.Out = s.whole.In
					s.p.B = &s.whole
				}
				s.p.N, s.p.Stride = n*count, n*count
				for t := range s.p.Tiles() {
					s.p.Tile(t, sums, nil, scratch)
				}
				for m := 0; m < side.m; m++ {
					c.Poll()
					for k := range count {
						y := span[float32](unsafe.Add(sums, 4*(m*s.p.N+k*n)), n)
						d := plane(image+k, m/taps)
						if fills {
							spreadTap(d, y, v, m%taps, line)
							continue
						}
						next := span[float32](unsafe.Add(sums, 4*((m+1)*s.p.N+k*n)), n)
						tileTaps(d, y, next, bias(m/taps), v, m%taps, line)
					}
					if !fills {
						m++
					}
				}
			}
			result.finish(pool, worker, ((image*group+g)*per+first)*v.Inputs(), side.m/taps*v.Inputs())
		}
	}
	return func(w *work.Pool) error {
		pool = w
		if len(pieces) < w.Workers() {
			pieces = make([]piece, w.Workers())
		}
		for i := range sides { // here, as several images share a side
			sides[i].a.At = elementAt(weight, (i/blocks*ch*per+i%blocks*together)*taps, weight.Width())
		}
		w.For(cuts(images, inPart)*len(sides), part)
		return nil
	}, nil
}

// mostPlanes is about how many elements of a 16-bit result are added up in scratch at once.
const mostPlanes = 1 << 17

// leastParts is how many parts there must be before one of them computes several images
// with the same weights.
const leastParts = 8

// tiles reports whether the taps cover the output without gaps and overlaps, two by two along
// its rows.
func tiles(v *form.Window) bool {
	for a := range v.Kernel {
		if v.Kernel[a] != v.Stride[a] || v.Dilation[a] != 1 && v.Kernel[a] > 1 || v.Pad[a] != 0 || v.In[a] != v.Out[a]*v.Stride[a] {
			return false
		}
	}
	return v.Kernel[2] == 2
}

// tileTaps writes the products y with one tap, and z with the next, for the rows from line
// on, to the image d of a window that tiles it.
func tileTaps(d, y, z []float32, bias float32, v *form.Window, tap, line int) {
	kd, kh := tap/2/v.Kernel[1], tap/2%v.Kernel[1]
	for n := v.Out[2]; len(y) > 0; y, z, line = y[n:], z[n:], line+1 {
		id, ih := line/v.Out[1]*v.Stride[0]+kd, line%v.Out[1]*v.Stride[1]+kh
		row, a, b := unsafe.Pointer(&d[(id*v.In[1]+ih)*v.In[2]:][:2*n][0]), y[:n], z[:n]
		for i, f := range a {
			pair := (*[2]float32)(unsafe.Add(row, 8*i))
			pair[0], pair[1] = f+bias, b[i]+bias
		}
	}
}

// mirrors reports whether a transposed convolution is better computed as a convolution with
// the kernel turned around. It moves by single steps then. Constant weights are packed once
// for the other form. Of less than four output channels the other form would be faster, but it
// adds in another order, and a slice of some of the channels has the bits of all.
func mirrors(weight *Tensor, v *form.Window) bool {
	if weight.Fixed() || v.Stride != [3]int{1, 1, 1} {
		return false
	}
	for a := range v.Pad {
		if v.Pad[a] > (v.Kernel[a]-1)*v.Dilation[a] {
			return false
		}
	}
	return true
}

// manyPixels fill the columns of a product. With AVX-512, 64 channels of 56 x 56 pixels take
// 0.91 of the time with pixels as rows, a kernel of one element 0.54 to 0.98, and 14 x 14
// pixels take 1.06.
const manyPixels = 512

// mirroredTranspose computes a transposed convolution for which mirrors holds. With few
// pixels, as the rows of the product, the weights are its columns, which are fast to turn
// around: each tile does so again. Many pixels are columns, and each tile turns the weights
// for as many of them as two dozen strips have.
func mirroredTranspose(c *Invocation, v *form.Window, group int) (Run, error) {
	x, weight := c.In[0], c.In[1]
	ch, per, taps := x.Shape[1]/group, weight.Shape[1], v.Taps()
	images := imagesTogether(x.Shape[0], group, v.Inputs(), v)
	parts := x.Shape[0] / images * group
	type side struct {
		turned  gemm.Turned
		image   gemm.Image
		weights gemm.Dense // of a single tap
		flat    gemm.Dense
	}
	listed := min(parts, atOnce)
	sides := tableOf[side](c, listed)
	p := &reals{c: c, total: parts, list: tableOf[gemm.Product](c, listed), images: images}
	across := per >= 16 && images*v.Inputs() < manyPixels // 16: the columns of a micro-kernel
	pad := [3]int{}
	for a := range pad {
		pad[a] = (v.Kernel[a]-1)*v.Dilation[a] - v.Pad[a]
	}
	for i := range p.list {
		s := &sides[i]
		p.list[i] = gemm.Product{M: per, N: images * v.Inputs(), K: ch * taps, A: &s.turned, B: &s.image, Alpha: 1, Stride: v.Inputs(), RowBias: c.Has(2), Stop: c.Runtime}
		s.turned = gemm.Turned{Len: per, Step: per * taps, Taps: taps, Format: formatOf(weight.Type)}
		s.image = gemm.Image{Channels: ch, In: v.Out, Out: v.In, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: pad, Format: formatOf(x.Type)}
		if v.Flat() {
			s.weights = gemm.Dense{Len: per, Step: 1, Deep: per, Format: formatOf(weight.Type)}
			s.flat = gemm.Dense{Len: v.Inputs(), Step: 1, Deep: v.Inputs(), Format: formatOf(x.Type)}
			p.list[i].A, p.list[i].B = &s.weights, &s.flat
			if images > 1 {
				p.list[i].B = &s.image
				s.image.In = [3]int{1, 1, v.Inputs()}
				s.image.Out = s.image.In
			}
		}
		if images > 1 {
			sideBySide(&s.image, images, ch*v.Outputs())
		}
		if q := &p.list[i]; across {
			q.M, q.N, q.A, q.B, q.Across = q.N, q.M, q.B, q.A, true
			q.RowBias, q.ColBias = false, q.RowBias
		}
	}
	p.arrange = func(_ *work.Pool, first, n int) {
		for i := range sides[:n] {
			from, weights := elementAt(x, (first+i)*images*ch*v.Outputs(), x.Width()), elementAt(weight, (first+i)%group*ch*per*taps, weight.Width())
			sides[i].image.At, sides[i].flat.At = from, from
			sides[i].turned.At, sides[i].weights.At = weights, weights
		}
	}
	return p.run(c.Input(2), per)
}

// depthwiseTranspose handles each channel separately. It returns nil if this machine or
// the channels are not made for it.
func depthwiseTranspose(c *Invocation, v *form.Window) Run {
	x, weight := c.In[0], c.In[1]
	d := &gemm.Depthwise{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad, Stop: c.Runtime}
	parts := transposedParts(d)
	if parts == nil {
		return nil
	}
	channels, scratch := weight.Shape[0], 0
	given, kernel, result := roomFor(c, x, v.Outputs()), roomFor(c, weight, v.Taps()), newPlane(c, v.Inputs())
	for _, p := range parts {
		scratch = max(scratch, p.d.ImageBytes())
	}
	each := c.Each(scratch)
	var pool *work.Pool
	part := func(i, worker int) {
		bias := float32(0)
		if c.Has(2) {
			bias = realAt(c.In[2], i%channels)
		}
		to, from := result.at(pool, worker, i*v.Inputs()), realsAt(pool.Each(worker, given), x, i*v.Outputs(), v.Outputs())
		weights := realsAt(pool.Each(worker, kernel), weight, i%channels*v.Taps(), v.Taps())
		for _, p := range parts {
			p.d.Image(unsafe.Add(to, 4*p.in), unsafe.Add(from, 4*p.out), weights, bias, pool.Each(worker, each))
		}
		result.finish(pool, worker, i*v.Inputs(), v.Inputs())
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*channels, part)
		return nil
	}
}

// transposedParts divides a channel that is too large for d into bands of rows or, if it is
// one row, of columns: where slices may do so, since no element belongs to two, and with their
// bits. It returns nil if that does not help.
func transposedParts(d *gemm.Depthwise) (list []depthwisePart) {
	if d.ImageBytes() > 0 {
		return []depthwisePart{{d: d}}
	}
	a, inStep, outStep := 1, d.In[2], d.Out[2]
	if d.In[1] == 1 && d.Out[1] == 1 {
		a, inStep, outStep = 2, 1, 1
	}
	step := d.Stride[a]
	if (d.Kernel[a]-1)*d.Dilation[a]+1 != step || d.Pad[a] != 0 || d.In[a] != d.Out[a]*step {
		return nil
	}
	part := func(from, to int) depthwisePart {
		p := *d
		p.In[a], p.Out[a] = (to-from)*step, to-from
		return depthwisePart{&p, from * step * inStep, from * outStep}
	}
	size := d.Out[a]
	for size > 1 && part(0, size).d.ImageBytes() == 0 {
		size = cuts(size, 2)
	}
	for from := 0; from < d.Out[a]; from += size {
		list = append(list, part(from, min(from+size, d.Out[a])))
		if list[len(list)-1].d.ImageBytes() == 0 {
			return nil
		}
	}
	return list
}

// spreadTap adds y, the products with one tap for the rows from line on, to the
// image d.
func spreadTap(d, y []float32, v *form.Window, tap, line int) {
	kd, kh, kw := tap/v.Kernel[2]/v.Kernel[1], tap/v.Kernel[2]%v.Kernel[1], tap%v.Kernel[2]
	from, to := v.Within(2, kw)
	if from >= to {
		return
	}
	for ; len(y) > 0; y, line = y[v.Out[2]:], line+1 {
		id := line/v.Out[1]*v.Stride[0] - v.Pad[0] + kd*v.Dilation[0]
		ih := line%v.Out[1]*v.Stride[1] - v.Pad[1] + kh*v.Dilation[1]
		if uint(id) >= uint(v.In[0]) || uint(ih) >= uint(v.In[1]) {
			continue
		}
		row := d[(id*v.In[1]+ih)*v.In[2]+from*v.Stride[2]-v.Pad[2]+kw*v.Dilation[2]:]
		if v.Stride[2] == 1 {
			simd.Add(row[:to-from], row, y[from:to])
			continue
		}
		if v.Stride[2] == 2 {
			simd.AddEveryOther(row[:2*(to-from)-1], y[from:to])
			continue
		}
		for p, g := range y[from:to] {
			row[p*v.Stride[2]] += g
		}
	}
}

// spread adds y, spread by the taps of a window, to the image d: the adjoint of
// convolve.
func spread[T floating](c *Invocation, d, y, weight []T, v *form.Window) {
	slide(c, y, d, weight, v, true)
}
