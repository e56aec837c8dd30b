package gemm

import "unsafe"

// Depthwise is the convolution of one channel by itself. The image is copied
// once, padded, each row cut into one row per residue of the stride: whatever
// stride and dilation are, each tap of the kernel then sees neighbours.
type Depthwise struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int // as in Image
}

const (
	mostTaps      = 128     // 11 x 11 and a little
	mostDepthwise = 4 << 20 // bytes of scratch
)

// row is the length of a padded row of one residue: a vector may begin at its
// last output.
func (d *Depthwise) row() int { return d.Out[2] + 8 + (d.Kernel[2]-1)*d.Dilation[2]/d.Stride[2] }

// ScratchBytes is what each worker needs; 0 where the channel is too large, or
// this machine has no vectors: it is then to be computed in another way.
func (d *Depthwise) ScratchBytes() int {
	taps := d.Kernel[0] * d.Kernel[1] * d.Kernel[2]
	if chosen == plain || taps > mostTaps || d.Stride[2] > 8 || d.row() > mostDepthwise/64 {
		return 0
	}
	rows := d.In[0] * d.In[1] * d.Stride[2]
	if rows > mostDepthwise/4/d.row() {
		return 0
	}
	return 4 * rows * d.row()
}

// Plane computes one channel. scratch has ScratchBytes bytes.
func (d *Depthwise) Plane(out, in, weights unsafe.Pointer, bias float32, scratch unsafe.Pointer) {
	d.spread(in, scratch)
	var (
		rows  [mostTaps]uintptr
		taken [mostTaps]float32
		last  [8]float32
	)
	length := d.row()
	whole := d.Out[2] &^ 7
	for od := range d.Out[0] {
		for oh := range d.Out[1] {
			n := 0
			for kd := range d.Kernel[0] {
				id := od*d.Stride[0] - d.Pad[0] + kd*d.Dilation[0]
				for kh := range d.Kernel[1] {
					ih := oh*d.Stride[1] - d.Pad[1] + kh*d.Dilation[1]
					if uint(id) >= uint(d.In[0]) || uint(ih) >= uint(d.In[1]) {
						continue
					}
					for kw := range d.Kernel[2] {
						w := kw * d.Dilation[2]
						from := ((id*d.In[1]+ih)*d.Stride[2]+w%d.Stride[2])*length + w/d.Stride[2]
						rows[n] = uintptr(unsafe.Add(scratch, 4*from))
						taken[n] = *float(weights, 4*((kd*d.Kernel[1]+kh)*d.Kernel[2]+kw))
						n++
					}
				}
			}
			to := unsafe.Slice(float(out, 4*(od*d.Out[1]+oh)*d.Out[2]), d.Out[2])
			if n == 0 {
				for i := range to {
					to[i] = bias
				}
				continue
			}
			if whole > 0 {
				weigh(&to[0], whole, &rows[0], &taken[0], n, bias)
			}
			if whole < d.Out[2] {
				for t := range n {
					rows[t] += uintptr(4 * whole)
				}
				weigh(&last[0], 8, &rows[0], &taken[0], n, bias)
				copy(to[whole:], last[:])
			}
		}
	}
}

// spread copies the image into padded rows.
func (d *Depthwise) spread(in, scratch unsafe.Pointer) {
	length, s, width := d.row(), d.Stride[2], d.In[2]
	for r := range d.In[0] * d.In[1] {
		from := unsafe.Slice(float(in, 4*r*width), width)
		for phase := range s {
			row := unsafe.Slice(float(scratch, 4*(r*s+phase)*length), length)
			// Number i of the row is number i·s + phase - pad of the image.
			x := phase - d.Pad[2]
			i := 0
			if x < 0 {
				i = min(cuts(-x, s), length)
				clear(row[:i])
				x += i * s
			}
			if s == 1 && x < width {
				i += copy(row[i:], from[x:])
			}
			for ; s > 1 && i < length && x < width; i++ {
				row[i] = from[x]
				x += s
			}
			clear(row[i:])
		}
	}
}
