package autodiff

import "github.com/onnxmem/onnxmem/graph"

// roiRules cover pooling over regions of an image. As in torchvision, the regions get no
// gradient: a detector proposes them from scores that have a loss of their own.
var roiRules = []Rule{
	{Op: "RoiAlign", Inputs: []int{0}, Grad: roiAlignGrad},
	{Op: "MaxRoiPool", Inputs: []int{0}, Grad: maxRoiPoolGrad},
}

// roiAlignGrad: a result is the mean of samples of its bin, and a sample is the mean of
// four elements by their distances. So each sample adds its share of the gradient, times the
// weights, to these elements. Rows are the channels of one place, as in gridSampleGrad.
func roiAlignGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.D(0)) // [N, C, H, W], [R, C, bins, bins]
	if c.err != nil {
		return
	}
	s := c.Int("sampling_ratio", 0)
	if mode := c.Str("mode", "avg"); mode != "avg" {
		c.Failf("mode %q has no gradient rule: expected avg", mode)
		return
	}
	if s < 1 {
		c.Failf("sampling_ratio is %d, so that the number of samples depends on the regions: expected at least 1", s)
		return
	}
	channels, regions := x[1], y[0]
	if exceeds(maxMask, regions, y[2], y[3], s, s) {
		c.Failf("%d samples along each axis of the bins of %v: expected at most %d samples", s, y, maxMask)
		return
	}
	corners := c.split(c.X(1), 1, 1, 1, 1, 1) // x, y, x, y
	rows := c.roiAxis(corners[1], corners[3], y[2], s, x[2])
	columns := c.roiAxis(corners[0], corners[2], y[3], s, x[3])
	high, wide := y[2]*s, y[3]*s
	d := c.reshape(c.transpose(c.times(c.D(0), 1/float64(s*s)), 0, 2, 3, 1), []int64{regions, y[2], 1, y[3], 1, channels})
	d = c.reshape(c.expand(d, []int64{regions, y[2], s, y[3], s, channels}), []int64{regions * high * wide, channels})
	c.Set(0, c.sampled(d, x, regions, high, wide, c.X(2), rows, columns))
}

// sampled is the gradient of an image x [N, C, H, W] of which samples were read. d is
// [regions · high · wide, C], and images says which image a region is of. rows [regions,
// high] and columns [regions, wide] are what the samples read along an axis.
func (c *Backward) sampled(d ID, x []int64, regions, high, wide int64, images ID, rows, columns []gridTap) ID {
	batch, channels, size := x[0], x[1], x[2]*x[3]
	points := regions * high * wide
	image := c.mul(c.reshape(c.castTo(images, graph.Int64), []int64{regions, 1, 1}), c.index(size))
	total := c.zeros(d, batch*size, channels)
	for choice := range 4 {
		row, column := rows[choice/2], columns[choice%2]
		at := c.add(image, c.mul(c.reshape(row.at, []int64{regions, high, 1}), c.index(x[3])))
		at = c.reshape(c.add(at, c.reshape(column.at, []int64{regions, 1, wide})), []int64{points, 1})
		weight := c.mul(c.reshape(row.weight, []int64{regions, high, 1}), c.reshape(column.weight, []int64{regions, 1, wide}))
		weight = c.castLike(c.reshape(weight, []int64{points, 1}), d)
		total = c.with("ScatterND", attrs{"reduction": "add"}, total, at, c.mul(d, weight))
	}
	return c.reshape(c.transpose(c.reshape(total, []int64{batch, size, channels}), 0, 2, 1), x)
}

// roiAxis returns the two elements that each sample reads along an axis of n elements, of
// shape [regions, bins · samples]. from and to, [regions, 1], are the borders of the
// regions. Samples further out than -1 and n count as 0.
func (c *Backward) roiAxis(from, to ID, bins, samples, n int64) []gridTap {
	scale, shift := c.Float("spatial_scale", 1), 0.0
	half := c.Str("coordinate_transformation_mode", "half_pixel") == "half_pixel"
	if half {
		shift = -0.5
	}
	from, to = c.plus(c.times(from, scale), shift), c.plus(c.times(to, scale), shift)
	length := c.sub(to, from)
	if !half {
		length = c.op("Max", length, c.scalar(length, 1))
	}
	steps := make([]float64, bins*samples)
	for i := range steps {
		steps[i] = (float64(i) + 0.5) / float64(bins*samples)
	}
	p := c.add(from, c.mul(length, c.reals(c.typeOf(from).Elem, []int64{1, bins * samples}, steps)))
	inside := c.op("And", c.op("GreaterOrEqual", p, c.scalar(p, -1)), c.op("LessOrEqual", p, c.scalar(p, float64(n))))
	return c.tapsOf(p, inside, n)
}

// tapsOf returns the elements before and behind each place along an axis of n elements,
// with their weights; places that are not inside count as 0.
func (c *Backward) tapsOf(p, inside ID, n int64) []gridTap {
	clip := func(t ID) ID { return c.op("Clip", t, c.scalar(t, 0), c.scalar(t, float64(n-1))) }
	p = clip(p)
	first := c.op("Floor", p)
	behind := c.sub(p, first)
	weigh := func(at, weight ID) gridTap {
		return gridTap{at: c.castTo(at, graph.Int64), weight: c.where(inside, weight, c.scalar(weight, 0))}
	}
	return []gridTap{weigh(first, c.sub(c.scalar(p, 1), behind)), weigh(clip(c.plus(first, 1)), behind)}
}

// maxRoiPoolGrad: a Scan over the regions finds the element that is the maximum of each
// bin, first along the rows, then along the columns; one ScatterElements adds the gradients
// there. The largest tensor of an iteration has the elements of a bin's rows, for one
// region.
func maxRoiPoolGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.D(0)) // [N, C, H, W], [R, C, bins, bins]
	if c.err != nil {
		return
	}
	channels, high, wide := x[1], x[2], x[3]
	if exceeds(maxMask, channels, y[2], high, wide) || exceeds(maxMask, channels, y[2], y[3], wide) || elements(x) == 0 {
		c.Failf("bins %v of an image %v: expected at most %d elements in the rows of a region, and at least 1", y[2:], x, maxMask)
		return
	}
	elem := c.typeOf(c.X(1)).Elem
	region := graph.Type{Kind: graph.KindTensor, Elem: elem, Ranked: true, Shape: toDims([]int64{5})}
	grads := c.typeOf(c.D(0))
	grads.Shape = toDims(y[1:])
	b := c.newBody("regions")
	e := &Backward{emitter: b.emitter, Node: c.Node}
	roi, d := b.input("region", region), b.input("d", grads)
	numbers := b.split(roi, 0, 1, 1, 1, 1, 1)
	image := b.castTo(numbers[0], graph.Int64)
	rows, someRows := e.roiBins(numbers[2], numbers[4], y[2], high)
	columns, someColumns := e.roiBins(numbers[1], numbers[3], y[3], wide)
	picture := b.reshape(b.with("Gather", attrs{"axis": 0}, b.capture(c.X(0)), image), []int64{channels, 1, high, wide})
	low := b.scalar(picture, lowest(b.typeOf(picture).Elem))
	t := b.where(b.reshape(rows, []int64{y[2], high, 1}), picture, low)
	best := b.reduce("ReduceMax", t, []int64{2}, false) // [C, bins, W]
	row := b.with("ArgMax", attrs{"axis": 2, "keepdims": 0}, t)
	t = b.where(columns, b.reshape(best, []int64{channels, y[2], 1, wide}), low)
	column := b.with("ArgMax", attrs{"axis": 3, "keepdims": 0}, t) // [C, bins, bins]
	row = b.with("GatherElements", attrs{"axis": 2}, row, column)
	planes := make([]float64, channels)
	for i := range planes {
		planes[i] = float64(int64(i) * high * wide)
	}
	at := b.add(b.mul(image, b.index(channels*high*wide)), b.reals(graph.Int64, []int64{channels, 1, 1}, planes))
	at = b.add(b.add(at, b.mul(row, b.index(wide))), column)
	some := b.op("And", b.reshape(someRows, []int64{y[2], 1}), b.reshape(someColumns, []int64{1, y[3]}))
	b.finish([]ID{at, b.where(some, d, b.scalar(d, 0))})
	if c.err != nil {
		return
	}
	places := c.typeOf(c.D(0))
	places.Elem = graph.Int64
	list := attrs{"num_scan_inputs": 2}
	made := c.emitBody("Scan", list.list(), map[string]*graph.Graph{"body": b.g}, []graph.Type{places, c.typeOf(c.D(0))}, c.X(1), c.D(0))
	n := elements(y)
	flat := c.with("ScatterElements", attrs{"axis": 0, "reduction": "add"}, c.zeros(c.D(0), elements(x)), c.reshape(made[0], []int64{n}), c.reshape(made[1], []int64{n}))
	c.Set(0, c.reshape(flat, x))
}

// roiBins returns the elements that belong to each bin along an axis of n elements,
// [bins, n], and the bins that have any, [bins, 1]. from and to are the first and the last
// element of the region.
func (c *Backward) roiBins(from, to ID, bins, n int64) (within, some ID) {
	// Halves are rounded away from 0, which Round does not do.
	round := func(t ID) ID {
		t = c.times(t, c.Float("spatial_scale", 1))
		return c.mul(c.op("Sign", t), c.op("Floor", c.plus(c.op("Abs", t), 0.5)))
	}
	from = round(from)
	length := c.op("Max", c.plus(c.sub(round(to), from), 1), c.scalar(from, 1))
	number := func(n int64) []float64 {
		list := make([]float64, n)
		for i := range list {
			list[i] = float64(i)
		}
		return list
	}
	elem := c.typeOf(from).Elem
	bin := c.reals(elem, []int64{bins, 1}, number(bins))
	each := c.div(length, c.scalar(length, float64(bins)))
	limit := func(t ID) ID {
		return c.op("Clip", c.add(t, from), c.scalar(from, 0), c.scalar(from, float64(n)))
	}
	first, end := limit(c.op("Floor", c.mul(bin, each))), limit(c.op("Ceil", c.mul(c.plus(bin, 1), each)))
	at := c.reals(elem, []int64{1, n}, number(n))
	within = c.op("And", c.op("GreaterOrEqual", at, first), c.op("Less", at, end))
	return within, c.op("Greater", end, first)
}
