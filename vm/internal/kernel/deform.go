package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeDeformConv is a convolution that shifts each tap at each output position,
// also by fractions (Dai et al. 2017), and can weight it (Zhu et al. 2019). The
// shifted elements of one image are stored as a matrix, which the weights then
// multiply.
func makeDeformConv(c *Invocation) (Run, error) {
	x, weight, shift, out := c.In[0], c.In[1], c.In[2], c.Out[0]
	if x.Type != graph.Float32 || x.Rank() != 4 {
		return nil, unsupportedf("%v with %d axes", x.Type, x.Rank())
	}
	v, err := form.NewWindow(&c.Call, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
	if err != nil {
		return nil, err
	}
	group, shifts := c.Int("group", 1), c.Int("offset_group", 1)
	channels, taps, n := x.Shape[1], v.Taps(), v.Outputs()
	columns := c.Shared(mul(4, channels, taps, n))
	m, k := weight.Shape[0]/group, weight.Shape[1]*taps
	each := c.Each(gemm.ScratchBytes)
	left, right, list := tableOf[gemm.Dense](c, group), tableOf[gemm.Dense](c, group), tableOf[gemm.Product](c, group)
	for g := range list {
		left[g] = gemm.Dense{Len: m, Step: k, Deep: 1}
		right[g] = gemm.Dense{Len: n, Step: 1, Deep: n}
		list[g] = gemm.Product{M: m, N: n, K: k, A: &left[g], B: &right[g], Alpha: 1, Stride: n, RowBias: c.Has(3), Stop: c.Runtime}
	}
	tiles := list[0].Tiles()
	var pool *work.Pool
	image := 0
	see := func(p, _ int) {
		ch, tap := p/taps, p%taps
		s := ((image*shifts+ch/(channels/shifts))*taps + tap) * n
		dy, dx := span[float32](element[float32](shift, 2*s), n), span[float32](element[float32](shift, 2*s+n), n)
		var factor []float32
		if c.Has(4) {
			factor = span[float32](element[float32](c.In[4], s), n)
		}
		plane := span[float32](element[float32](x, (image*channels+ch)*v.Inputs()), v.Inputs())
		d := span[float32](pool.Shared(columns+4*p*n), n)
		for o := range d {
			if o&form.Often == 0 {
				c.Poll()
			}
			y := float32(o/v.Out[2]*v.Stride[1]-v.Pad[1]+tap/v.Kernel[2]*v.Dilation[1]) + dy[o]
			x := float32(o%v.Out[2]*v.Stride[2]-v.Pad[2]+tap%v.Kernel[2]*v.Dilation[2]) + dx[o]
			d[o] = between(plane, v.In[1], v.In[2], y, x)
			if factor != nil {
				d[o] *= factor[o]
			}
		}
	}
	multiply := func(p, worker int) {
		g := p / tiles
		var bias unsafe.Pointer
		if c.Has(3) {
			bias = element[float32](c.In[3], g*m)
		}
		list[g].Tile(p%tiles, element[float32](out, (image*group+g)*m*n), bias, pool.Each(worker, each))
	}
	return func(w *work.Pool) error {
		pool = w
		for image = range x.Shape[0] {
			w.For(channels*taps, see)
			for g := range list {
				left[g].At, right[g].At = element[float32](weight, g*m*k), w.Shared(columns+4*g*k*n)
			}
			w.For(group*tiles, multiply)
		}
		return nil
	}, nil
}

// between interpolates a plane at (y, x); outside of it are zeros.
func between(plane []float32, h, w int, y, x float32) float32 {
	if !(y > -1 && y < float32(h) && x > -1 && x < float32(w)) {
		return 0
	}
	y0, x0 := int(math.Floor(float64(y))), int(math.Floor(float64(x)))
	fy, fx := y-float32(y0), x-float32(x0)
	sum := float32(0)
	for i, wy := range [2]float32{1 - fy, fy} {
		for j, wx := range [2]float32{1 - fx, fx} {
			if r, k := y0+i, x0+j; uint(r) < uint(h) && uint(k) < uint(w) {
				sum += wy * wx * plane[r*w+k]
			}
		}
	}
	return sum
}
