package kernel

// Geometry is how the kernel of a convolution moves over an image, for kernels of other
// devices. There are three spatial axes: those that an image does not have have length 1
// and come first. Pad is the padding before the image.
type Geometry struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int
}

// ConvGeometry is the geometry of a convolution of x with weight.
func (c *Invocation) ConvGeometry(x, weight, out *Tensor) (*Geometry, error) {
	v, err := newWindow(c, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
	if err != nil {
		return nil, err
	}
	return v.geometry(), nil
}

// TransposedGeometry is the geometry of the convolution that leads back from output 0 of
// a transposed convolution to its input 0.
func (c *Invocation) TransposedGeometry() (*Geometry, error) {
	v, err := transposedWindow(c)
	if err != nil {
		return nil, err
	}
	return v.geometry(), nil
}

// WeightGradGeometry is the geometry of the convolution that the gradient of weights is:
// that of input 0 with input 1 as the kernel.
func (c *Invocation) WeightGradGeometry() (*Geometry, error) {
	v, err := weightGradWindow(c)
	if err != nil {
		return nil, err
	}
	return &Geometry{In: v.in, Out: v.kernel, Kernel: v.out, Stride: v.dil, Dilation: v.stride, Pad: v.pads}, nil
}

func (v *window) geometry() *Geometry {
	return &Geometry{In: v.in, Out: v.out, Kernel: v.kernel, Stride: v.stride, Dilation: v.dil, Pad: v.pads}
}
