package reference

import (
	"math"
	"slices"
)

// gridOperators sample an image at positions that an input gives.
var gridOperators = []operator{
	{"GridSample", gridSample},
	{"AffineGrid", affineGrid},
}

// gridSample interpolates an image at the positions of a grid. Its coordinates range
// from -1 to 1, the last axis first.
func gridSample(c *evaluation) []*Tensor {
	x, grid := c.x(0), c.x(1)
	axes := len(x.Shape) - 2
	in, out := x.Shape[2:], grid.Shape[1:axes+1]
	corners, padding := c.int("align_corners", 0) != 0, c.str("padding_mode", "zeros")
	mode := c.str("mode", "linear")
	taps := map[string]int{"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}[mode]
	if taps == 0 {
		fail("mode %q", mode)
	}
	y := zeros(x.Type, slices.Concat(x.Shape[:2], out))
	mass, open := make([]float64, len(y.F)), make([]bool, len(y.F))
	parallel(x.Shape[0]*size(out), func(part int) {
		image := part / size(out)
		// Along each axis: the elements, -1 for a zero, and their weights.
		at, weight := make([][]int, axes), make([][]float64, axes)
		far, tie := 1.0, false
		for a := range axes {
			n := float64(in[a])
			v := grid.F[part*axes+axes-1-a]
			p, least, most := ((v+1)*n-1)/2, -0.5, n-0.5
			if corners {
				p, least, most = (v+1)/2*(n-1), 0, n-1
			}
			if math.IsNaN(p) || math.Abs(p) >= 1<<62 {
				p = least // as in ONNX Runtime
			}
			inside := func(p float64) float64 {
				switch {
				case padding == "border":
					return min(max(p, 0), n-1)
				case padding == "reflection" && (p < least || p > most):
					return reflected(p, least, most)
				}
				return p
			}
			far += math.Abs(p)
			if taps == 1 {
				whole := math.Abs(p - math.Floor(p) - 0.5)
				tie = tie || whole < 1e-5*(1+math.Abs(p))
				at[a], weight[a] = []int{int(inside(math.RoundToEven(p)))}, []float64{1}
			} else {
				if taps != 4 || padding != "border" {
					p = inside(p)
				} // else only the elements that it reads are
				first := math.Floor(p)
				t := p - first
				if taps == 2 {
					at[a], weight[a] = []int{int(first), int(first) + 1}, []float64{1 - t, t}
				} else {
					at[a] = []int{int(first) - 1, int(first), int(first) + 1, int(first) + 2}
					weight[a] = []float64{keys(1 + t), keys(t), keys(1 - t), keys(2 - t)}
				}
			}
			for k, i := range at[a] {
				if i < 0 || i >= in[a] {
					if at[a][k] = -1; padding != "zeros" {
						at[a][k] = min(max(int(inside(float64(i))), 0), in[a]-1)
					}
				}
			}
		}
		for ch := range x.Shape[1] {
			plane := x.F[(image*x.Shape[1]+ch)*size(in):][:size(in)]
			j := (image*x.Shape[1]+ch)*size(out) + part%size(out)
			open[j] = tie
			each(filled(taps, axes), func(tap []int) {
				place, w := 0, 1.0
				for a, k := range tap {
					if at[a][k] < 0 {
						return
					}
					place = place*in[a] + at[a][k]
					w *= weight[a][k]
				}
				y.F[j] += w * plane[place]
				// A weight has the absolute error of the position from which it is computed.
				mass[j] += math.Abs(plane[place]) * (math.Abs(w) + far)
			})
		}
	})
	if taps == 1 {
		mass = nil
	}
	*c.bounded(0) = bound{mass: mass, open: open, exact: taps == 1}
	return one(y)
}

// reflected reflects p at two ends until it lies between them.
func reflected(p, least, most float64) float64 {
	length := most - least
	if length == 0 {
		return least
	}
	d := math.Mod(math.Abs(p-least), 2*length)
	if d > length {
		d = 2*length - d
	}
	return least + d
}

// keys is the kernel of cubic convolution (Keys 1981) with a = -0.75.
func keys(d float64) float64 {
	const a = -0.75
	switch d = math.Abs(d); {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}

// affineGrid maps the positions of an image, which are evenly spaced in [-1, 1].
func affineGrid(c *evaluation) []*Tensor {
	theta, shape := c.x(0), c.list(1)
	axes := len(shape) - 2
	out := slices.Concat(shape[:1], shape[2:], []int{axes})
	y := zeros(theta.Type, out)
	mass := make([]float64, len(y.F))
	j := 0
	each(slices.Concat(shape[:1], shape[2:]), func(at []int) {
		place := make([]float64, axes+1) // the last axis first, then 1
		place[axes] = 1
		for a := range axes {
			n := float64(shape[2+a])
			v := (2*float64(at[1+a])+1)/n - 1
			if c.int("align_corners", 0) != 0 {
				if v = -1; n > 1 {
					v = 2*float64(at[1+a])/(n-1) - 1
				}
			}
			place[axes-1-a] = v
		}
		for r := range axes {
			for k, v := range place {
				t := theta.F[(at[0]*axes+r)*(axes+1)+k]
				y.F[j] += t * v
				mass[j] += math.Abs(t)
			}
			j++
		}
	})
	c.terms(0, mass)
	return one(y)
}
