package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// gridRules cover the sampling of an image at the points of a grid.
var gridRules = []Rule{
	{Op: "GridSample", Inputs: []int{0, 1}, Grad: gridSampleGrad},
	{Op: "AffineGrid", Inputs: []int{0}, Grad: affineGridGrad},
}

// gridAxis is one axis of the image: for each point, the elements that it reads there.
type gridAxis struct {
	length int64
	slope  ID // of the position by the coordinate; None: 0
	taps   []gridTap
}

// gridTap is an element that a point reads along an axis.
type gridTap struct {
	at     ID      // int64, within the axis
	weight ID      // 0 where the element lies outside
	within ID      // 1, or 0 where it lies outside; None: 1 everywhere
	slope  float64 // of the weight by the position
}

// gridSampleGrad: every point adds its gradient, times the weights, to the elements that it
// reads; the gradient of a coordinate is the sum of these elements, each times the slope of
// its weight. The image is in NHWC here, so that one row is read and written for a point.
func gridSampleGrad(c *Backward) {
	mode, padding := c.Str("mode", "linear"), c.Str("padding_mode", "zeros")
	linear := mode == "linear" || mode == "bilinear"
	switch {
	case !linear && mode != "nearest":
		c.Failf("mode %q has no gradient rule: expected linear or nearest", mode)
		return
	case padding != "zeros" && padding != "border":
		c.Failf("padding_mode %q has no gradient rule: expected zeros or border", padding)
		return
	}
	x, d, grid := c.shape(c.X(0)), c.D(0), c.shape(c.X(1))
	if c.err != nil {
		return
	}
	batch, channels, axesOf := x[0], x[1], len(x)-2
	size, points := elements(x[2:]), elements(grid[1:axesOf+1])
	rows := func(t ID, n int64) ID { // [N, C, ...] as [N·n, C]
		return c.reshape(c.transpose(c.reshape(t, []int64{batch, channels, n}), 0, 2, 1), []int64{batch * n, channels})
	}
	coordinates := c.split(c.reshape(c.X(1), []int64{batch, points, int64(axesOf)}), 2, filled(1, axesOf)...)
	list := make([]gridAxis, axesOf)
	for k := range list {
		v := c.reshape(coordinates[axesOf-1-k], []int64{batch, points})
		list[k] = c.gridAxis(v, x[2+k], linear, padding == "border")
	}
	firsts := make([]int64, batch) // of the images among all rows
	for n := range firsts {
		firsts[n] = int64(n) * size
	}
	base := c.reshape(c.list(firsts...), []int64{batch, 1})
	d = rows(d, points)
	image, total := ID(graph.None), c.zeros(d, batch*size, channels)
	if c.Needs(1) && linear {
		image = rows(c.X(0), size)
	}
	slopes := make([]ID, axesOf)
	for k := range slopes {
		slopes[k] = graph.None
	}
	for choice := range 1 << axesOf {
		if !linear && choice > 0 {
			break
		}
		taps := make([]gridTap, axesOf)
		place := base
		for k := range taps {
			taps[k] = list[k].taps[choice>>k&1]
			place = c.add(place, c.mul(taps[k].at, c.index(elements(x[3+k:]))))
		}
		// The product of all factors but that of one axis.
		weight := func(but int) ID {
			w := ID(graph.None)
			for k, t := range taps {
				f := t.weight
				if k == but {
					f = t.within
				}
				if w == graph.None {
					w = f
				} else if f != graph.None {
					w = c.mul(w, f)
				}
			}
			return w
		}
		flat := c.reshape(place, []int64{batch * points})
		if c.Needs(0) {
			w := c.castLike(c.reshape(weight(-1), []int64{batch * points, 1}), d)
			at := c.reshape(flat, []int64{batch * points, 1})
			total = c.with("ScatterND", attrs{"reduction": "add"}, total, at, c.mul(d, w))
		}
		if image == graph.None {
			continue
		}
		read := c.sum(c.mul(d, c.with("Gather", attrs{"axis": 0}, image, flat)), []int64{1}, false)
		read = c.castLike(c.reshape(read, []int64{batch, points}), c.X(1))
		for k, t := range taps {
			term := c.times(read, t.slope)
			if w := weight(k); w != graph.None {
				term = c.mul(term, w)
			}
			if slopes[k] != graph.None {
				term = c.add(slopes[k], term)
			}
			slopes[k] = term
		}
	}
	if c.Needs(0) {
		c.Set(0, c.reshape(c.transpose(c.reshape(total, []int64{batch, size, channels}), 0, 2, 1), x))
	}
	if !c.Needs(1) {
		return
	}
	if !linear {
		c.Set(1, c.zeros(c.X(1), grid...))
		return
	}
	parts := make([]ID, axesOf)
	for k := range list {
		parts[axesOf-1-k] = c.reshape(c.mul(slopes[k], list[k].slope), []int64{batch, points, 1})
	}
	c.Set(1, c.reshape(c.joined(parts, 2), grid))
}

// gridAxis computes what the points read along an axis of n elements, from their
// coordinates: -1 to 1 are its centres, or its edges.
func (c *Backward) gridAxis(v ID, n int64, linear, border bool) gridAxis {
	scale, most := float64(n)/2, float64(n-1)
	if c.Int("align_corners", 0) != 0 {
		scale = most / 2
	}
	a := gridAxis{length: n, slope: c.scalar(v, scale)}
	p := c.plus(c.times(v, scale), most/2)
	clip := func(t ID) ID { return c.op("Clip", t, c.scalar(v, 0), c.scalar(v, most)) }
	inside := func(t ID) ID {
		in := c.op("And", c.op("GreaterOrEqual", t, c.scalar(v, 0)), c.op("LessOrEqual", t, c.scalar(v, most)))
		return c.castLike(in, v)
	}
	tap := func(at, weight ID, slope float64) {
		within := ID(graph.None)
		if !border {
			within = inside(at)
			weight = c.mul(weight, within)
		}
		a.taps = append(a.taps, gridTap{c.castTo(clip(at), graph.Int64), weight, within, slope})
	}
	if !linear {
		at := c.op("Round", p)
		tap(at, c.expand(c.scalar(v, 1), c.shape(v)), 0)
		return a
	}
	if border {
		moves := c.op("And", c.op("Greater", p, c.scalar(v, 0)), c.op("Less", p, c.scalar(v, most)))
		a.slope, p = c.times(c.castLike(moves, v), scale), clip(p)
	}
	first := c.op("Floor", p)
	t := c.sub(p, first)
	tap(first, c.sub(c.scalar(v, 1), t), -1)
	tap(c.plus(first, 1), t, 1)
	return a
}

// affineGridGrad: a point of the grid is the matrix times its place. So the gradient of a
// column is the sum of the points' gradients, each times the place along one axis; the last
// column has the sum alone. Places along an axis are a list of its length.
func affineGridGrad(c *Backward) {
	d, shape := c.D(0), c.shape(c.D(0)) // [N, D, H, W, 3], or [N, H, W, 2]
	if c.err != nil {
		return
	}
	n := len(shape) - 2
	var columns []ID
	for k := range n + 1 {
		axis, t := n-k, d // x is the last axis
		if k < n {
			t = c.sum(d, slices.DeleteFunc(axes(1, n), func(a int64) bool { return a == int64(axis) }), false)
			places := make([]float64, len(c.numbered(shape[axis])))
			for i := range places {
				if steps := float64(shape[axis]); c.Int("align_corners", 0) == 0 {
					places[i] = (2*float64(i)+1)/steps - 1
				} else if steps > 1 {
					places[i] = 2*float64(i)/(steps-1) - 1
				} else {
					places[i] = -1
				}
			}
			if c.err != nil {
				return
			}
			t = c.sum(c.mul(t, c.reals(c.typeOf(d).Elem, []int64{shape[axis], 1}, places)), []int64{1}, false)
		} else {
			t = c.sum(d, axes(1, n), false)
		}
		columns = append(columns, c.reshape(t, []int64{shape[0], int64(n), 1}))
	}
	c.Set(0, c.joined(columns, 2))
}
