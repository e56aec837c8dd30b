package gemm

import (
	"math"
	"unsafe"
)

// Depthwise is the convolution, or the largest element under the kernel, of a single
// channel. It copies the image once, with padding, into one plane for each residue of the
// strides. A row of a plane has the length of an output row plus
// (kernel-1)·dilation/stride. Whatever the strides and dilations, the elements that a tap
// reads for a band of output rows are then contiguous, across rows, too, so all outputs of
// the band are computed at once. That includes the elements between two rows, which are
// computed and not copied. With a table, it reads most images in place (see TableLen).
type Depthwise struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int // as in Image
	Largest                                bool   // in place of the weighted sum; NaN if one is NaN
	Act                                    Activation
	Low, High                              float32 // of Clip
	Stop                                   Stopper // nil: never
	Bytes                                  bool    // elements are bytes: only with a table, for BytePlane

	table    *table    // nil: planes are copied
	division *division // nil: not as Divide says
}

const (
	mostTaps      = 128     // enough for 11 x 11
	mostDepthwise = 4 << 20 // bytes of scratch
	bandLen       = 2048    // outputs that are computed at once, and stay in the cache
)

// length and rows are the length and the number of the rows of a plane.
func (d *Depthwise) length() int { return d.Out[2] + (d.Kernel[2]-1)*d.Dilation[2]/d.Stride[2] }
func (d *Depthwise) rows() int   { return d.Out[1] + (d.Kernel[1]-1)*d.Dilation[1]/d.Stride[1] }

// planeLen is the length of a plane, with room for the zeros behind its last row.
func (d *Depthwise) planeLen() int { return d.rows()*d.length() + 8 }

// band is the number of output rows that are computed at once.
func (d *Depthwise) band() int { return min(d.Out[1], max(1, bandLen/d.length())) }

// bandFloats is the size of a band's outputs, in whole vectors.
func (d *Depthwise) bandFloats() int { return (d.band()*d.length() + 7) &^ 7 }

// ScratchBytes is the scratch of each worker, which a table makes superfluous. It is 0 if
// the channel is too large, or if this machine has no vectors: the caller must then use
// another method.
func (d *Depthwise) ScratchBytes() int {
	taps := d.Kernel[0] * d.Kernel[1] * d.Kernel[2]
	if chosen == plain || taps > mostTaps || d.Stride[1] > 8 || d.Stride[2] > 8 || d.length() > mostDepthwise/64 || d.rows() > mostDepthwise/64 {
		return 0
	}
	planes := d.Stride[1] * d.Stride[2]
	if d.In[0] > mostDepthwise/4/d.planeLen()/planes {
		return 0
	}
	return 4 * (d.In[0]*planes*d.planeLen() + 16 + d.bandFloats())
}

// Plane computes one channel. scratch has ScratchBytes bytes. weights are not read for
// the largest element.
func (d *Depthwise) Plane(out, in, weights unsafe.Pointer, bias float32, scratch unsafe.Pointer) {
	if d.table != nil {
		d.direct(out, in, weights, bias)
		return
	}
	if d.division != nil {
		d.divide(out, in, weights, bias, scratch)
		return
	}
	sums := unsafe.Slice((*float32)(scratch), d.bandFloats())
	planes := unsafe.Add(scratch, 4*d.bandFloats())
	d.spread(in, planes)
	var (
		from  [mostTaps]uintptr
		taken [mostTaps]float32
	)
	clamp, low, high := d.clamp()
	length, size, band := d.length(), d.planeLen(), d.band()
	sh, sw := d.Stride[1], d.Stride[2]
	for od := range d.Out[0] {
		n := 0
		for kd := range d.Kernel[0] {
			id := od*d.Stride[0] - d.Pad[0] + kd*d.Dilation[0]
			if uint(id) >= uint(d.In[0]) {
				continue
			}
			layer := unsafe.Add(planes, 4*id*sh*sw*size)
			for kh := range d.Kernel[1] {
				for kw := range d.Kernel[2] {
					from[n] = uintptr(d.under(layer, kh, kw, size, length))
					if !d.Largest {
						taken[n] = *float(weights, 4*((kd*d.Kernel[1]+kh)*d.Kernel[2]+kw))
					}
					n++
				}
			}
		}
		for oh := 0; oh < d.Out[1]; oh += band {
			if d.Stop != nil && d.Stop.Stopping() {
				return
			}
			rows := min(band, d.Out[1]-oh)
			// The last row of a band ends with its last output.
			whole := (rows*length - (length - d.Out[2]) + 7) &^ 7
			switch {
			case n == 0:
				if d.Largest {
					bias = d.padding()
				}
				if clamp != 0 {
					bias = min(max(bias, low)+0, high)
				}
				for i := range sums {
					sums[i] = bias
				}
			case d.Largest:
				largest(&sums[0], whole, &from[0], n)
			default:
				weigh(&sums[0], whole, &from[0], &taken[0], n, clamp, bias, low, high)
			}
			unspread(unsafe.Add(out, 4*(od*d.Out[1]+oh)*d.Out[2]), scratch, rows, d.Out[2], length)
			for t := range n {
				from[t] += uintptr(4 * rows * length)
			}
		}
	}
}

// ByteChannel is the convolution of one channel of bytes: the sum of the weights times the
// numbers less Pad, plus Bias, modulo 2³². Its product with Scale is kept in [Low, High],
// rounded to even, and Zero is added.
type ByteChannel struct {
	Weights          []uint32 // int16 in the lower half
	Signed           bool     // the image
	Pad              int32    // the zero point of the image, which surrounds it
	Bias             int32
	Scale, Low, High float32
	Zero             int32 // of the output
}

// sum is what is added to the sum of the weights times the numbers.
func (c *ByteChannel) sum() int32 {
	sum := int32(0)
	for _, w := range c.Weights {
		sum += int32(int16(w))
	}
	return c.Bias - c.Pad*sum
}

// BytePlane computes one channel of a Depthwise with Bytes and a table.
func (d *Depthwise) BytePlane(out, in unsafe.Pointer, c *ByteChannel) { d.directBytes(out, in, c) }

// under is the first element that a position of the kernel reads, in the copies of one layer
// that spread has made: planes of the given size, with rows of the given length.
func (d *Depthwise) under(layer unsafe.Pointer, kh, kw, size, length int) unsafe.Pointer {
	row, h := split(kh*d.Dilation[1], d.Stride[1])
	column, w := split(kw*d.Dilation[2], d.Stride[2])
	return unsafe.Add(layer, 4*((h*d.Stride[2]+w)*size+row*length+column))
}

// split divides a position by a stride. Most strides need no division, which is slow for
// the many small planes of the last layers.
func split(x, stride int) (quotient, residue int) {
	switch stride {
	case 1:
		return x, 0
	case 2:
		return x >> 1, x & 1
	}
	return x / stride, x % stride
}

// clamp returns the activation in the form that weigh takes.
func (d *Depthwise) clamp() (is int, low, high float32) {
	switch d.Act {
	case Relu:
		return 1, 0, float32(math.Inf(1))
	case Clip:
		return 1, d.Low, d.High
	}
	return 0, 0, 0
}

// spread copies the image into the planes, one for each residue.
func (d *Depthwise) spread(in, planes unsafe.Pointer) {
	length, rows, size := d.length(), d.rows(), d.planeLen()
	sh, sw, width := d.Stride[1], d.Stride[2], d.In[2]
	for id := range d.In[0] {
		for h := range sh {
			// The rows of the plane, and below its columns, that lie in the image.
			top, bottom := within(d.Pad[1]-h, sh, d.In[1], rows)
			for w := range sw {
				plane := unsafe.Add(planes, 4*((id*sh+h)*sw+w)*size)
				from, to := within(d.Pad[2]-w, sw, width, length)
				if top < bottom {
					first := unsafe.Add(in, 4*(id*d.In[1]+top*sh+h-d.Pad[1])*width)
					spreadPlane(unsafe.Add(plane, 4*top*length), first, bottom-top, length, sh*width, w-d.Pad[2], sw, from, to)
				}
				if top < bottom && d.Largest {
					for r := top; r < bottom; r++ {
						row := unsafe.Slice(float(plane, 4*r*length), length)
						d.pad(row[:from])
						d.pad(row[to:])
					}
				}
				d.pad(unsafe.Slice((*float32)(plane), top*length))
				d.pad(unsafe.Slice(float(plane, 4*bottom*length), size-bottom*length))
			}
		}
	}
}

// padding is what lies outside of the image.
func (d *Depthwise) padding() float32 {
	if d.Largest {
		return float32(math.Inf(-1))
	}
	return 0
}

// pad fills a part of a plane that lies outside of the image.
func (d *Depthwise) pad(row []float32) {
	if !d.Largest {
		clear(row)
		return
	}
	for i := range row {
		row[i] = d.padding()
	}
}

// within returns the range of i in [0, n) for which i·s - pad lies in [0, length).
func within(pad, s, length, n int) (from, to int) {
	if pad > 0 {
		from = min(cuts(pad, s), n)
	}
	return from, max(from, min(cuts(length+pad, s), n))
}
