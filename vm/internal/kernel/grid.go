package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// grids lists the operators that sample an image at coordinates from an input.
var grids = family{"", []Kernel{
	{Name: "GridSample", Make: makeGridSample},
	{Name: "AffineGrid", Make: makeAffineGrid},
}}

// neighbours holds the elements along one axis that a coordinate reads (-1: outside,
// which counts as 0) and their weights.
type neighbours struct {
	at     [4]int
	weight [4]float32
}

// gridAxis samples along one axis of an image, with n elements.
type gridAxis struct {
	n              int
	corners        bool
	padding        string
	least, largest float32 // the points of reflection
}

func newGridAxis(n int, corners bool, padding string) gridAxis {
	if corners {
		return gridAxis{n, corners, padding, 0, float32(n) - 1}
	}
	return gridAxis{n, corners, padding, -0.5, float32(n) - 0.5}
}

// place converts a coordinate x in [-1, 1] to elements. What is no number, or too far away,
// lies at the least place, as in ONNX Runtime.
func (g *gridAxis) place(x float32) float32 {
	at := ((x+1)*float32(g.n) - 1) / 2
	if g.corners {
		at = (x + 1) / 2 * float32(g.n-1)
	}
	if at > -1<<62 && at < 1<<62 {
		return at
	}
	return g.least
}

// within moves a coordinate into the image, according to the padding mode.
func (g *gridAxis) within(x float32) float32 {
	if x >= g.least && x <= g.largest {
		return x
	}
	switch g.padding {
	case "border":
		return min(max(x, 0), float32(g.n-1))
	case "reflection":
		return g.reflect(x)
	}
	return x
}

// reflect reflects x at the ends until it lies between them.
func (g *gridAxis) reflect(x float32) float32 {
	length := g.largest - g.least
	if length <= 0 {
		return g.least
	}
	over := g.least - x
	if x > g.largest {
		over = x - g.largest
	}
	times := math.Floor(float64(over / length))
	rest := over - float32(times)*length
	if (math.Mod(times, 2) == 0) == (x < g.least) {
		return g.least + rest
	}
	return g.largest - rest
}

// element is the index of the element at an integral coordinate, -1 if there is none.
func (g *gridAxis) element(i float64) int {
	switch {
	case i >= 0 && i < float64(g.n):
		return int(i)
	case i != i || g.padding == "zeros":
		return -1
	case g.padding == "border":
		return int(min(max(i, 0), float64(g.n-1)))
	}
	return min(max(int(g.reflect(float32(i))), 0), g.n-1)
}

// read returns the taps around x.
func (g *gridAxis) read(x float32, taps int) (v neighbours) {
	x = g.place(x)
	if taps == 1 {
		x = float32(math.RoundToEven(float64(x)))
	}
	if taps != 4 || g.padding != "border" {
		x = g.within(x)
	} // else only the elements that it reads are, as in ONNX Runtime and PyTorch
	if taps == 1 {
		v.at[0], v.weight[0] = g.element(math.Trunc(float64(x))), 1
		return v
	}
	from := math.Floor(float64(x))
	t := x - float32(from)
	first := 0.0
	if taps == 2 {
		v.weight = [4]float32{1 - t, t}
	} else {
		first = -1
		v.weight = cubicWeights(t)
	}
	for i := range taps {
		v.at[i] = g.element(from + first + float64(i))
	}
	return v
}

// cubicWeights returns the weights of the four elements around t in [0, 1) (Keys 1981,
// with a = -0.75).
func cubicWeights(t float32) [4]float32 {
	const a = -0.75
	far := func(d float32) float32 { return ((a*d-5*a)*d+8*a)*d - 4*a }
	near := func(d float32) float32 { return ((a+2)*d-(a+3))*d*d + 1 }
	return [4]float32{far(t + 1), near(t), near(1 - t), far(2 - t)}
}

// makeGridSample samples all channels of an image at the points of a grid. A point
// lists its coordinates from the last axis to the first.
func makeGridSample(c *Invocation) (Run, error) {
	x, grid, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 || grid.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	axes := x.Rank() - 2
	if axes < 1 || axes > 3 {
		return nil, unsupportedf("%d spatial axes", axes)
	}
	taps, padding, corners := c.GridSampling()
	list, step := make([]gridAxis, axes), make([]int, axes)
	for a, n := range x.Shape[2:] {
		list[a], step[a] = newGridAxis(n, corners, padding), count(x.Shape[3+a:])
	}
	inputs, outputs, channels := count(x.Shape[2:]), count(grid.Shape[1:axes+1]), x.Shape[1]
	if taps <= 2 && axes <= 2 && inputs < math.MaxInt32 {
		return sampleFew(c, list, step, taps), nil
	}
	const most = 32 // points whose taps stay in the fastest cache
	each := c.Each(most * int(unsafe.Sizeof(gridPoint{})))
	pieces := cuts(outputs, most)
	var pool *work.Pool
	part := func(p, worker int) {
		image, first := p/pieces, p%pieces*most
		m := c.Meter()
		points := span[gridPoint](pool.Each(worker, each), min(most, outputs-first))
		for i := range points {
			m.Add(8)
			points[i].read(list, step, span[float32](element[float32](grid, (image*outputs+first+i)*axes), axes), taps)
		}
		for ch := range channels {
			plane := span[float32](element[float32](x, (image*channels+ch)*inputs), inputs)
			d := span[float32](element[float32](out, (image*channels+ch)*outputs+first), len(points))
			for i := range points {
				m.Add(8 * points[i].n) // 8: the taps miss the cache
				d[i] = points[i].sum(plane)
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*pieces, part)
		return nil
	}, nil
}

// sampleFew is makeGridSample for points with at most four taps, which take so little room that
// many points share a walk through the channels.
func sampleFew(c *Invocation, list []gridAxis, step []int, taps int) Run {
	x, grid, out := c.In[0], c.In[1], c.Out[0]
	axes := len(list)
	inputs, outputs, channels := count(x.Shape[2:]), count(grid.Shape[1:axes+1]), x.Shape[1]
	const most = 512 // points whose taps stay in the fastest cache
	each := c.Each(most * int(unsafe.Sizeof(nearPoint{})))
	pieces := cuts(outputs, most)
	var pool *work.Pool
	part := func(p, worker int) {
		image, first := p/pieces, p%pieces*most
		m := c.Meter()
		points := span[nearPoint](pool.Each(worker, each), min(most, outputs-first))
		var all gridPoint
		for i := range points {
			m.Add(8)
			places := span[float32](element[float32](grid, (image*outputs+first+i)*axes), axes)
			if taps == 2 && axes == 2 && points[i].readFour(list, step, places) {
				continue
			}
			all.read(list, step, places, taps)
			points[i].n = int32(all.n)
			for k := range all.n {
				points[i].at[k], points[i].weight[k] = int32(all.at[k]), all.weight[k]
			}
		}
		const together = 4 // channels that share what is read of a point
		for ch := 0; ch < channels; ch += together {
			m.Add(8 * together * len(points)) // 8: the taps miss the cache
			var planes, d [together][]float32
			n := min(together, channels-ch)
			for k := range n {
				planes[k] = span[float32](element[float32](x, (image*channels+ch+k)*inputs), inputs)
				d[k] = span[float32](element[float32](out, (image*channels+ch+k)*outputs+first), len(points))
			}
			if n == together {
				sumFour(points, &planes, &d)
				continue
			}
			for k := range n {
				for i := range points {
					d[k][i] = points[i].sum(planes[k])
				}
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*pieces, part)
		return nil
	}
}

// nearPoint is a gridPoint with at most four taps.
type nearPoint struct {
	at     [4]int32
	weight [4]float32
	n      int32
}

// sum adds up the taps of a plane.
func (p *nearPoint) sum(plane []float32) float32 { return sumTaps(p.at[:p.n], p.weight[:], plane) }

// sumTaps adds up elements of a plane, times their weights.
func sumTaps[I int | int32](at []I, weight, plane []float32) float32 {
	sum := float32(0)
	for i, place := range at {
		sum += weight[i] * plane[place]
	}
	return sum
}

// readFour is read for a point whose four taps all lie in the image; it returns false for others.
func (p *nearPoint) readFour(axis []gridAxis, step []int, places []float32) bool {
	y, x := axis[0].read(places[1], 2), axis[1].read(places[0], 2)
	if y.at[0]|y.at[1]|x.at[0]|x.at[1] < 0 {
		return false
	}
	p.n = 4
	for i := range 2 {
		row := y.at[i] * step[0]
		p.at[2*i], p.weight[2*i] = int32(row+x.at[0]), y.weight[i]*x.weight[0]
		p.at[2*i+1], p.weight[2*i+1] = int32(row+x.at[1]), y.weight[i]*x.weight[1]
	}
	return true
}

// sumFour adds up the taps of points in four planes.
func sumFour(points []nearPoint, planes, d *[4][]float32) {
	p0, p1, p2, p3 := planes[0], planes[1], planes[2], planes[3]
	p1, p2, p3 = p1[:len(p0)], p2[:len(p0)], p3[:len(p0)]
	d0, d1, d2, d3 := d[0][:len(points)], d[1][:len(points)], d[2][:len(points)], d[3][:len(points)]
	for i := range points {
		p := &points[i]
		if p.n != 4 {
			d0[i], d1[i], d2[i], d3[i] = p.sum(p0), p.sum(p1), p.sum(p2), p.sum(p3)
			continue
		}
		a, b, c, e := p.at[0], p.at[1], p.at[2], p.at[3]
		u, v, w, x := p.weight[0], p.weight[1], p.weight[2], p.weight[3]
		d0[i] = float32(0) + u*p0[a] + v*p0[b] + w*p0[c] + x*p0[e]
		d1[i] = float32(0) + u*p1[a] + v*p1[b] + w*p1[c] + x*p1[e]
		d2[i] = float32(0) + u*p2[a] + v*p2[b] + w*p2[c] + x*p2[e]
		d3[i] = float32(0) + u*p3[a] + v*p3[b] + w*p3[c] + x*p3[e]
	}
}

// gridPoint is a point of the grid: the taps around it that lie in the image, and their
// weights.
type gridPoint struct {
	n      int
	at     [64]int // at most four along each of three axes
	weight [64]float32
}

// read finds the taps. places lists the coordinates, from the last axis to the first.
func (p *gridPoint) read(axis []gridAxis, step []int, places []float32, taps int) {
	var v [3]neighbours
	counts := [3]int{1, 1, 1}
	for k := range v {
		v[k].weight[0] = 1
		if k < len(axis) {
			v[k], counts[k] = axis[k].read(places[len(axis)-1-k], taps), taps
			for i := range taps {
				v[k].at[i] *= step[k] // -1, outside, stays below 0
			}
		}
	}
	p.n = 0
	for i := range counts[0] {
		for j := range counts[1] {
			for k := range counts[2] {
				if at0, at1, at2 := v[0].at[i], v[1].at[j], v[2].at[k]; at0|at1|at2 >= 0 {
					p.at[p.n], p.weight[p.n] = at0+at1+at2, v[0].weight[i]*v[1].weight[j]*v[2].weight[k]
					p.n++
				}
			}
		}
	}
}

// sum adds up the taps of a plane.
func (p *gridPoint) sum(plane []float32) float32 { return sumTaps(p.at[:p.n], p.weight[:], plane) }

// makeAffineGrid applies an affine map for each image to points that are spread evenly
// over [-1, 1].
func makeAffineGrid(c *Invocation) (Run, error) {
	theta, out := c.In[0], c.Out[0]
	axes := out.Rank() - 2
	get, okIn := form.Reader(theta.Type)
	set, okOut := form.Writer(out.Type)
	if !okIn || !okOut {
		return nil, unsupported(theta.Type)
	}
	corners := c.Int("align_corners", 0) != 0
	places := count(out.Shape[1 : axes+1])
	part := func(image, _ int) {
		var at [4]float64 // x first, and 1 at the end
		at[axes] = 1
		for p := range places {
			if p&form.Often == 0 {
				c.Poll()
			}
			rest := p
			for k := range axes {
				n := out.Shape[axes-k]
				i := float64(rest % n)
				rest /= n
				switch {
				case !corners:
					at[k] = (2*i+1)/float64(n) - 1
				case n > 1:
					at[k] = 2*i/float64(n-1) - 1
				default:
					at[k] = -1
				}
			}
			for r := range axes {
				sum := 0.0
				for k := range axes + 1 {
					sum += get(theta.At, (image*axes+r)*(axes+1)+k) * at[k]
				}
				set(out.At, (image*places+p)*axes+r, sum)
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(out.Shape[0], part)
		return nil
	}, nil
}
