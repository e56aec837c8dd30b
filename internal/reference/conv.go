package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// convOperators slide a kernel of weights over an image.
var convOperators = []operator{
	{"Conv", conv},
	{"ConvTranspose", convTranspose},
	{"DeformConv", deformConv},
	{"Col2Im", col2Im},
}

// window describes how a kernel moves over the spatial axes.
type window struct {
	kernel, strides, dilations, begin, end []int
}

// window reads the attributes; in holds the lengths of the input's spatial axes.
func (c *evaluation) window(in, kernel []int) window {
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

// reach returns the number of elements from a window's first to its last element, both
// included.
func (w window) reach(k int) int { return (w.kernel[k]-1)*w.dilations[k] + 1 }

// out returns the number of windows along each axis. With ceil, a window may extend
// beyond the end, but none begins in the padding at the end.
func (w window) out(in []int, ceil bool) []int {
	out := make([]int, len(in))
	for k, n := range in {
		room := n + w.begin[k] + w.end[k] - w.reach(k)
		if room < 0 {
			fail("a window of %d elements along an axis of %d", w.reach(k), n+w.begin[k]+w.end[k])
		}
		out[k] = room/w.strides[k] + 1
		if ceil {
			out[k] = (room+w.strides[k]-1)/w.strides[k] + 1
			if (out[k]-1)*w.strides[k] >= n+w.begin[k] {
				out[k]--
			}
		}
	}
	return out
}

// slide visits the outputs for which element e of the kernel lies inside the input, in
// runs along the last axis: n outputs beginning at index to, which read the inputs at
// from, from+step, and so on.
func (w window) slide(in, out, e []int, visit func(to, from, n, step int)) {
	last := len(in) - 1
	first, end := make([]int, len(in)), make([]int, len(in))
	for k := range in {
		shift := e[k]*w.dilations[k] - w.begin[k]
		for first[k] < out[k] && first[k]*w.strides[k]+shift < 0 {
			first[k]++
		}
		for end[k] = first[k]; end[k] < out[k] && end[k]*w.strides[k]+shift < in[k]; {
			end[k]++
		}
		if first[k] == end[k] {
			return
		}
	}
	lengths := make([]int, last)
	for k := range lengths {
		lengths[k] = end[k] - first[k]
	}
	each(lengths, func(at []int) {
		to, from := 0, 0
		for k := range in {
			o := first[k]
			if k < last {
				o += at[k]
			}
			to = to*out[k] + o
			from = from*in[k] + o*w.strides[k] - w.begin[k] + e[k]*w.dilations[k]
		}
		visit(to, from, end[last]-first[last], w.strides[last])
	})
}

// terms are sums of products, and of their absolute values.
type terms struct{ sum, mass []float64 }

// add adds to n sums, at to, to+step and so on, the products of up to four factors with
// the elements of as many lists, at from, from+stride and so on. It takes four at a
// time because most of the time goes into reading and writing the sums.
func (t *terms) add(to, step int, v []float64, from, stride, n int, list func(int) []float64) {
	if n == 0 {
		return
	}
	if len(v) == 4 {
		last := from + (n-1)*stride + 1
		a, b, c, d := list(0)[from:last], list(1)[from:last], list(2)[from:last], list(3)[from:last]
		v0, v1, v2, v3 := v[0], v[1], v[2], v[3]
		for i, k := 0, to; i < len(a) && i < len(b) && i < len(c) && i < len(d); i, k = i+stride, k+step {
			p, q, r, s := v0*a[i], v1*b[i], v2*c[i], v3*d[i]
			t.sum[k] += p + q + r + s
			t.mass[k] += math.Abs(p) + math.Abs(q) + math.Abs(r) + math.Abs(s)
		}
		return
	}
	for l, w := range v {
		a := list(l)[from:]
		for i := range n {
			p := w * a[i*stride]
			t.sum[to+i*step] += p
			t.mass[to+i*step] += math.Abs(p)
		}
	}
}

// turned returns the window whose elements are the results of w, and whose results are the
// elements of w: element e of result o reads the input at o*stride + e*dilation - begin.
func (w window) turned(out []int) window {
	return window{kernel: out, strides: w.dilations, dilations: w.strides, begin: w.begin, end: w.end}
}

// dot adds to one sum, at to, the products of n factors with elements of a list that are
// stride apart.
func (t *terms) dot(to int, v, list []float64, stride, n int) {
	sum, mass := 0.0, 0.0
	for i, k := 0, 0; i < n; i, k = i+1, k+stride {
		p := v[i] * list[k]
		sum += p
		mass += math.Abs(p)
	}
	t.sum[to] += sum
	t.mass[to] += mass
}

// convolved returns a convolution; mass is the convolution of the absolute values.
func (c *evaluation) convolved(x, weights *Tensor, bias []float64) (y *Tensor, mass []float64) {
	group, in := c.int("group", 1), x.Shape[2:]
	w := c.window(in, weights.Shape[2:])
	out := w.out(in, false)
	y = zeros(graph.Float64, slices.Concat([]int{x.Shape[0], weights.Shape[0]}, out))
	mass = make([]float64, len(y.F))
	channels, part := weights.Shape[0], weights.Shape[1]
	perGroup := channels / group
	parallel(x.Shape[0]*channels, func(plane int) {
		n, m := plane/channels, plane%channels
		yy, mm := y.F[plane*size(out):][:size(out)], mass[plane*size(out):][:size(out)]
		if bias != nil {
			for i := range yy {
				yy[i], mm[i] = bias[m], math.Abs(bias[m])
			}
		}
		sums, taps := terms{yy, mm}, size(w.kernel)
		if taps > size(out) { // as in the gradient of weights: the long runs are those of the kernel
			turned := w.turned(out)
			for ch := range part {
				v, image := weights.F[(m*part+ch)*taps:], x.F[(n*x.Shape[1]+m/perGroup*part+ch)*size(in):]
				to := 0
				each(out, func(o []int) {
					turned.slide(in, w.kernel, o, func(e, from, n, step int) {
						sums.dot(to, v[e:], image[from:], step, n)
					})
					to++
				})
			}
			return
		}
		for ch := 0; ch < part; ch += 4 {
			first := (n*x.Shape[1] + m/perGroup*part + ch) * size(in)
			tap := 0
			each(w.kernel, func(e []int) {
				var v []float64
				for i := ch; i < min(ch+4, part); i++ {
					v = append(v, weights.F[(m*part+i)*taps+tap])
				}
				tap++
				w.slide(in, out, e, func(to, from, n, step int) {
					sums.add(to, 1, v, from, step, n, func(i int) []float64 { return x.F[first+i*size(in):] })
				})
			})
		}
	})
	return y, mass
}

func conv(c *evaluation) []*Tensor {
	var bias []float64
	if c.x(2) != nil {
		bias = c.x(2).F
	}
	y, mass := c.convolved(c.x(0), c.x(1), bias)
	y.Type = c.x(0).Type
	c.sums(0, mass, size(c.x(1).Shape[1:])+1)
	return one(y)
}

// convTranspose adds each input element, times the kernel, to the elements of the result
// that a convolution of the result would read for it.
func convTranspose(c *evaluation) []*Tensor {
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
	part, channels := weights.Shape[1], x.Shape[1]
	perGroup := channels / group
	y := zeros(x.Type, slices.Concat([]int{x.Shape[0], part * group}, out))
	mass := make([]float64, len(y.F))
	parallel(x.Shape[0]*part*group, func(plane int) {
		n, g, m := plane/(part*group), plane%(part*group)/part, plane%part
		yy, mm := y.F[plane*size(out):][:size(out)], mass[plane*size(out):][:size(out)]
		if c.x(2) != nil {
			v := c.x(2).F[g*part+m]
			for i := range yy {
				yy[i], mm[i] = v, math.Abs(v)
			}
		}
		sums, taps := terms{yy, mm}, size(w.kernel)
		for ch := g * perGroup; ch < (g+1)*perGroup; ch += 4 {
			first := (n*channels + ch) * size(in)
			tap := 0
			each(w.kernel, func(e []int) {
				var v []float64
				for i := ch; i < min(ch+4, (g+1)*perGroup); i++ {
					v = append(v, weights.F[(i*part+m)*taps+tap])
				}
				tap++
				w.slide(out, in, e, func(from, to, n, step int) {
					sums.add(to, step, v, from, 1, n, func(i int) []float64 { return x.F[first+i*size(in):] })
				})
			})
		}
	})
	c.sums(0, mass, perGroup*size(w.kernel)+1)
	return one(y)
}

// deformConv shifts each element of each window by an offset, which may be fractional,
// and weights it. It interpolates between elements and pads the image with zeros.
func deformConv(c *evaluation) []*Tensor {
	x, weights, shifts, weighs := c.x(0), c.x(1), c.x(2), c.x(4)
	if len(x.Shape) != 4 {
		fail("%d axes", len(x.Shape))
	}
	group, parts := c.int("group", 1), c.int("offset_group", 1)
	w := c.window(x.Shape[2:], weights.Shape[2:])
	out := w.out(x.Shape[2:], false)
	y := zeros(x.Type, []int{x.Shape[0], weights.Shape[0], out[0], out[1]})
	mass := make([]float64, len(y.F))
	channels, taps := x.Shape[1], size(w.kernel)
	h, width := x.Shape[2], x.Shape[3]
	parallel(x.Shape[0]*weights.Shape[0], func(plane int) {
		n, m := plane/weights.Shape[0], plane%weights.Shape[0]
		i := plane * size(out)
		each(out, func(at []int) {
			total, sum := 0.0, 0.0
			if c.x(3) != nil {
				total = c.x(3).F[m]
				sum = math.Abs(total)
			}
			for l := range weights.Shape[1] {
				ch := m/(weights.Shape[0]/group)*weights.Shape[1] + l
				part := ch / (channels / parts)
				tap := 0
				each(w.kernel, func(e []int) {
					place := func(which int) int {
						return index(shifts.Shape, []int{n, (part*taps+tap)*2 + which, at[0], at[1]})
					}
					row := float64(at[0]*w.strides[0]-w.begin[0]+e[0]*w.dilations[0]) + shifts.F[place(0)]
					column := float64(at[1]*w.strides[1]-w.begin[1]+e[1]*w.dilations[1]) + shifts.F[place(1)]
					factor := weights.F[(m*weights.Shape[1]+l)*taps+tap]
					if weighs != nil {
						factor *= weighs.F[index(weighs.Shape, []int{n, part*taps + tap, at[0], at[1]})]
					}
					r, k := math.Floor(row), math.Floor(column)
					for corner := range 4 {
						rr, kk := r+float64(corner/2), k+float64(corner%2)
						if rr >= 0 && rr < float64(h) && kk >= 0 && kk < float64(width) {
							v := x.F[((n*channels+ch)*h+int(rr))*width+int(kk)]
							total += factor * (1 - math.Abs(row-rr)) * (1 - math.Abs(column-kk)) * v
							// The error of a position is proportional to its distance.
							sum += math.Abs(factor*v) * (1 + math.Abs(row) + math.Abs(column))
						}
					}
					tap++
				})
			}
			y.F[i], mass[i] = total, sum
			i++
		})
	})
	c.sums(0, mass, size(weights.Shape[1:])+1)
	return one(y)
}

// col2Im adds the columns of blocks at the positions of the blocks in the image.
func col2Im(c *evaluation) []*Tensor {
	x, image, block := c.x(0), c.list(1), c.list(2)
	w := c.window(image, block)
	out := w.out(image, false)
	taps, n := size(block), size(out)
	y := zeros(x.Type, slices.Concat([]int{x.Shape[0], x.Shape[1] / taps}, image))
	if x.Shape[2] != n {
		fail("%d blocks, expected %d", x.Shape[2], n)
	}
	mass := make([]float64, len(y.F))
	for plane := range x.Shape[0] * x.Shape[1] / taps {
		tap := 0
		each(block, func(e []int) {
			w.slide(image, out, e, func(from, to, count, step int) {
				for i := range count {
					v := x.F[(plane*taps+tap)*n+from+i]
					y.F[plane*size(image)+to+i*step] += v
					mass[plane*size(image)+to+i*step] += math.Abs(v)
				}
			})
			tap++
		})
	}
	c.sums(0, mass, taps)
	return one(y)
}
