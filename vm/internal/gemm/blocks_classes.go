package gemm

// blockClass describes pixels of the result for which the same taps lie within the image: a
// rectangle.
type blockClass struct {
	first, end int          // rows of the result, those of all planes
	row        blockSegment // pixels of each of them
	front, top int          // the first taps of the first axis, and of a column
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
	if len(list) > 1 && !b.inPlace && 100*apart > 95*(whole.last-whole.first)*lineWork(b.Out[1]) {
		return []blockSegment{whole}, false
	}
	return list, true
}

// classify finds the classes, row by row. Planes that read the same taps share their steps.
func (b *Blocks) classify() {
	segments, _ := b.segments()
	a := b.front()
	_, rows := b.runs()
	b.classes = make([]blockClass, 0, a.Out*rows*len(segments))
	var last []blockClass // of the plane before
	front, back := -1, -1
	for d := range a.Out {
		from, to := within(a.Pad-d*a.Stride, a.Dilation, a.In, a.Kernel)
		begin := len(b.classes)
		if from == front && to == back {
			for _, c := range last {
				c.first += b.Out[0]
				c.end += b.Out[0]
				b.classes = append(b.classes, c)
			}
		} else {
			b.classifyPlane(d, from, to, segments)
		}
		last, front, back = b.classes[begin:], from, to
	}
}

// runs is the number of runs of planes, and of rows of a plane, that read the same taps.
func (b *Blocks) runs() (planes, rows int) {
	runs := func(a Axis) (n int) {
		from, to := -1, -1
		for o := range a.Out {
			if f, t := within(a.Pad-o*a.Stride, a.Dilation, a.In, a.Kernel); f != from || t != to {
				from, to = f, t
				n++
			}
		}
		return n
	}
	return runs(b.front()), runs(Axis{b.In[0], b.Out[0], b.Kernel[0], b.Stride[0], b.Dilation[0], b.Pad[0]})
}

// classifyPlane finds the classes of a plane of the result, which reads taps [front, back) of the
// first axis.
func (b *Blocks) classifyPlane(plane, front, back int, segments []blockSegment) {
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
			c := blockClass{first: plane*b.Out[0] + oh, end: plane*b.Out[0] + end, row: s, front: front, top: from}
			b.list(&c, back, to)
			b.classes = append(b.classes, c)
		}
		oh = end
	}
}

// list lists the steps of a class, block of depths by block of depths.
func (b *Blocks) list(c *blockClass, back, bottom int) {
	front, plane, unit := b.front(), b.Kernel[0]*b.Kernel[1], b.unit()
	taps := front.Kernel * plane
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
		kd, kh, kw := tap/plane, tap%plane/b.Kernel[1], tap%b.Kernel[1]
		if block >= b.Channels/unit || kd < c.front || kd >= back || kh < c.top || kh >= bottom || kw < c.row.first || kw >= c.row.last {
			continue
		}
		c.steps = append(c.steps, blockStep{
			block*b.volume() + (kd-c.front)*front.Dilation*b.planeBytes() + (kh-c.top)*b.Dilation[0]*b.lineBytes() + kw*b.Dilation[1]*b.pixel(), b.weightsAt(unit * at),
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
