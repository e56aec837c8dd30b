package gemm

import "unsafe"

// PlacesBytes is the scratch of each worker for Places; 0 if it cannot be used.
func (d *Depthwise) PlacesBytes() int {
	if d.ScratchBytes() == 0 || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 {
		return 0
	}
	return d.ScratchBytes() + 4*d.bandFloats()
}

// Places computes one channel of the largest elements, and where they are: first is added
// to their indices in the channel. Of equal elements it takes the first, and of several NaN
// the last. scratch has PlacesBytes bytes.
func (d *Depthwise) Places(out unsafe.Pointer, places []int64, first int, in, scratch unsafe.Pointer) {
	outputs := d.bandFloats()
	sums, taken := unsafe.Slice((*float32)(scratch), outputs), unsafe.Slice((*int32)(unsafe.Add(scratch, 4*outputs)), outputs)
	planes := unsafe.Add(scratch, 8*outputs)
	d.spread(in, planes)
	var (
		from  [mostTaps]uintptr
		shift [mostTaps]int // of the elements that a tap reads, in the channel
	)
	length, size, band, taps := d.length(), d.planeLen(), d.band(), d.Kernel[1]*d.Kernel[2]
	sh, sw := d.Stride[1], d.Stride[2]
	for tap := range taps {
		kh, kw := tap/d.Kernel[2], tap%d.Kernel[2]
		from[tap] = uintptr(d.under(planes, kh, kw, size, length))
		shift[tap] = (kh*d.Dilation[1]-d.Pad[1])*d.In[2] + kw*d.Dilation[2] - d.Pad[2]
	}
	for oh := 0; oh < d.Out[1]; oh += band {
		if d.Stop != nil && d.Stop.Stopping() {
			return
		}
		rows := min(band, d.Out[1]-oh)
		whole := (rows*length - (length - d.Out[2]) + 7) &^ 7
		largestTap(&sums[0], &taken[0], whole, &from[0], taps)
		for r := range rows {
			at := first + (oh+r)*sh*d.In[2]
			list := places[(oh+r)*d.Out[2]:][:d.Out[2]]
			for w, tap := range taken[r*length:][:d.Out[2]] {
				if tap < 0 {
					tap = d.firstTap(oh+r, w)
				}
				list[w] = int64(at + w*sw + shift[tap])
			}
		}
		unspread(unsafe.Add(out, 4*oh*d.Out[2]), scratch, rows, d.Out[2], length)
		for tap := range taps {
			from[tap] += uintptr(4 * rows * length)
		}
	}
}

// firstTap is the first tap that reads an element of the image, if one does.
func (d *Depthwise) firstTap(h, w int) int32 {
	top, _ := within(d.Pad[1]-h*d.Stride[1], d.Dilation[1], d.In[1], d.Kernel[1])
	left, _ := within(d.Pad[2]-w*d.Stride[2], d.Dilation[2], d.In[2], d.Kernel[2])
	return int32(min(top, d.Kernel[1]-1)*d.Kernel[2] + min(left, d.Kernel[2]-1))
}
