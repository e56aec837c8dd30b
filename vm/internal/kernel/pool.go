package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// pooling lists the operators that reduce windows of an image.
var pooling = family{"", []Kernel{
	{Name: "MaxPool", Make: makeMaxPool, Blocks: inAndOut(canBlocksPool)},
	{Name: "AveragePool", Make: makeAveragePool, Blocks: inAndOut(canBlocksPool)},
	{Name: "LpPool", Make: makeLpPool},
	{Name: "MaxUnpool", Make: makeMaxUnpool, Half: true},
	{Name: "GlobalAveragePool", Make: makeGlobalAveragePool, Narrow: meansOfHalfPlanes, Blocks: globalPoolsHalves},
	{Name: "GlobalMaxPool", Make: makeGlobalMaxPool, Blocks: globalPoolsBlocks},
	{Name: "GlobalLpPool", Make: makeGlobalLpPool},
}}

func makeMaxPool(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NCHW16c {
		return makeBlocksMaxPool(c)
	}
	switch c.In[0].Type {
	case graph.Float32:
		return maxPool(c, float32(math.Inf(-1)))
	case graph.Float64:
		return maxPool(c, math.Inf(-1))
	case graph.Int8:
		return maxPool[int8](c, math.MinInt8)
	case graph.Uint8:
		return maxPool[uint8](c, 0)
	}
	return nil, unsupported(c.In[0].Type)
}

// maxPool computes the largest element of each window and, if output 1 is there,
// its index in the whole tensor.
func maxPool[T number](c *Invocation, least T) (Run, error) {
	v, err := c.PoolWindow()
	if err != nil {
		return nil, err
	}
	x, out := c.In[0], c.Out[0]
	if x.Type == graph.Float32 && !c.HasOut(1) {
		d := depthwiseOf(v)
		if v.Taps() > mostTogether {
			if p := newPaddedPool(c, v, 1); p != nil {
				return p.run(x, out), nil
			}
		}
		if p := poolOf(v, c); p.MaskLen() > 0 && d.TableLen() == 0 {
			return joinPlanes(c, v, p, nil), nil
		}
		if d.ScratchBytes() > 0 && v.Taps() <= mostTogether {
			return maxPoolPlanes(c, v, d), nil
		}
		if byRows(v) {
			return maxPoolRows(c, v), nil
		}
	}
	planes := x.Shape[0] * x.Shape[1]
	if d := depthwiseOf(v); x.Type == graph.Float32 && c.Int("storage_order", 0) == 0 && v.Taps() <= mostTogether && d.PlacesBytes() > 0 {
		return maxPoolPlaces(c, v, d), nil
	}
	byColumn := c.Int("storage_order", 0) != 0
	part := func(p, _ int) {
		in := span[T](element[T](x, p*v.Inputs()), v.Inputs())
		d := span[T](element[T](out, p*v.Outputs()), v.Outputs())
		var at []int64
		if c.HasOut(1) {
			at = span[int64](element[int64](c.Out[1], p*v.Outputs()), v.Outputs())
		}
		m := c.Meter()
		eachReached(v, func(o int, t *reached) {
			best, place := least, -1
			t.rows(v, &m, func(row, from, to int) {
				for iw := from; iw < to; iw++ {
					k := row + iw*v.Dilation[2]
					if y := in[k]; place < 0 || y > best || y != y {
						best, place = y, k
					}
				}
			})
			d[o] = best
			if at != nil { // some tap lies within the image: ops.Check
				if byColumn {
					place = columnMajor(v, place)
				}
				at[o] = int64(p*v.Inputs() + place)
			}
		})
	}
	return func(w *work.Pool) error {
		w.For(planes, part)
		return nil
	}, nil
}

// columnMajor converts an index in the image to column-major order.
func columnMajor(v *form.Window, i int) int {
	w, h, d := i%v.In[2], i/v.In[2]%v.In[1], i/v.In[2]/v.In[1]
	return d + v.In[0]*(h+v.In[1]*w)
}

// reached is the part of a window that lies within the image: along each axis, its
// first position and the taps [from, to).
type reached struct{ start, from, to [3]int }

// index is the index in the image of taps (d, h, w).
func (t *reached) index(v *form.Window, d, h, w int) int {
	return ((t.start[0]+d*v.Dilation[0])*v.In[1]+t.start[1]+h*v.Dilation[1])*v.In[2] + t.start[2] + w*v.Dilation[2]
}

// rows calls f for every row of taps within the image, piece by piece: taps [from,
// to) of the third axis, where row is the index of its tap 0.
func (t *reached) rows(v *form.Window, m *form.Meter, f func(row, from, to int)) {
	m.Add(1)
	for id := t.from[0]; id < t.to[0]; id++ {
		for ih := t.from[1]; ih < t.to[1]; ih++ {
			row, from := t.index(v, id, ih, 0), t.from[2]
			for ; t.to[2]-from > work.PollEvery; from += work.PollEvery {
				m.Poll()
				f(row, from, from+work.PollEvery)
			}
			m.Add(t.to[2] - from)
			f(row, from, t.to[2])
		}
	}
}

// eachReached calls f for every output position.
func eachReached(v *form.Window, f func(o int, t *reached)) {
	var t reached
	o := 0
	for od := range v.Out[0] {
		t.start[0], t.from[0], t.to[0] = v.Reach(0, od)
		for oh := range v.Out[1] {
			t.start[1], t.from[1], t.to[1] = v.Reach(1, oh)
			for ow := range v.Out[2] {
				t.start[2], t.from[2], t.to[2] = v.Reach(2, ow)
				f(o, &t)
				o++
			}
		}
	}
}

func makeAveragePool(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NCHW16c {
		return makeBlocksAveragePool(c)
	}
	switch c.In[0].Type {
	case graph.Float32:
		return averagePool[float32](c)
	case graph.Float64:
		return averagePool[float64](c)
	}
	return nil, unsupported(c.In[0].Type)
}

// averagePool divides by the number of taps within the image or, with
// count_include_pad, within the image and its padding.
func averagePool[T floating](c *Invocation) (Run, error) {
	v, err := c.PoolWindow()
	if err != nil {
		return nil, err
	}
	taps := countedBy(v, c)
	x, out := c.In[0], c.Out[0]
	if p := poolOf(v, c); x.Type == graph.Float32 && p.MaskLen() > 0 {
		return averagePoolPlanes(c, v, p, taps), nil
	}
	if x.Type == graph.Float32 && byRows(v) {
		return averagePoolRows(c, v, taps), nil
	}
	part := func(p, _ int) {
		in := span[T](element[T](x, p*v.Inputs()), v.Inputs())
		d := span[T](element[T](out, p*v.Outputs()), v.Outputs())
		m := c.Meter()
		eachReached(v, func(o int, t *reached) {
			sum := T(0)
			t.rows(v, &m, func(row, from, to int) {
				for iw := from; iw < to; iw++ {
					sum += in[row+iw*v.Dilation[2]]
				}
			})
			n := T(taps(0, o/v.Out[2]/v.Out[1])) * T(taps(1, o/v.Out[2]%v.Out[1])) * T(taps(2, o%v.Out[2]))
			d[o] = sum / max(n, 1)
		})
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}, nil
}

// countedBy returns the number of taps along an axis that count for an AveragePool at output
// position o.
func countedBy(v *form.Window, c *Invocation) func(a, o int) int {
	include := c.Int("count_include_pad", 0) != 0
	return func(a, o int) int {
		start, from, to := v.Reach(a, o)
		if include {
			return min(v.Kernel[a], max(0, cuts(v.In[a]+v.After[a]-start, v.Dilation[a])))
		}
		return to - from
	}
}

// power is the attribute p of a norm, which is a float in opset 1.
func (c *Invocation) power() float64 {
	if a := c.Node.Attr("p"); a != nil && a.Type == graph.AttrFloat {
		return float64(a.Float)
	}
	return float64(c.Int("p", 2))
}

func makeLpPool(c *Invocation) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return lpPool[float32](c)
	case graph.Float64:
		return lpPool[float64](c)
	}
	return nil, unsupported(c.In[0].Type)
}

func lpPool[T floating](c *Invocation) (Run, error) {
	v, err := c.PoolWindow()
	if err != nil {
		return nil, err
	}
	x, out, p := c.In[0], c.Out[0], c.power()
	part := func(plane, _ int) {
		in := span[T](element[T](x, plane*v.Inputs()), v.Inputs())
		d := span[T](element[T](out, plane*v.Outputs()), v.Outputs())
		m := c.Meter()
		eachReached(v, func(o int, t *reached) {
			sum := 0.0
			t.rows(v, &m, func(row, from, to int) {
				if p == 2 { // with the same bits as a power
					for iw := from; iw < to; iw++ {
						y := float64(in[row+iw*v.Dilation[2]])
						sum += float64(y * y)
					}
					return
				}
				for iw := from; iw < to; iw++ {
					sum += math.Pow(math.Abs(float64(in[row+iw*v.Dilation[2]])), p)
				}
			})
			if p == 2 {
				d[o] = T(math.Sqrt(sum))
			} else {
				d[o] = T(math.Pow(sum, 1/p))
			}
		})
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}, nil
}

// global makes the kernel that applies a function to whole planes.
func global(f func(m *form.Meter, plane planeReader, n int) float64) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return globalPool[float32](c, f)
		case graph.Float64:
			return globalPool[float64](c, f)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

// planeReader returns element i of a plane.
type planeReader func(i int) float64

func globalPool[T floating](c *Invocation, f func(*form.Meter, planeReader, int) float64) (Run, error) {
	x, out := c.In[0], c.Out[0]
	n := count(x.Shape[2:])
	part := func(p, _ int) {
		in := span[T](element[T](x, p*n), n)
		m := c.Meter()
		data[T](out)[p] = T(f(&m, func(i int) float64 { return float64(in[i]) }, n))
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}, nil
}

// makeGlobalAveragePool adds up float32 with vector instructions.
func makeGlobalAveragePool(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NCHW16c {
		return makeBlocksGlobalAveragePool(c)
	}
	x, out := c.In[0], c.Out[0]
	if x.Type != graph.Float32 {
		return global(average)(c)
	}
	n := count(x.Shape[2:])
	part := func(p, _ int) {
		data[float32](out)[p] = float32(sumOf(c, span[float32](element[float32](x, p*n), n)) / float64(n))
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}, nil
}

// makeGlobalMaxPool compares float32 with vector instructions.
func makeGlobalMaxPool(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NCHW16c {
		return makeBlocksGlobalMaxPool(c)
	}
	x, out := c.In[0], c.Out[0]
	if x.Type != graph.Float32 {
		return global(largest)(c)
	}
	n := count(x.Shape[2:])
	part := func(p, _ int) {
		in, best := span[float32](element[float32](x, p*n), n), float32(math.Inf(-1))
		for from, to := range c.Pieces(n) {
			best = max(best, simd.Highest(in[from:to]))
		}
		data[float32](out)[p] = best
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}, nil
}

func average(m *form.Meter, plane planeReader, n int) float64 {
	sum := 0.0
	for i := range n {
		m.Add(1)
		sum += plane(i)
	}
	return sum / float64(n)
}

func largest(m *form.Meter, plane planeReader, n int) float64 {
	best := math.Inf(-1)
	for i := range n {
		m.Add(1)
		best = max(best, plane(i))
	}
	return best
}

func makeGlobalLpPool(c *Invocation) (Run, error) {
	p := c.power()
	return global(func(m *form.Meter, plane planeReader, n int) float64 {
		sum := 0.0
		for i := range n {
			m.Add(1)
			sum += math.Pow(math.Abs(plane(i)), p)
		}
		return math.Pow(sum, 1/p)
	})(c)
}

// makeMaxUnpool puts elements where MaxPool took them from. The places count
// elements of the image that the window alone would give; the image that
// output_shape asks for may be larger.
func makeMaxUnpool(c *Invocation) (Run, error) {
	x, places, out := c.In[0], c.In[1], c.Out[0]
	width, err := form.WholeBytes(x)
	if err != nil {
		return nil, err
	}
	v, err := attr.ReadPool(c.Node)
	if err != nil {
		return nil, err
	}
	shape := slices.Clone(x.Shape)
	for i, k := range v.Kernel {
		shape[2+i] = int(v.TransposedLen(i, int64(x.Shape[2+i])*v.Stride[i]+int64(k)))
	}
	return func(*work.Pool) error {
		c.Clear(raw(out))
		for i, p := range data[int64](places) {
			if i&form.Often == 0 {
				c.Poll()
			}
			at, step, rest := 0, 1, int(p)
			for a := len(shape) - 1; a >= 0 && p >= 0; a-- {
				k := rest % max(shape[a], 1)
				if a == 0 {
					k = rest
				}
				if k >= out.Shape[a] {
					p = -1
				}
				rest /= max(shape[a], 1)
				at += k * step
				step *= out.Shape[a]
			}
			if p < 0 {
				return fmt.Errorf("place %d, expected one of an image of %v", data[int64](places)[i], out.Shape)
			}
			moveRow(elementAt(out, at, width), elementAt(x, i, width), 1, 1, 1, width)
		}
		return nil
	}, nil
}
