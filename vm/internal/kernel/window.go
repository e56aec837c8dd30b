package kernel

// window is how a kernel of a convolution or a pooling slides over an image: the
// lengths, strides, dilations and pads of up to three spatial axes. Missing
// axes have length 1 and stand in front.
type window struct {
	axes                               int
	in, out, kernel, stride, dil, pads [3]int // pads: before the image
	after                              [3]int // pads behind it
}

// newWindow reads the attributes of a node. kernel is its kernel's shape, in and
// out the spatial lengths.
func newWindow(c *Invocation, kernel, in, out []int) (*window, error) {
	n := len(kernel)
	if n > 3 {
		return nil, unsupportedf("%d spatial axes, more than 3", n)
	}
	v := &window{axes: n}
	for a := range 3 {
		v.in[a], v.out[a], v.kernel[a], v.stride[a], v.dil[a] = 1, 1, 1, 1, 1
	}
	copy(v.in[3-n:], in)
	copy(v.out[3-n:], out)
	copy(v.kernel[3-n:], kernel)
	copy(v.stride[3-n:], c.Ints("strides"))
	copy(v.dil[3-n:], c.Ints("dilations"))
	switch c.Str("auto_pad", "NOTSET") {
	case "NOTSET", "":
		if pads := c.Ints("pads"); len(pads) > 0 {
			copy(v.pads[3-n:], pads[:n])
			copy(v.after[3-n:], pads[n:])
		}
	case "SAME_UPPER":
		v.same(func(total int) int { return total / 2 })
	case "SAME_LOWER":
		v.same(func(total int) int { return total - total/2 })
	}
	return v, nil
}

// same sets the pads that the lengths of the image and of the output ask for; so
// many of all stand before the image.
func (v *window) same(before func(total int) int) {
	for a := 3 - v.axes; a < 3; a++ {
		total := max(0, (v.out[a]-1)*v.stride[a]+(v.kernel[a]-1)*v.dil[a]+1-v.in[a])
		v.pads[a] = before(total)
		v.after[a] = total - v.pads[a]
	}
}

// inputs is the number of positions of the image, outputs of the output.
func (v *window) inputs() int  { return v.in[0] * v.in[1] * v.in[2] }
func (v *window) outputs() int { return v.out[0] * v.out[1] * v.out[2] }
func (v *window) taps() int    { return v.kernel[0] * v.kernel[1] * v.kernel[2] }

// reach gives the positions [from, to) of the kernel that lie within the image
// along an axis, for the output position o.
func (v *window) reach(a, o int) (start, from, to int) {
	start = o*v.stride[a] - v.pads[a]
	if start < 0 {
		from = cuts(-start, v.dil[a])
	}
	to = v.kernel[a]
	if last := v.in[a] - start; last < (to-1)*v.dil[a]+1 {
		to = max(from, cuts(last, v.dil[a]))
	}
	return start, from, max(to, from)
}
