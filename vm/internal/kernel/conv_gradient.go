package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// convGradients lists the gradient of a convolution's weights.
var convGradients = family{graph.SwapDomain, []Kernel{
	{Name: graph.ConvWeightGrad, Make: makeConvWeightGrad, Half: true},
}}

// makeConvWeightGrad computes the gradient of weights from the image and from the gradient
// of the result as they lie.
func makeConvWeightGrad(c *Invocation) (Run, error) {
	out := c.Out[0]
	v, err := c.WeightGradWindow()
	if err != nil {
		return nil, err
	}
	group := c.Int("group", 1)
	switch {
	case out.Type == graph.Float64:
		return plainWeights[float64](c, v, group)
	case out.Type != graph.Float32 && !isHalf(out):
		return nil, unsupported(out.Type)
	case out.Shape[1] > 1 || group == 1:
		return productWeights(c, v, group)
	}
	p := &gemm.Depthwise{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad, Stop: c.Runtime}
	if p.WeightsBytes() == 0 && isHalf(out) {
		return (&Kernel{Make: makeConvWeightGrad}).widened(c)
	}
	if p.WeightsBytes() == 0 {
		return plainWeights[float32](c, v, group)
	}
	return planeWeights(c, v, p, group)
}

// productWeights computes, for each group, the product of the windows of the image, a row
// for each channel and weight, with the channels of the result's gradient, as columns. The
// depth goes through all images. As a window, the gradient is the convolution of the image
// with the result's gradient: kernel and outputs, strides and dilations are exchanged.
func productWeights(c *Invocation, v *form.Window, group int) (Run, error) {
	x, d, out := c.In[0], c.In[1], c.Out[0]
	m, ch, outputs := out.Shape[0]/group, out.Shape[1], v.Outputs()
	rows, depth := ch*v.Taps(), x.Shape[0]*outputs
	type side struct {
		windows gemm.Windows
		planes  gemm.Planes
	}
	sides, list := tableOf[side](c, group), tableOf[gemm.Product](c, group)
	for g := range list {
		s := &sides[g]
		s.windows = gemm.Windows{Rows: rows, Step: v.Inputs(), Channel: ch * group * v.Inputs(), In: v.In, Out: v.Kernel, Kernel: v.Out, Stride: v.Dilation, Dilation: v.Stride, Pad: v.Pad, Format: formatOf(x.Type)}
		s.planes = gemm.Planes{Dense: gemm.Dense{Len: m, Step: outputs, Deep: 1, Format: formatOf(d.Type)}, Plane: outputs, Next: m * group * outputs}
		list[g] = gemm.Product{M: rows, N: m, K: depth, A: &s.windows, B: &s.planes, Alpha: 1, Stride: m, Stop: c.Runtime}
	}
	divide(list, c.Workers, len(list))
	each, block := c.Each(list[0].ScratchBytes()), c.Each(4*list[0].BlockLen())
	tiles := list[0].Tiles()
	var pool *work.Pool
	part := func(part, worker int) {
		g, tile := part/tiles, part%tiles
		p := &list[g]
		row, column, height, width := p.Block(tile)
		sums, packing := pool.Each(worker, block), pool.Each(worker, each)
		p.TileAt(tile, sums, width, nil, packing)
		c.Poll()
		if isHalf(out) {
			roundTurned(out, (g*m+column)*rows+row, rows, (*float32)(sums), height, width, span[float32](packing, gemm.ScratchBytes/4))
			return
		}
		to := (*float32)(element[float32](out, (g*m+column)*rows+row))
		simd.Transpose(to, (*float32)(sums), rows, width, height, width)
	}
	return func(w *work.Pool) error {
		pool = w
		for g := range sides {
			sides[g].windows.At = elementAt(x, g*ch*v.Inputs(), x.Width())
			sides[g].planes.At = elementAt(d, g*m*outputs, d.Width())
		}
		w.For(group*tiles, part)
		return nil
	}, nil
}

// roundTurned rounds a matrix of sums, transposed, to a 16-bit tensor: its columns to rows of
// elements that begin at the given one and are step apart. room is scratch.
func roundTurned(out *Tensor, at, step int, sums *float32, rows, columns int, room []float32) {
	const most = 1 << 12 // numbers in the first-level cache
	down := min(rows, most)
	across := max(most/down&^7, min(columns, 1))
	for c := 0; c < columns; c += across {
		n := min(across, columns-c)
		for r := 0; r < rows; r += down {
			count := min(down, rows-r)
			simd.Transpose(&room[0], (*float32)(unsafe.Add(unsafe.Pointer(sums), 4*(r*columns+c))), count, columns, count, n)
			for i := range n {
				simd.Round(span[uint16](element[uint16](out, at+(c+i)*step+r), count), room[i*count:][:count], narrowType(out.Type))
			}
		}
	}
}

// planeWeights computes the gradients of the weights of single channels, one image after
// the other.
func planeWeights(c *Invocation, v *form.Window, p *gemm.Depthwise, group int) (Run, error) {
	x, d, out := c.In[0], c.In[1], c.Out[0]
	images, channels, weights := x.Shape[0], out.Shape[0], v.Taps()
	each, aside := c.Each(p.WeightsBytes()), c.Each(4*weights)
	seen, given, result := roomFor(c, x, v.Inputs()), roomFor(c, d, v.Outputs()), newPlane(c, weights)
	var pool *work.Pool
	part := func(o, worker int) {
		sum := span[float32](result.at(pool, worker, o*weights), weights)
		one := pool.Each(worker, aside)
		clear(sum)
		for n := range images {
			image := realsAt(pool.Each(worker, seen), x, (n*group+o/(channels/group))*v.Inputs(), v.Inputs())
			p.Weights(one, image, realsAt(pool.Each(worker, given), d, (n*channels+o)*v.Outputs(), v.Outputs()), pool.Each(worker, each))
			simd.Add(sum, sum, span[float32](one, weights))
		}
		result.finish(pool, worker, o*weights, weights)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(channels, part)
		return nil
	}, nil
}

// plainWeights adds up the products of one weight after the other, in float64. v is the
// window of the convolution.
func plainWeights[T floating](c *Invocation, v *form.Window, group int) (Run, error) {
	x, d, out := c.In[0], c.In[1], c.Out[0]
	images, m, ch, taps := x.Shape[0], out.Shape[0], out.Shape[1], v.Taps()
	part := func(i, _ int) {
		o, channel := i/ch, i%ch
		meter := c.Meter()
		for tap := range taps {
			sum := 0.0
			for n := range images {
				image := span[T](element[T](x, ((n*group+o/(m/group))*ch+channel)*v.Inputs()), v.Inputs())
				sum += weightOf(&meter, image, span[T](element[T](d, (n*m+o)*v.Outputs()), v.Outputs()), v, tap)
			}
			*(*T)(element[T](out, i*taps+tap)) = T(sum)
		}
	}
	return func(w *work.Pool) error {
		w.For(m*ch, part)
		return nil
	}, nil
}

// weightOf is the sum of the products of the elements of a channel that a tap reads with the
// gradients of the results for which it reads them.
func weightOf[T floating](m *form.Meter, image, d []T, v *form.Window, tap int) float64 {
	sum := 0.0
	k := [3]int{tap / v.Kernel[2] / v.Kernel[1], tap / v.Kernel[2] % v.Kernel[1], tap % v.Kernel[2]}
	var from, to, shift [3]int
	for a := range k {
		from[a], to[a] = v.Within(a, k[a])
		shift[a] = k[a]*v.Dilation[a] - v.Pad[a]
	}
	for z := from[0]; z < to[0] && from[2] < to[2]; z++ {
		for y := from[1]; y < to[1]; y++ {
			row := ((z*v.Stride[0]+shift[0])*v.In[1]+y*v.Stride[1]+shift[1])*v.In[2] + shift[2]
			for w := from[2]; w < to[2]; {
				end := m.Next(w, to[2])
				for ; w < end; w++ {
					sum += float64(d[(z*v.Out[1]+y)*v.Out[2]+w]) * float64(image[row+w*v.Stride[2]])
				}
			}
		}
	}
	return sum
}

// mostWindows is the most outputs of an image that windowConv and depthwiseWeights are
// chosen for.
const mostWindows = 64

// isGradient reports whether a convolution has few outputs under a kernel that changes from
// run to run and is far larger, and nothing to add. The gradient of a convolution's weights
// is one: images and channels are exchanged, and the gradient of the result is the kernel.
func isGradient(c *Invocation, v *form.Window) bool {
	return c.added == nil && !c.Has(2) && !c.In[1].Fixed() && v.Outputs() <= mostWindows && v.Taps() >= 4*v.Outputs()
}

// manyWindows reports whether a convolution is the gradient of weights, and large enough to
// fill the vectors of one product.
func manyWindows(c *Invocation, v *form.Window, group int) bool {
	weight := c.In[1]
	return isGradient(c, v) && c.In[0].Shape[0]*v.Outputs() >= 16 && weight.Shape[0]/group >= 8 && weight.Shape[1] > 0
}

// windowConv computes a convolution with few outputs for each image. Each group is one
// product: of the windows of all images, as rows, with the kernels, as columns. The sums
// of a tile are transposed to where they belong.
func windowConv(c *Invocation, v *form.Window, group int) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	images, m, ch, outputs := x.Shape[0], weight.Shape[0]/group, weight.Shape[1], v.Outputs()
	depth := ch * v.Taps()
	type side struct {
		rows    gemm.Windows
		columns gemm.Dense
	}
	sides, list := tableOf[side](c, group), tableOf[gemm.Product](c, group)
	for i := range list {
		s := &sides[i]
		s.rows = gemm.Windows{Rows: images * outputs, Step: ch * group * v.Inputs(), Channel: v.Inputs(), In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
		s.columns = gemm.Dense{Len: m, Step: depth, Deep: 1}
		list[i] = gemm.Product{M: images * outputs, N: m, K: depth, A: &s.rows, B: &s.columns, Alpha: 1, Stride: m, Stop: c.Runtime}
	}
	divide(list, c.Workers, len(list))
	each, block := c.Each(list[0].ScratchBytes()), c.Each(4*list[0].BlockLen())
	tiles := list[0].Tiles()
	var pool *work.Pool
	part := func(part, worker int) {
		g, tile := part/tiles, part%tiles
		p := &list[g]
		row, column, rows, columns := p.Block(tile)
		sums := pool.Each(worker, block)
		p.TileAt(tile, sums, columns, nil, pool.Each(worker, each))
		for r := 0; r < rows; {
			image, place := (row+r)/outputs, (row+r)%outputs
			n := min(outputs-place, rows-r)
			to := (*float32)(element[float32](out, ((image*group+g)*m+column)*outputs+place))
			simd.Transpose(to, (*float32)(unsafe.Add(sums, 4*r*columns)), outputs, columns, n, columns)
			c.Poll()
			r += n
		}
	}
	return func(w *work.Pool) error {
		pool = w
		for g := range sides {
			sides[g].rows.At = element[float32](x, g*ch*v.Inputs())
			sides[g].columns.At = element[float32](weight, g*m*depth)
		}
		w.For(group*tiles, part)
		return nil
	}, nil
}

// depthwiseWeights makes the kernel of the gradient of a depthwise convolution's weights, or
// nil if this convolution is none. Its window is that of the depthwise convolution, with
// kernel and outputs, strides and dilations exchanged.
func depthwiseWeights(c *Invocation, v *form.Window) Run {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	d := &gemm.Depthwise{In: v.In, Out: v.Kernel, Kernel: v.Out, Stride: v.Dilation, Dilation: v.Stride, Pad: v.Pad, Stop: c.Runtime}
	if !isGradient(c, v) || d.WeightsBytes() == 0 {
		return nil
	}
	channels, each := weight.Shape[0], c.Each(d.WeightsBytes())
	var pool *work.Pool
	part := func(i, worker int) {
		d.Weights(element[float32](out, i*v.Outputs()), element[float32](x, i*v.Inputs()), element[float32](weight, i%channels*v.Taps()), pool.Each(worker, each))
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*channels, part)
		return nil
	}
}
