package gemm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// toBlocks moves planes [channels, n] of several images into blocks.
func toBlocks(x []float32, channels, n int) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		image, c, p := i/(channels*n), i/n%channels, i%n
		first := c / BlockLen * BlockLen
		lanes := min(BlockLen, channels-first)
		out[(image*channels+first)*n+p*lanes+c-first] = v
	}
	return out
}

// blockCase is a convolution in blocks, with its operands in planes.
type blockCase struct {
	Blocks
	x, weights, bias, added []float32
	packed                  [][]float32 // weights of each group
}

func newBlockCase(r *rand.Rand, b Blocks) *blockCase {
	c := &blockCase{Blocks: b}
	taps := c.taps()
	c.x = floats(r, b.Images*b.Groups*b.Channels*c.inputs())
	c.weights = floats(r, b.Groups*b.Columns*b.Channels*taps)
	c.bias = floats(r, b.Groups*b.Columns)
	c.added = floats(r, b.Images*b.Groups*b.Columns*b.outputs())
	for g := range b.Groups {
		k := b.Channels * taps
		m := c.operand(g)
		room := make([]float32, PackedBBytes(b.Columns, k)/4)
		PackB(at(room), &m, b.Columns, k, nil)
		c.packed = append(c.packed, room)
	}
	return c
}

func (c *blockCase) taps() int   { return c.front().Kernel * c.Kernel[0] * c.Kernel[1] }
func (c *blockCase) inputs() int { return c.front().In * c.In[0] * c.In[1] }

func (c *blockCase) operand(group int) Dense {
	taps := c.taps()
	m := Dense{At: at(c.weights[group*c.Columns*c.Channels*taps:]), Len: c.Columns, Step: c.Channels * taps, Deep: 1}
	switch {
	case c.Spread:
		m.Deep, m.Taps = c.Channels, taps
	case taps > 1 && !c.Thin:
		m.Deep, m.Taps = BlockLen, taps
	}
	return m
}

// run convolves in blocks.
func (c *blockCase) run(workers int, added, packed bool) []float32 {
	b := c.Blocks
	b.Plan()
	x := c.x
	if !b.Thin {
		x = toBlocks(c.x, b.Groups*b.Channels, c.inputs())
	}
	out := make([]float32, len(c.added))
	places := BlockPlaces{X: at(x), Out: at(out), Bias: at(c.bias)}
	if added {
		b.Added = true
		terms := slices.Clone(c.added)
		if !b.Planes {
			terms = toBlocks(c.added, b.Groups*b.Columns, c.outputs())
		}
		if places.Added = at(terms); b.Whole {
			out, places.Out = terms, places.Added
		}
		if b.Later() && b.Act != None {
			b.Act, b.Finish = None, c.activate
		}
	}
	scratch := make([]float32, b.ScratchBytes(packed)/4+1)
	for part := range b.Parts(workers) {
		b.Part(part, workers, &places, func(g int) Operand {
			if m := c.operand(g); !packed {
				return &m
			}
			return &Packed{At: at(c.packed[g]), K: b.Depth()}
		}, at(scratch))
	}
	return out
}

// planes is the same convolution as a product over an image in planes.
func (c *blockCase) planes(added bool) []float32 {
	var out []float32
	n, taps, front := c.outputs(), c.taps(), c.front()
	for i := range c.Images * c.Groups {
		g := i % c.Groups
		a := c.operand(g)
		m := &Image{
			At: at(c.x[i*c.Channels*c.inputs():]), Channels: c.Channels, In: [3]int{front.In, c.In[0], c.In[1]}, Out: [3]int{front.Out, c.Out[0], c.Out[1]},
			Kernel: [3]int{front.Kernel, c.Kernel[0], c.Kernel[1]}, Stride: [3]int{front.Stride, c.Stride[0], c.Stride[1]},
			Dilation: [3]int{front.Dilation, c.Dilation[0], c.Dilation[1]}, Pad: [3]int{front.Pad, c.Pad[0], c.Pad[1]},
		}
		if m.Spread = c.Spread; taps > 1 && !c.Thin && !c.Spread {
			m.Together = BlockLen
		}
		p := &Product{M: c.Columns, N: n, K: c.Channels * taps, A: &a, B: m, Alpha: 1, Stride: n, RowBias: c.Bias}
		if !added {
			p.Act, p.Low, p.High = c.Act, c.Low, c.High
		}
		d := make([]float32, c.Columns*n)
		run(p, d, c.bias[g*c.Columns:], rand.New(rand.NewPCG(3, 4)))
		out = append(out, d...)
	}
	if added {
		for i, v := range c.added {
			out[i] += v
		}
		c.activate(out)
	}
	return out
}

// activate applies the activation to elements.
func (c *blockCase) activate(d []float32) {
	for i, v := range d {
		switch c.Act {
		case Relu:
			d[i] = max(v, 0) + 0
		case Clip:
			d[i] = min(max(v, c.Low)+0, c.High)
		}
	}
}

// TestBlocks holds convolutions in blocks against those in planes, bit for bit.
func TestBlocks(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		if chosen == plain {
			t.Skip("without micro-kernels for blocks")
		}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			b := Blocks{Images: 1 + r.IntN(2), Groups: 1 + r.IntN(5)/4, Channels: BlockLen * (1 + r.IntN(5)), Columns: BlockLen * (1 + r.IntN(5)), Bias: r.IntN(3) > 0}
			for a := range 2 {
				b.In[a], b.Kernel[a] = 1+r.IntN(30), 1+r.IntN(4)
				b.Stride[a], b.Dilation[a] = 1+r.IntN(5)/3, 1+r.IntN(5)/4
				if i%7 == 4 { // most taps lie outside
					b.In[a], b.Kernel[a], b.Dilation[a] = 8+r.IntN(30), 3, 4+r.IntN(12)
				}
				if i%3 == 0 {
					b.Kernel[a], b.Stride[a] = 1, 1
				}
				reach := (b.Kernel[a]-1)*b.Dilation[a] + 1
				b.Pad[a] = r.IntN(reach)
				after := r.IntN(reach)
				if i%5 == 0 {
					b.Pad[a], after = 0, 0
				}
				if b.In[a]+b.Pad[a]+after < reach {
					b.In[a] = reach
				}
				if i%7 == 0 { // a 1 x 1 kernel may reach beyond the image, too
					after += b.Stride[a]
				}
				b.Out[a] = (b.In[a]+b.Pad[a]+after-reach)/b.Stride[a] + 1
			}
			if b.Groups == 1 {
				b.Columns += HalfLen * r.IntN(2)
				if i%3 == 0 && b.In == b.Out {
					b.Channels += HalfLen * r.IntN(2)
				}
			}
			if b.Thin = i%4 == 3; b.Thin {
				b.Channels = 1 + r.IntN(9)
			}
			b.Spread = !b.Thin && i%6 == 4
			if i%8 == 7 || i%8 == 2 {
				b.Columns, b.Planes = max(1, b.Columns-r.IntN(BlockLen)), true
			}
			b.Act, b.Low, b.High = Activation(r.IntN(3)), -0.5, 0.75
			if !b.CanBlock() {
				t.Fatalf("%+v cannot be convolved in blocks", b)
			}
			checkBlocks(t, r, b, i)
		}
	})
}

// checkBlocks is case i of TestBlocks and TestBlocksOfVolumes.
func checkBlocks(t *testing.T, r *rand.Rand, b Blocks, i int) {
	t.Helper()
	c := newBlockCase(r, b)
	added := i%2 == 1
	c.Whole = i%4 == 1 // the sums overwrite what is added
	t.Run(fmt.Sprintf("%d %+v", i, b), func(t *testing.T) {
		planes := c.planes(added)
		if !c.Planes {
			want := toBlocks(planes, b.Groups*b.Columns, b.outputs())
			for _, workers := range []int{1, 3} {
				same(t, fmt.Sprint(workers, " workers"), c.run(workers, added, workers == 1), want)
			}
		}
		c.Planes = true
		for _, workers := range []int{1, 2, 3} {
			same(t, fmt.Sprint("in planes, ", workers, " workers"), c.run(workers, added, workers > 1), planes)
		}
	})
}

// TestBlocksOfVolumes is TestBlocks with an axis before the rows.
func TestBlocksOfVolumes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		if chosen == plain {
			t.Skip("without micro-kernels for blocks")
		}
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 150 {
			b := Blocks{Images: 1 + r.IntN(2), Groups: 1 + r.IntN(5)/4, Channels: BlockLen * (1 + r.IntN(4)), Columns: BlockLen * (1 + r.IntN(4)), Bias: r.IntN(3) > 0}
			axis := func() (v Axis) {
				v = Axis{In: 1 + r.IntN(12), Kernel: 1 + r.IntN(4), Stride: 1 + r.IntN(5)/3, Dilation: 1 + r.IntN(5)/4}
				if i%5 == 0 {
					v.Kernel = 1
				}
				reach := (v.Kernel-1)*v.Dilation + 1
				v.Pad = r.IntN(reach)
				after := r.IntN(reach)
				v.In = max(v.In, reach-v.Pad-after)
				v.Out = (v.In+v.Pad+after-reach)/v.Stride + 1
				return v
			}
			b.First = axis()
			for a := range 2 {
				v := axis()
				b.In[a], b.Out[a], b.Kernel[a], b.Stride[a], b.Dilation[a], b.Pad[a] = v.In, v.Out, v.Kernel, v.Stride, v.Dilation, v.Pad
			}
			if b.Thin = i%4 == 3; b.Thin {
				b.Channels = 1 + r.IntN(9)
			}
			b.Act, b.Low, b.High = Activation(r.IntN(3)), -0.5, 0.75
			if !b.CanBlock() {
				t.Fatalf("%+v cannot be convolved in blocks", b)
			}
			checkBlocks(t, r, b, i)
		}
	})
}

// BenchmarkBlocks convolves ResNet-50's images, in blocks and in planes.
func BenchmarkBlocks(b *testing.B) {
	before := Level()
	b.Cleanup(func() { _ = Use(before) })
	for _, l := range Levels() {
		if l != "plain" {
			b.Run("level="+l, func(b *testing.B) {
				_ = Use(l)
				benchmarkBlocks(b)
			})
		}
	}
}

func benchmarkBlocks(b *testing.B) {
	for _, s := range []struct{ size, channels, columns, kernel, stride int }{
		{56, 64, 64, 3, 1},
		{28, 128, 128, 3, 1},
		{14, 256, 256, 3, 1},
		{7, 512, 512, 3, 1},
		{56, 64, 64, 1, 1},
		{56, 64, 256, 1, 1},
		{56, 256, 64, 1, 1},
		{28, 128, 512, 1, 1},
		{28, 512, 128, 1, 1},
		{14, 256, 1024, 1, 1},
		{14, 1024, 256, 1, 1},
		{7, 512, 2048, 1, 1},
		{7, 2048, 512, 1, 1},
		{56, 128, 128, 3, 2},
		{56, 256, 512, 1, 2},
		{112, 64, 128, 3, 1},
		{224, 64, 64, 3, 1},
		{56, 24, 144, 1, 1},
		{56, 144, 24, 1, 1},
		{56, 24, 72, 1, 1},
		{28, 240, 40, 1, 1},
		{28, 120, 40, 1, 1},
		{112, 16, 96, 1, 1},
		{224, 3, 64, 7, 2},
		{224, 3, 32, 3, 2},
		{28, 78, 78, 1, 1},
		{14, 156, 156, 1, 1},
		{7, 312, 312, 1, 1},
		{13, 512, 1000, 1, 1},
	} {
		out := (s.size-1)/s.stride + 1
		q := Blocks{
			Images: 1, Groups: 1, Channels: s.channels, Columns: s.columns, In: [2]int{s.size, s.size}, Out: [2]int{out, out}, Kernel: [2]int{s.kernel, s.kernel},
			Stride: [2]int{s.stride, s.stride}, Dilation: [2]int{1, 1}, Pad: [2]int{s.kernel / 2, s.kernel / 2}, Bias: true,
		}
		c := newBlockCase(rand.New(rand.NewPCG(1, 2)), q)
		name := fmt.Sprintf("%dx%d %d-%d %dx%d s%d", s.size, s.size, s.channels, s.columns, s.kernel, s.kernel, s.stride)
		n, k := out*out, s.channels*s.kernel*s.kernel
		x, result := at(c.x), at(c.added)
		b.Run("blocks/"+name, func(b *testing.B) {
			p := q
			if p.Planes = p.partial(); !p.CanBlock() {
				b.Skip()
			}
			p.Plan()
			scratch := make([]float32, p.ScratchBytes(true)/4+1)
			places, weights := BlockPlaces{X: x, Out: result, Bias: at(c.bias)}, &Packed{At: at(c.packed[0]), K: k}
			rate(b, n*k*s.columns, func() {
				for part := range p.Parts(1) {
					p.Part(part, 1, &places, func(int) Operand { return weights }, at(scratch))
				}
			})
		})
		b.Run("thin/"+name, func(b *testing.B) {
			p := q
			p.Thin, p.Planes = true, true
			p.Plan()
			scratch := make([]float32, p.ScratchBytes(true)/4+1)
			places, weights := BlockPlaces{X: x, Out: result, Bias: at(c.bias)}, &Packed{At: at(c.packed[0]), K: k}
			rate(b, n*k*s.columns, func() {
				for part := range p.Parts(1) {
					p.Part(part, 1, &places, func(int) Operand { return weights }, at(scratch))
				}
			})
		})
		b.Run("planes/"+name, func(b *testing.B) {
			w := c.operand(0)
			a := PackA(at(make([]float32, PackedABytes(s.columns, k)/4)), &w, s.columns, k, nil)
			right := PackB(at(make([]float32, PackedBBytes(s.columns, k)/4)), &w, s.columns, k, nil)
			m := &Image{
				At: x, Channels: s.channels, In: square(s.size), Out: square(out), Kernel: square(s.kernel), Stride: [3]int{1, s.stride, s.stride}, Dilation: ones(), Pad: pads(s.kernel / 2),
			}
			if s.kernel > 1 && s.channels%BlockLen == 0 {
				m.Together = BlockLen
			}
			p := &Product{M: s.columns, N: n, K: k, A: &a, B: m, Alpha: 1, Stride: n, RowBias: true}
			if s.kernel == 1 && s.stride == 1 {
				p.B = &Dense{At: x, Len: n, Step: 1, Deep: n}
			}
			if Across(n, s.columns) {
				p = &Product{M: n, N: s.columns, K: k, A: p.B, B: &right, Alpha: 1, Stride: n, ColBias: true, Across: true}
			}
			scratch := make([]float32, p.ScratchBytes()/4+1)
			rate(b, n*k*s.columns, func() {
				for tile := range p.Tiles() {
					p.Tile(tile, result, at(c.bias), at(scratch))
				}
			})
		})
	}
}
