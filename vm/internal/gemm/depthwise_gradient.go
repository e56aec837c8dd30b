package gemm

import (
	"math"
	"unsafe"
)

// The gradients of a Depthwise, with the same copies of the image as Plane: planes that are
// padded, in which all elements that a tap reads are contiguous, across rows, too.

// WeightsBytes is the scratch of each worker for Weights; 0 if it cannot be used.
func (d *Depthwise) WeightsBytes() int {
	if d.ScratchBytes() == 0 || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 {
		return 0
	}
	return 4 * (d.Stride[1]*d.Stride[2]*d.planeLen() + d.Out[1]*d.length() + 2*slack)
}

// slack is the room behind rows that are written in whole vectors.
const slack = 16

// Weights computes the gradient of the weights of one channel, from the image and from the
// gradient of the outputs. A sum that is no finite number is computed again without the
// zeros between the rows. scratch has WeightsBytes bytes.
func (d *Depthwise) Weights(weights, in, out, scratch unsafe.Pointer) {
	length, plane := d.length(), d.planeLen()
	size := d.Stride[1] * d.Stride[2] * plane
	planes, lines := scratch, unsafe.Add(scratch, 4*(size+slack))
	d.spread(in, planes)
	clear(unsafe.Slice(float(planes, 4*size), slack))
	n := (d.Out[1]-1)*length + d.Out[2]
	spreadPlane(lines, out, d.Out[1], length, d.Out[2], 0, 1, 0, d.Out[2])
	whole := (n + 7) &^ 7
	clear(unsafe.Slice(float(lines, 4*n), whole-n))
	at := func(tap int) *float32 {
		return (*float32)(d.under(planes, tap/d.Kernel[2], tap%d.Kernel[2], plane, length))
	}
	taps := d.Kernel[1] * d.Kernel[2]
	var sums [3]float32
	for tap := 0; tap < taps; tap += len(sums) {
		if d.Stop != nil && d.Stop.Stopping() {
			return
		}
		dots(&sums, (*float32)(lines), at(tap), at(min(tap+1, taps-1)), at(min(tap+2, taps-1)), whole)
		for i, sum := range sums[:min(len(sums), taps-tap)] {
			if math.IsNaN(float64(sum)) || math.IsInf(float64(sum), 0) {
				sum = d.weight(tap+i, in, out)
			}
			*float(weights, 4*(tap+i)) = sum
		}
	}
}

// weight computes the gradient of one weight from the elements that its tap reads.
func (d *Depthwise) weight(tap int, in, out unsafe.Pointer) float32 {
	shift := [2]int{tap/d.Kernel[2]*d.Dilation[1] - d.Pad[1], tap%d.Kernel[2]*d.Dilation[2] - d.Pad[2]}
	top, bottom := within(-shift[0], d.Stride[1], d.In[1], d.Out[1])
	left, right := within(-shift[1], d.Stride[2], d.In[2], d.Out[2])
	sum := float32(0)
	for h := top; h < bottom; h++ {
		for w := left; w < right; w++ {
			sum += *float(out, 4*(h*d.Out[2]+w)) * *float(in, 4*((h*d.Stride[1]+shift[0])*d.In[2]+w*d.Stride[2]+shift[1]))
		}
	}
	return sum
}

// behind is the number of elements that the kernel reaches beyond its first one.
func (d *Depthwise) behind(a int) int { return (d.Kernel[a] - 1) * d.Dilation[a] }

// ImageBytes is the scratch of each worker for Image; 0 if it cannot be used.
func (d *Depthwise) ImageBytes() int {
	taps := d.Kernel[1] * d.Kernel[2]
	if chosen == plain || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 || taps > mostTaps {
		return 0
	}
	length, rows := d.In[2]+d.behind(2), d.In[1]+d.behind(1)
	if length > mostDepthwise/64 || rows > mostDepthwise/64 || length*rows > mostDepthwise/4 {
		return 0
	}
	return 4 * (length*rows + 2*slack + d.imageBand()*length)
}

// imageBand is the number of rows of the image that are computed at once.
func (d *Depthwise) imageBand() int { return min(d.In[1], max(1, bandLen/(d.In[2]+d.behind(2)))) }

// Image computes the gradient of one channel of the image, from the gradient of the
// outputs: a transposed convolution. The outputs lie in a plane of zeros, as far apart as
// their windows, so that the kernel, turned around, slides over them by single steps.
// scratch has ImageBytes bytes.
func (d *Depthwise) Image(in, out, weights unsafe.Pointer, bias float32, scratch unsafe.Pointer) {
	length, rows, band := d.In[2]+d.behind(2), d.In[1]+d.behind(1), d.imageBand()
	plane := unsafe.Add(scratch, 4*(band*length+slack))
	clear(unsafe.Slice((*float32)(plane), rows*length+slack))
	// Output (h, w) stands in the plane where its first tap's weight is the last.
	down, right := d.behind(1)-d.Pad[1], d.behind(2)-d.Pad[2]
	top, bottom := within(-down, d.Stride[1], rows, d.Out[1])
	from, to := within(-right, d.Stride[2], length, d.Out[2])
	for h := top; h < bottom && from < to; h++ {
		row := float(plane, 4*((h*d.Stride[1]+down)*length+right+from*d.Stride[2]))
		src := unsafe.Slice(float(out, 4*(h*d.Out[2]+from)), to-from)
		if d.Stride[2] == 1 {
			copy(unsafe.Slice(row, len(src)), src)
			continue
		}
		for i, x := range src {
			*float(unsafe.Pointer(row), 4*i*d.Stride[2]) = x
		}
	}
	var at [mostTaps]uintptr
	taps := d.Kernel[1] * d.Kernel[2]
	for tap := range taps {
		kh, kw := tap/d.Kernel[2], tap%d.Kernel[2]
		at[tap] = uintptr(unsafe.Add(plane, 4*((d.behind(1)-kh*d.Dilation[1])*length+d.behind(2)-kw*d.Dilation[2])))
	}
	for h := 0; h < d.In[1]; h += band {
		if d.Stop != nil && d.Stop.Stopping() {
			return
		}
		count := min(band, d.In[1]-h)
		whole := (count*length - d.behind(2) + 7) &^ 7
		weigh((*float32)(scratch), whole, &at[0], (*float32)(weights), taps, 0, bias, 0, 0)
		unspread(unsafe.Add(in, 4*h*d.In[2]), scratch, count, d.In[2], length)
		for tap := range taps {
			at[tap] += uintptr(4 * count * length)
		}
	}
}
