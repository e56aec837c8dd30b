package reference

import "slices"

var convOperators = []operator{
	{"Conv", conv},
	{"ConvTranspose", convTranspose},
}

// window is how a kernel moves over the spatial axes.
type window struct {
	kernel, strides, dilations, begin, end []int
}

// window reads the attributes; in is the lengths of the input's spatial axes.
func (c *call) window(in, kernel []int) window {
	n := len(kernel)
	w := window{kernel: kernel, strides: c.ints("strides", filled(1, n)), dilations: c.ints("dilations", filled(1, n))}
	pads := c.ints("pads", filled(0, 2*n))
	w.begin, w.end = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	auto := c.str("auto_pad", "NOTSET")
	for k := range n {
		switch auto {
		case "VALID":
			w.begin[k], w.end[k] = 0, 0
		case "SAME_UPPER", "SAME_LOWER":
			out := (in[k] + w.strides[k] - 1) / w.strides[k]
			total := max((out-1)*w.strides[k]+w.reach(k)-in[k], 0)
			w.begin[k], w.end[k] = total/2, total-total/2
			if auto == "SAME_LOWER" {
				w.begin[k], w.end[k] = w.end[k], w.begin[k]
			}
		}
	}
	return w
}

// reach is how many elements lie between a window's first and its last, both
// included.
func (w window) reach(k int) int { return (w.kernel[k]-1)*w.dilations[k] + 1 }

// out is the number of windows along each axis.
func (w window) out(in []int, ceil bool) []int {
	out := make([]int, len(in))
	for k, n := range in {
		room := n + w.begin[k] + w.end[k] - w.reach(k)
		out[k] = room/w.strides[k] + 1
		if ceil && room%w.strides[k] != 0 {
			// No window begins in the padding at the end.
			if out[k]*w.strides[k] < n+w.begin[k] {
				out[k]++
			}
		}
	}
	return out
}

// source is where element e of the window at o lies, and whether inside.
func (w window) source(in, o, e []int) ([]int, bool) {
	at, inside := make([]int, len(in)), true
	for k := range in {
		at[k] = o[k]*w.strides[k] - w.begin[k] + e[k]*w.dilations[k]
		inside = inside && at[k] >= 0 && at[k] < in[k]
	}
	return at, inside
}

func conv(c *call) []*Tensor {
	x, weights := c.x(0), c.x(1)
	group := c.int("group", 1)
	in := x.Shape[2:]
	w := c.window(in, weights.Shape[2:])
	out := w.out(in, false)
	y := zeros(x.Type, slices.Concat([]int{x.Shape[0], weights.Shape[0]}, out))
	perGroup, part := weights.Shape[0]/group, weights.Shape[1]
	each(y.Shape, func(at []int) {
		n, m, o := at[0], at[1], at[2:]
		total := 0.0
		if c.x(2) != nil {
			total = c.x(2).real(m)
		}
		for ch := range part {
			each(w.kernel, func(e []int) {
				if src, inside := w.source(in, o, e); inside {
					i := index(x.Shape, slices.Concat([]int{n, m/perGroup*part + ch}, src))
					j := index(weights.Shape, slices.Concat([]int{m, ch}, e))
					total += x.F[i] * weights.F[j]
				}
			})
		}
		y.F[index(y.Shape, at)] = total
	})
	return one(y)
}

// convTranspose adds each input element, times the kernel, to what a convolution
// of the result would have read for it.
func convTranspose(c *call) []*Tensor {
	x, weights := c.x(0), c.x(1)
	group, in := c.int("group", 1), x.Shape[2:]
	n := len(in)
	w := c.window(in, weights.Shape[2:])
	extra := c.ints("output_padding", filled(0, n))
	out := make([]int, n)
	auto := c.str("auto_pad", "NOTSET")
	shape := c.ints("output_shape", nil)
	if len(shape) > n {
		shape = shape[2:]
	}
	for k := range n {
		full := w.strides[k]*(in[k]-1) + extra[k] + w.reach(k)
		switch {
		case shape != nil || auto == "SAME_UPPER" || auto == "SAME_LOWER":
			out[k] = in[k] * w.strides[k]
			if shape != nil {
				out[k] = shape[k]
			}
			total := max(full-out[k], 0)
			w.begin[k], w.end[k] = total-total/2, total/2
			if auto == "SAME_UPPER" {
				w.begin[k], w.end[k] = total/2, total-total/2
			}
		default:
			out[k] = full - w.begin[k] - w.end[k]
		}
	}
	part := weights.Shape[1]
	perGroup := x.Shape[1] / group
	y := zeros(x.Type, slices.Concat([]int{x.Shape[0], part * group}, out))
	if c.x(2) != nil {
		y = c.x(2).shaped(append([]int{1, part * group}, filled(1, n)...)...).spread(y.Shape)
	}
	each(x.Shape, func(at []int) {
		v := x.F[index(x.Shape, at)]
		for m := range part {
			each(w.kernel, func(e []int) {
				if to, inside := w.source(out, at[2:], e); inside {
					i := index(y.Shape, slices.Concat([]int{at[0], at[1]/perGroup*part + m}, to))
					y.F[i] += v * weights.F[index(weights.Shape, slices.Concat([]int{at[1], m}, e))]
				}
			})
		}
	})
	return one(y)
}
