package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// convolution lists the operators that slide a kernel of weights over an image.
var convolution = family{"", []Kernel{
	{Name: "Conv", Make: makeConv, Half: true, Fuses: true, Blocks: convolvesBlocks},
	{Name: "ConvTranspose", Make: makeConvTranspose, Half: true, Blocks: inAndOut(canBlocksTranspose)},
	{Name: "DeformConv", Make: makeDeformConv},
	{Name: "Col2Im", Make: makeCol2Im},
}}

// conv is a node of Conv as its algorithms see it.
type conv struct {
	c      *Invocation
	v      *form.Window
	group  int
	single bool            // each channel is convolved by itself
	d      *gemm.Depthwise // of single channels of float32
}

// convWay is an algorithm of Conv.
type convWay struct {
	name string
	can  func(n *conv) bool
	make func(n *conv) (Run, error) // nil: not for these lengths; the next one is tried
}

// convWays lists the algorithms in the order in which they are tried.
func convWays() []convWay {
	is := func(n *conv, single bool) bool { return n.single == single && n.c.Out[0].Type == graph.Float32 }
	single := func(n *conv) bool { return is(n, true) }
	dense := func(n *conv) bool { return is(n, false) || !n.single && isHalf(n.c.Out[0]) }
	planes := func(n *conv) bool { return single(n) || n.single && isHalf(n.c.Out[0]) }
	whole := func(n *conv) (Run, error) { return (&Kernel{Make: makeConv}).widened(n.c) }
	return []convWay{
		{"depthwise", func(n *conv) bool {
			return n.single && isHalf(n.c.Out[0]) && (n.c.In[0].Layout == form.NCHW16c || isGradient(n.c, n.v))
		}, whole},
		{"depthwise", func(n *conv) bool { return single(n) && n.c.In[0].Layout == form.NCHW16c }, func(n *conv) (Run, error) { return makeBlocksDepthwise(n.c) }},
		{"gradient of depthwise weights", single, func(n *conv) (Run, error) { return depthwiseWeights(n.c, n.v), nil }},
		{"depthwise", func(n *conv) bool { return planes(n) && n.d.ScratchBytes() > 0 }, func(n *conv) (Run, error) {
			return vectorDepthwise(n.c, n.v, []depthwisePart{{d: n.d}}, planeScratch(n.c, n.d))
		}},
		{"depthwise in bands", planes, func(n *conv) (Run, error) {
			parts, each := depthwiseParts(n.c, n.d)
			if parts == nil {
				return nil, nil
			}
			return vectorDepthwise(n.c, n.v, parts, each)
		}},
		{"depthwise in loops", func(n *conv) bool { return n.single && isHalf(n.c.Out[0]) }, whole},
		{"depthwise in loops", single, func(n *conv) (Run, error) { return depthwise[float32](n.c, n.v) }},
		{"GEMM of windows", func(n *conv) bool { return is(n, false) && manyWindows(n.c, n.v, n.group) }, func(n *conv) (Run, error) { return windowConv(n.c, n.v, n.group) }},
		{"direct", func(n *conv) bool { return dense(n) && n.c.In[0].Layout == form.NCHW16c }, func(n *conv) (Run, error) { return blocksConv(n.c, n.v, n.group) }},
		{"direct", func(n *conv) bool { return dense(n) && isThin(n.c, n.v, n.group) }, func(n *conv) (Run, error) { return blocksConv(n.c, n.v, n.group) }},
		{"implicit GEMM", dense, func(n *conv) (Run, error) { return packedConv(n.c, n.v, n.group) }},
		{"loops", func(n *conv) bool { return n.c.Out[0].Type == graph.Float64 }, func(n *conv) (Run, error) { return plainConv[float64](n.c, n.v, n.group) }},
	}
}

// makeConv: each group of each image is a product of the weights [out/group,
// in/group·taps] with the matrix of the elements under the kernel [in/group·taps,
// outputs].
func makeConv(c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	v, err := form.NewWindow(&c.Call, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
	if err != nil {
		return nil, err
	}
	n := &conv{c: c, v: v, group: c.Int("group", 1)}
	if n.single = singleChannels(weight, n.group); n.single {
		n.d = &gemm.Depthwise{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
	}
	for _, way := range convWays() {
		if !way.can(n) {
			continue
		}
		if run, err := way.make(n); run != nil || err != nil {
			c.by(way.name, weight.Shape[2:], noted(c.Has(2), "bias"))
			return run, err
		}
	}
	return nil, unsupported(out.Type)
}

// packedConv uses the packed micro-kernel.
func packedConv(c *Invocation, v *form.Window, group int) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	m, ch := weight.Shape[0]/group, weight.Shape[1]
	images := 1
	if out.Layout != form.NCHW16c {
		images = imagesTogether(x.Shape[0], group, v.Outputs(), v)
	}
	parts, k := x.Shape[0]/images*group, ch*v.Taps()
	type side struct {
		a      gemm.Dense
		packed gemm.Packed
		image  gemm.Image
		flat   gemm.Dense
	}
	listed := min(parts, atOnce)
	sides := tableOf[side](c, listed)
	p := &reals{c: c, total: parts, list: tableOf[gemm.Product](c, listed), finish: c.take(), added: c.added, images: images}
	flat := v.Flat()
	packed := 0
	across := weight.Fixed() && gemm.Across(v.Outputs(), m)
	for i := range p.list {
		s := &sides[i]
		s.a = gemm.Dense{Len: m, Step: k, Deep: 1, Format: formatOf(weight.Type)}
		p.list[i] = gemm.Product{M: m, N: images * v.Outputs(), K: k, A: &s.a, Alpha: 1, Stride: v.Outputs(), RowBias: c.Has(2), Stop: c.Runtime}
		switch {
		case flat && images == 1:
			s.flat = gemm.Dense{Len: v.Outputs(), Step: 1, Deep: v.Inputs(), Format: formatOf(x.Type)}
			p.list[i].B = &s.flat
		case flat:
			row := [3]int{1, 1, v.Inputs()}
			s.image = gemm.Image{Channels: ch, In: row, Out: row, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Format: formatOf(x.Type)}
			p.list[i].B = &s.image
		default:
			s.image = gemm.Image{Channels: ch, In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad, Format: formatOf(x.Type)}
			switch {
			case !weight.Fixed():
			case !across && s.image.WorthSpreading():
				s.image.Spread = true
				s.a.Deep, s.a.Taps = ch, v.Taps()
			case ch%gemm.BlockLen == 0 && v.Taps() > 1: // the order of terms of blocksConv
				s.image.Together = gemm.BlockLen
				s.a.Deep, s.a.Taps = gemm.BlockLen, v.Taps()
			}
			p.list[i].B = &s.image
		}
		if images > 1 {
			sideBySide(&s.image, images, ch*v.Inputs())
		}
		if listed == parts && c.pack(&s.packed, &s.a, weight, i%group*m*k, k, across) {
			packed++
		}
	}
	for i := range p.list {
		q, s := &p.list[i], &sides[i]
		switch q.Blocked = out.Layout == form.NCHW16c; {
		case s.packed.At == nil:
		case !across:
			q.A = &s.packed
		case packed == parts: // all have the same form
			q.M, q.N, q.A, q.B, q.Across = q.N, q.M, q.B, &s.packed, true
			q.RowBias, q.ColBias = false, q.RowBias
		}
	}
	if packed == parts {
		c.Packed = append(c.Packed, weight)
	}
	p.arrange = func(_ *work.Pool, first, n int) {
		for i := range sides[:n] {
			at := elementAt(x, (first+i)*images*ch*v.Inputs(), x.Width())
			if packed < parts {
				sides[i].a.At = elementAt(weight, (first+i)%group*m*k, weight.Width())
			}
			sides[i].image.At, sides[i].flat.At = at, at
		}
	}
	return p.run(c.Input(2), m)
}

// planeScratch makes what d needs to compute planes: a table, or scratch for each worker,
// whose offset it returns.
func planeScratch(c *Invocation, d *gemm.Depthwise) (each int) {
	if d.Divide() {
		return c.Each(d.ScratchBytes())
	}
	if n := d.TableLen(); n > 0 {
		d.UseTable(numbersOf[int32](c, n))
		return c.Each(0)
	}
	return c.Each(d.ScratchBytes())
}

// depthwisePart convolves a part of a channel, which begins at those elements of the image and
// of the result.
type depthwisePart struct {
	d       *gemm.Depthwise
	in, out int
}

// depthwiseParts divides a channel that is too large for d into bands of rows or, if it is one
// row, of columns, with the bits that slices of it have; nil if that does not help. It returns
// the offset of a worker's scratch, too.
func depthwiseParts(c *Invocation, d *gemm.Depthwise) (list []depthwisePart, each int) {
	a, inStep, outStep := 1, d.In[2], d.Out[2]
	if d.In[1] == 1 && d.Out[1] == 1 {
		a, inStep, outStep = 2, 1, 1
	}
	if d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 {
		return nil, 0
	}
	part := func(from, to int) depthwisePart {
		p := *d
		begin := from*d.Stride[a] - d.Pad[a]
		first := min(max(begin, 0), d.In[a])
		behind := min(begin+(to-1-from)*d.Stride[a]+(d.Kernel[a]-1)*d.Dilation[a]+1, d.In[a])
		p.In[a], p.Out[a], p.Pad[a] = max(behind-first, 0), to-from, first-begin
		return depthwisePart{&p, first * inStep, from * outStep}
	}
	size := d.Out[a]
	for size > 1 && part(0, size).d.ScratchBytes() == 0 {
		size = cuts(size, 2)
	}
	for from := 0; from < d.Out[a]; from += size {
		p := part(from, min(from+size, d.Out[a]))
		scratch := p.d.ScratchBytes()
		if scratch == 0 {
			return nil, 0
		}
		each, list = max(each, scratch), append(list, p)
	}
	return list, c.Each(each)
}

// vectorDepthwise convolves each channel separately, part by part, in float32 and with vector
// instructions; each is the offset of a worker's scratch. Channels of 16 bits are widened one by one.
func vectorDepthwise(c *Invocation, v *form.Window, parts []depthwisePart, each int) (Run, error) {
	x, weight := c.In[0], c.In[1]
	channels := weight.Shape[0]
	var w *work.Pool
	finish := c.take()
	var more bool
	image, kernel, result := roomFor(c, x, v.Inputs()), roomFor(c, weight, v.Taps()), newPlane(c, v.Outputs())
	aside := 0 // of the plane that c.added is added to: the output may overwrite it
	if c.added != nil {
		aside, more = c.Each(mul(4, v.Outputs())), finish != nil
	}
	for i := range parts {
		d := parts[i].d
		if d.Stop = c.Runtime; c.added == nil {
			d.Act, d.Low, d.High, more = finish.epilogue()
		}
	}
	part := func(i, worker int) {
		ch := i % channels
		bias := float32(0)
		if c.Has(2) {
			bias = realAt(c.In[2], ch)
		}
		to := result.at(w, worker, i*v.Outputs())
		from, weights := realsAt(w.Each(worker, image), x, i*v.Inputs(), v.Inputs()), realsAt(w.Each(worker, kernel), weight, ch*v.Taps(), v.Taps())
		row := span[float32](to, v.Outputs())
		if c.added != nil {
			to = w.Each(worker, aside)
		}
		for _, p := range parts {
			p.d.Plane(unsafe.Add(to, 4*p.out), unsafe.Add(from, 4*p.in), weights, bias, w.Each(worker, each))
		}
		if c.added != nil {
			terms := span[float32](element[float32](c.added, i*v.Outputs()), v.Outputs())
			for from, end := range c.Pieces(len(row)) {
				simd.Add(row[from:end], span[float32](to, v.Outputs())[from:end], terms[from:end])
			}
		}
		if more {
			for from, to := range c.Pieces(len(row)) {
				finish.Row(row[from:to])
			}
		}
		result.finish(w, worker, i*v.Outputs(), v.Outputs())
	}
	return func(pool *work.Pool) error {
		w = pool
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// depthwise convolves each channel separately.
func depthwise[T floating](c *Invocation, v *form.Window) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	channels := weight.Shape[0]
	part := func(i, _ int) {
		ch := i % channels
		d := span[T](element[T](out, i*v.Outputs()), v.Outputs())
		bias := T(0)
		if c.Has(2) {
			bias = data[T](c.In[2])[ch]
		}
		if c.added == nil {
			fillAll(c, d, bias)
		} else {
			terms := span[T](element[T](c.added, i*v.Outputs()), v.Outputs())
			for from, to := range c.Pieces(len(d)) {
				for k := from; k < to; k++ {
					d[k] = terms[k] + bias
				}
			}
		}
		convolve(c, d, span[T](element[T](x, i*v.Inputs()), v.Inputs()), span[T](element[T](weight, ch*v.Taps()), v.Taps()), v)
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// plainConv adds up the channels one after another.
func plainConv[T floating](c *Invocation, v *form.Window, group int) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	channels, ch := weight.Shape[0], weight.Shape[1]
	part := func(i, _ int) {
		image, o := i/channels, i%channels
		d := span[T](element[T](out, i*v.Outputs()), v.Outputs())
		bias := T(0)
		if c.Has(2) {
			bias = data[T](c.In[2])[o]
		}
		fillAll(c, d, bias)
		first := image*ch*group + o/(channels/group)*ch
		for k := range ch {
			convolve(c, d, span[T](element[T](x, (first+k)*v.Inputs()), v.Inputs()),
				span[T](element[T](weight, (o*ch+k)*v.Taps()), v.Taps()), v)
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// convolve adds the convolution of x, one channel of an image, to d.
func convolve[T floating](c *Invocation, d, x, weight []T, v *form.Window) {
	slide(c, d, x, weight, v, false)
}

// slide moves a kernel over one channel of an image. It adds the products of image
// and weights to out; as the adjoint, the products of out and weights to image.
func slide[T floating](c *Invocation, out, image, weight []T, v *form.Window, adjoint bool) {
	m, tap, rows := c.Meter(), 0, v.Out[0]*v.Out[1]
	for kd := range v.Kernel[0] {
		for kh := range v.Kernel[1] {
			for kw := range v.Kernel[2] {
				f := weight[tap]
				tap++
				if from, to := v.Within(2, kw); rows*(to-from) <= work.PollEvery {
					m.Add(rows*(to-from) + 1)
					slideTap(out, image, f, v, kd, kh, kw, 0, rows, from, to, adjoint)
					continue
				}
				eachBlock(v, &m, kw, func(first, last, from, to int) {
					slideTap(out, image, f, v, kd, kh, kw, first, last, from, to, adjoint)
				})
			}
		}
	}
}

// slideTap is slide for one tap, with the weight f, and the positions [from, to) of
// the output rows [first, last), counted over the first two axes.
func slideTap[T floating](out, image []T, f T, v *form.Window, kd, kh, kw, first, last, from, to int, adjoint bool) {
	for o := first; o < last && from < to; {
		od := 0
		if o > 0 {
			od = o / v.Out[1]
		}
		end := min(last, (od+1)*v.Out[1])
		id, ih := od*v.Stride[0]-v.Pad[0]+kd*v.Dilation[0], (o-od*v.Out[1])*v.Stride[1]-v.Pad[1]+kh*v.Dilation[1]
		if uint(id) >= uint(v.In[0]) {
			o = end
			continue
		}
		for ; o < end; o, ih = o+1, ih+v.Stride[1] {
			if uint(ih) >= uint(v.In[1]) {
				continue
			}
			row := out[o*v.Out[2]:][from:to]
			seen := image[(id*v.In[1]+ih)*v.In[2]+from*v.Stride[2]-v.Pad[2]+kw*v.Dilation[2]:]
			switch step := v.Stride[2]; {
			case adjoint && step == 1:
				addProducts(seen[:len(row)], row, f)
			case adjoint:
				for p, y := range row {
					seen[p*step] += f * y
				}
			case step == 1:
				addProducts(row, seen[:len(row)], f)
			default:
				for p := range row {
					row[p] += f * seen[p*step]
				}
			}
		}
	}
}

// addProducts adds f·x to d, of one length.
func addProducts[T floating](d, x []T, f T) {
	d = d[:len(x)]
	for p, y := range x {
		d[p] += f * y
	}
}

// eachBlock divides the output positions of tap k of the third axis into blocks,
// so that the meter can poll between them: output rows [first, last), counted over
// the first two axes, and their positions [from, to).
func eachBlock(v *form.Window, m *form.Meter, k int, block func(first, last, from, to int)) {
	rows := v.Out[0] * v.Out[1]
	for from, end := v.Within(2, k); from < end; {
		to := min(end, from+work.PollEvery)
		high := max(1, work.PollEvery/(to-from))
		for first := 0; first < rows; first += high {
			last := min(first+high, rows)
			m.Add((last - first) * (to - from))
			block(first, last, from, to)
		}
		from = to
	}
}
