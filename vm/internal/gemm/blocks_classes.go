package gemm

// blockClass describes pixels of the result for which the same taps lie within the image: a
// rectangle.
type blockClass struct {
	first, end int          // rows of the result
	row        blockSegment // pixels of each of them
	top        int          // the first tap of a column
	steps      []blockStep
	blocks     []int // where each block of depths begins in steps, and the end
}

// blockStep is one tap of a block of channels: offsets in bytes of the pixels, from those of
// the class's first tap, and of the weights.
type blockStep struct{ pixels, weights int }

// segments divides a row of the result by the taps that read a pixel of the image. It is one
// segment, with zeros beside the image, unless that takes longer than to leave taps out. inside
// reports that no tap of a segment reads beside the image.
func (b *Blocks) segments() (list []blockSegment, inside bool) {
	if b.flat {
		return []blockSegment{{to: b.Out[1], last: 1}}, true
	}
	whole := blockSegment{to: b.Out[1], first: b.Kernel[1]}
	apart := 0
	for o := range b.Out[1] {
		first, last := within(b.Pad[1]-o*b.Stride[1], b.Dilation[1], b.In[1], b.Kernel[1])
		if first < last {
			whole.first, whole.last = min(whole.first, first), max(whole.last, last)
		}
		if n := len(list); n > 0 && list[n-1].first == first && list[n-1].last == last {
			list[n-1].to++
			continue
		}
		if len(list) == mostSegments {
			return []blockSegment{whole}, false
		}
		list = append(list, blockSegment{from: o, to: o + 1, first: first, last: last})
	}
	for _, s := range list {
		apart += (s.last - s.first) * lineWork(s.to-s.from)
	}
	if len(list) > 1 && 100*apart > 95*(whole.last-whole.first)*lineWork(b.Out[1]) {
		return []blockSegment{whole}, false
	}
	return list, true
}

// classify finds the classes, row by row.
func (b *Blocks) classify() {
	segments, _ := b.segments()
	b.classes = make([]blockClass, 0, min(2*b.Kernel[0]+1, b.Out[0])*len(segments))
	taps := func(oh int) (from, to int) {
		return within(b.Pad[0]-oh*b.Stride[0], b.Dilation[0], b.In[0], b.Kernel[0])
	}
	for oh := 0; oh < b.Out[0]; {
		from, to := taps(oh)
		end := oh + 1
		for end < b.Out[0] {
			if f, t := taps(end); f != from || t != to {
				break
			}
			end++
		}
		for _, s := range segments {
			c := blockClass{first: oh, end: end, row: s, top: from}
			b.list(&c, to)
			b.classes = append(b.classes, c)
		}
		oh = end
	}
}

// list lists the steps of a class, block of depths by block of depths.
func (b *Blocks) list(c *blockClass, bottom int) {
	taps, unit := b.Kernel[0]*b.Kernel[1], b.unit()
	blocks := cuts(b.Channels, unit)
	c.steps, c.blocks = make([]blockStep, 0, b.Depth()/unit+b.behind()), make([]int, 0, cuts(b.Depth(), b.deep())+1)
	for at := range blocks * taps {
		block, tap, within := at/taps, at%taps, at
		if b.Spread {
			block, tap, within = at%blocks, at/blocks, at%blocks
		}
		if within*unit%b.deep() == 0 {
			c.blocks = append(c.blocks, len(c.steps))
		}
		kh, kw := tap/b.Kernel[1], tap%b.Kernel[1]
		if block >= b.Channels/unit || kh < c.top || kh >= bottom || kw < c.row.first || kw >= c.row.last {
			continue
		}
		c.steps = append(c.steps, blockStep{
			block*b.volume() + (kh-c.top)*b.Dilation[0]*b.lineBytes() + kw*b.Dilation[1]*b.pixel(), b.weightsAt(unit * at),
		})
	}
	c.blocks = append(c.blocks, len(c.steps))
	c.steps = append(c.steps, make([]blockStep, b.behind())...)
}

// weightsAt is where the weights of a depth lie in a strip, in bytes.
func (b *Blocks) weightsAt(depth int) int {
	if b.Alike {
		return 0
	}
	return 4 * levels[chosen].columns * depth
}
