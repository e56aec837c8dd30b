package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
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
	x = g.within(x)
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

// GridSampling reads the attributes of GridSample: the number of elements along an axis
// that a coordinate reads (1, 2 or 4), what lies outside (zeros, border or reflection), and
// whether the coordinates -1 and 1 are the centres of the first and the last element.
func (c *Invocation) GridSampling() (taps int, padding string, corners bool) {
	taps = 2
	switch c.Str("mode", "linear") {
	case "nearest":
		taps = 1
	case "cubic", "bicubic":
		taps = 4
	}
	return taps, c.Str("padding_mode", "zeros"), c.Int("align_corners", 0) != 0
}

// makeGridSample samples all channels of an image at the points of a grid. A point
// lists its coordinates from the last axis to the first.
func makeGridSample(c *Invocation) (Run, error) {
	x, grid, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 || grid.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	axes := x.rank() - 2
	if axes < 1 || axes > 3 {
		return nil, unsupportedf("%d spatial axes", axes)
	}
	taps, padding, corners := c.GridSampling()
	list, step := make([]gridAxis, axes), make([]int, axes)
	for a, n := range x.Shape[2:] {
		list[a], step[a] = newGridAxis(n, corners, padding), count(x.Shape[3+a:])
	}
	inputs, outputs, channels := count(x.Shape[2:]), count(grid.Shape[1:axes+1]), x.Shape[1]
	const most = 32 // points whose taps stay in the fastest cache
	each := c.Each(most * int(unsafe.Sizeof(gridPoint{})))
	pieces := cuts(outputs, most)
	var pool *work.Pool
	part := func(p, worker int) {
		image, first := p/pieces, p%pieces*most
		m := meter{c: c}
		points := span[gridPoint](pool.Each(worker, each), min(most, outputs-first))
		for i := range points {
			m.add(8)
			points[i].read(list, step, span[float32](element[float32](grid, (image*outputs+first+i)*axes), axes), taps)
		}
		for ch := range channels {
			plane := span[float32](element[float32](x, (image*channels+ch)*inputs), inputs)
			d := span[float32](element[float32](out, (image*channels+ch)*outputs+first), len(points))
			for i := range points {
				m.add(8 * points[i].n) // 8: the taps miss the cache
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
func (p *gridPoint) sum(plane []float32) float32 {
	if p.n == 4 {
		sum := float32(0) + p.weight[0]*plane[p.at[0]]
		return sum + p.weight[1]*plane[p.at[1]] + p.weight[2]*plane[p.at[2]] + p.weight[3]*plane[p.at[3]]
	}
	sum := float32(0)
	for i := range p.n {
		sum += p.weight[i] * plane[p.at[i]]
	}
	return sum
}

// makeAffineGrid applies an affine map for each image to points that are spread evenly
// over [-1, 1].
func makeAffineGrid(c *Invocation) (Run, error) {
	theta, out := c.In[0], c.Out[0]
	axes := out.rank() - 2
	get, okIn := reader(theta.Type)
	set, okOut := writer(out.Type)
	if !okIn || !okOut {
		return nil, unsupported(theta.Type)
	}
	corners := c.Int("align_corners", 0) != 0
	places := count(out.Shape[1 : axes+1])
	part := func(image, _ int) {
		var at [4]float64 // x first, and 1 at the end
		at[axes] = 1
		for p := range places {
			if p&often == 0 {
				c.poll()
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
