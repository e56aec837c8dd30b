package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// poolRules are the rules of the pools.
var poolRules = []Rule{
	{Op: "MaxPool", Suffixes: []string{1: ".indices"}, Grad: maxPoolGrad},
	{Op: "AveragePool", Fused: true, Grad: averagePoolGrad},
	{Op: "GlobalAveragePool", Grad: globalAveragePoolGrad},
	{Op: "GlobalMaxPool", Grad: globalMaxPoolGrad},
	{Op: "LpPool", Fused: true, Grad: lpPoolGrad},
	{Op: "GlobalLpPool", Grad: globalLpPoolGrad},
	{Op: "MaxUnpool", Inputs: []int{0}, Grad: maxUnpoolGrad},
}

// maxPoolGrad adds d to zeros at the indices of the maxima; windows that overlap
// add up. A Relu before the pool passes no gradient where the maximum is 0.
func maxPoolGrad(c *Backward) {
	if c.Int("storage_order", 0) != 0 {
		c.Failf("storage_order is 1: expected 0")
		return
	}
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	d := c.D(0)
	if c.Int(reluAttr, 0) != 0 {
		d = c.throughRelu(c.Y(0))
	}
	if area := elements(x[2:]); c.saves(savingPool) && area <= math.MaxInt32 {
		planes := x[0] * x[1]
		a := attrs{"axis": 1, "reduction": "add"}
		w := c.poolWindow(x[2:], y[2:])
		if c.err != nil {
			return
		}
		at := c.maximaInPlane(w, x, y)
		d = c.with("ScatterElements", a, c.zeros(c.X(0), planes, area), at, c.reshape(d, []int64{planes, elements(y[2:])}))
		c.Set(0, c.reshape(d, x))
		return
	}
	// The indices are flat over the whole tensor, so one axis is enough.
	flat := []int64{elements(y)}
	at := c.reshape(c.Y(1), flat)
	a := attrs{"axis": 0, "reduction": "add"}
	d = c.with("ScatterElements", a, c.zeros(c.X(0), elements(x)), at, c.reshape(d, flat))
	c.Set(0, c.reshape(d, x))
}

// maximaInPlane returns the index of each maximum in its plane of x, int32. From the forward
// to the backward pass it keeps the distance of each maximum from the first element of its
// window, in the narrowest type that holds it. That is one byte for windows of 3 in planes
// 127 wide or of 2 in planes 254 wide, usually two otherwise. MaxPool's own indices take
// eight.
func (c *Backward) maximaInPlane(w window, x, y []int64) ID {
	spatial := len(w.Kernel)
	area, reach := elements(x[2:]), int64(0)
	first := make([]ID, spatial) // along each axis: where in the plane the windows begin
	stride := int64(1)
	for i := spatial - 1; i >= 0; i-- {
		begin := make([]float64, y[2+i])
		for o := range begin {
			begin[o] = float64((int64(o)*w.Stride[i] - w.Before[i]) * stride)
		}
		first[i] = c.reals(graph.Int32, concat(y[2+i:3+i], filled(1, spatial-1-i)), begin)
		reach += (w.Reach(i) - 1) * stride
		stride *= x[2+i]
	}
	narrow := graph.Int32
	switch {
	case reach <= math.MaxUint8:
		narrow = graph.Uint8
	case reach <= math.MaxUint16:
		narrow = graph.Uint16
	}
	planes := x[0] * x[1]
	at := c.castTo(c.op("Mod", c.Y(1), c.index(area)), graph.Int32)
	if narrow != graph.Int32 {
		at = c.reshape(at, concat([]int64{planes}, y[2:]))
		for _, f := range first {
			at = c.sub(at, f)
		}
		at = c.castTo(c.castTo(at, narrow), graph.Int32)
		for _, f := range first {
			at = c.add(at, f)
		}
	}
	return c.reshape(at, []int64{planes, elements(y[2:])})
}

// averagePoolGrad divides d by the number of elements of each average and adds it
// to all of them.
func averagePoolGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	w := c.poolWindow(x[2:], y[2:])
	if c.err != nil {
		return
	}
	c.Set(0, c.spreadOverWindows(w, c.div(c.D(0), c.averageCounts(w, x[2:], y[2:])), x))
}

// spreadOverWindows adds each element of d to all elements that its window covers in a
// tensor of shape x: a transposed convolution of each channel with a kernel of ones.
func (c *Backward) spreadOverWindows(w window, d ID, x []int64) ID {
	y := c.shape(d)
	if c.err != nil {
		return graph.None
	}
	// The last window may reach beyond the padding (ceil_mode).
	w.group, w.After = 1, slices.Clone(w.After)
	for i := range w.After {
		w.After[i] = max(w.After[i], (y[2+i]-1)*w.Stride[i]+w.Reach(i)-w.Before[i]-x[2+i])
	}
	kernel := w.KernelShape()
	ones := c.reals(c.typeOf(d).Elem, concat([]int64{1, 1}, kernel), filledReals(1, elements(kernel)))
	d = c.reshape(d, concat([]int64{x[0] * x[1], 1}, y[2:]))
	return c.reshape(c.transposedConv(w, d, ones, x[2:]), x)
}

// lpPoolGrad: y is the p-th root of a sum of p-th powers, so that the gradient is
// sign(x)·|x|^(p-1) times d·y^(1-p), spread; 0 where y is 0.
func lpPoolGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	w := c.poolWindow(x[2:], y[2:])
	if c.err != nil {
		return
	}
	p := float64(c.Int("p", 2))
	c.Set(0, c.mul(c.rootSlope(p), c.spreadOverWindows(w, c.rootShare(p), x)))
}

// globalLpPoolGrad is lpPoolGrad for a single window.
func globalLpPoolGrad(c *Backward) {
	p := float64(c.Int("p", 2))
	c.Set(0, c.expand(c.mul(c.rootSlope(p), c.rootShare(p)), c.shape(c.X(0))))
}

// rootSlope is sign(x)·|x|^(p-1).
func (c *Backward) rootSlope(p float64) ID {
	switch p {
	case 1:
		return c.op("Sign", c.X(0))
	case 2:
		return c.X(0)
	}
	return c.mul(c.op("Sign", c.X(0)), c.op("Pow", c.op("Abs", c.X(0)), c.scalar(c.X(0), p-1)))
}

// rootShare is d·y^(1-p), 0 where y is 0.
func (c *Backward) rootShare(p float64) ID {
	y, d := c.Y(0), c.D(0)
	zero := c.scalar(y, 0)
	switch p {
	case 1:
		return d
	case 2:
		d = c.div(d, y)
	default:
		d = c.mul(d, c.op("Pow", y, c.scalar(y, 1-p)))
	}
	return c.where(c.op("Equal", y, zero), zero, d)
}

// maxUnpoolGrad reads the gradient where the elements were put. The indices are
// flat over the whole output.
func maxUnpoolGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	if c.present(c.X(2)) { // the indices are for the shape that the pool read
		c.Failf("input 2 (output_shape) is stated: expected the shape that the attributes give")
		return
	}
	c.Set(0, c.reshape(c.op("Gather", c.reshape(c.D(0), []int64{elements(y)}), c.X(1)), x))
}

// averageCounts is the number of elements of each average: one number, or a map if
// windows at the borders have fewer elements.
func (c *Backward) averageCounts(w window, in, out []int64) ID {
	padded := c.Int("count_include_pad", 0) != 0
	total := []float64{1}
	same := true
	for i := range in {
		line := make([]float64, out[i])
		low, high := int64(0), in[i]
		if padded {
			low, high = -w.Before[i], in[i]+w.After[i]
		}
		for o := range line {
			for k := range int64(w.Kernel[i]) {
				if at := int64(o)*w.Stride[i] - w.Before[i] + k*w.Dilation[i]; at >= low && at < high {
					line[o]++
				}
			}
			same = same && line[o] == line[0]
		}
		next := make([]float64, 0, len(total)*len(line))
		for _, t := range total {
			for _, l := range line {
				next = append(next, t*l)
			}
		}
		total = next
	}
	elem := c.typeOf(c.D(0)).Elem
	if same && len(total) > 0 {
		return c.reals(elem, nil, total[:1])
	}
	return c.reals(elem, out, total)
}

func filledReals(v float64, n int64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func globalAveragePoolGrad(c *Backward) {
	x := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	c.Set(0, c.expand(c.times(c.D(0), 1/float64(elements(x[2:]))), x))
}

// globalMaxPoolGrad passes the gradient to the first of equal maxima, as PyTorch's pools
// do.
func globalMaxPoolGrad(c *Backward) {
	shape := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	flat := []int64{shape[0], shape[1], elements(shape[2:])}
	first := c.with("ArgMax", attrs{"axis": 2}, c.reshape(c.X(0), flat))
	d := c.reshape(c.D(0), []int64{shape[0], shape[1], 1})
	c.Set(0, c.reshape(c.with("ScatterElements", attrs{"axis": 2}, c.zeros(c.X(0), flat...), first, d), shape))
}
