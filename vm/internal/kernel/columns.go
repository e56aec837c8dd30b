package kernel

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeCol2Im adds up blocks into an image: the adjoint of taking the blocks out.
func makeCol2Im(c *Invocation) (Run, error) {
	block, err := c.Value(2)
	if err != nil {
		return nil, err
	}
	switch c.In[0].Type {
	case graph.Float32:
		return col2Im[float32](c, block)
	case graph.Float64:
		return col2Im[float64](c, block)
	}
	return nil, unsupported(c.In[0].Type)
}

func col2Im[T floating](c *Invocation, block []int) (Run, error) {
	x, out := c.In[0], c.Out[0]
	image := out.Shape[2:]
	v, err := newWindow(c, block, image, image)
	if err != nil {
		return nil, err
	}
	for a := range 3 {
		v.out[a] = max((v.in[a]+v.pads[a]+v.after[a]-(v.kernel[a]-1)*v.dil[a]-1)/v.stride[a]+1, 0)
	}
	one := []T{1}
	part := func(p, _ int) {
		d := span[T](element[T](out, p*v.inputs()), v.inputs())
		fillAll(c, d, 0)
		// Tap by tap, as a window of one place that is shifted.
		w := *v
		w.kernel = [3]int{1, 1, 1}
		for tap := range v.taps() {
			at := [3]int{tap / v.kernel[2] / v.kernel[1], tap / v.kernel[2] % v.kernel[1], tap % v.kernel[2]}
			for a := range 3 {
				w.pads[a] = v.pads[a] - at[a]*v.dil[a]
			}
			spread(c, d, span[T](element[T](x, (p*v.taps()+tap)*v.outputs()), v.outputs()), one, &w)
		}
	}
	return func(w *work.Pool) error {
		w.For(out.Shape[0]*out.Shape[1], part)
		return nil
	}, nil
}

// makeMaxUnpool puts elements at the places that MaxPool took them from. Places
// are counted in the image that the window alone would give; one that is asked
// for may be larger.
func makeMaxUnpool(c *Invocation) (Run, error) {
	x, places, out := c.In[0], c.In[1], c.Out[0]
	width, err := wholeBytes(x)
	if err != nil {
		return nil, err
	}
	kernel := c.Ints("kernel_shape")
	n := x.rank() - 2
	strides, pads := c.Ints("strides"), c.Ints("pads")
	shape := append([]int{}, x.Shape...)
	for a := range n {
		step, pad := 1, 0
		if len(strides) == n {
			step = strides[a]
		}
		if len(pads) == 2*n {
			pad = pads[a] + pads[n+a]
		}
		shape[2+a] = (x.Shape[2+a]-1)*step + kernel[a] - pad
	}
	return func(*work.Pool) error {
		c.clear(raw(out))
		for i, p := range data[int64](places) {
			if i&often == 0 {
				c.poll()
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
