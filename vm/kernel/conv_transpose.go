package kernel

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func makeConvTranspose(c *Call) (Run, error) {
	switch c.Out[0].Type {
	case graph.Float32:
		return convTranspose[float32](c)
	case graph.Float64:
		return convTranspose[float64](c)
	}
	return nil, unsupported(c.Out[0].Type)
}

// convTranspose gathers: each element of the output adds up the inputs that a
// convolution from the output to the input would have spread it over. One plane
// of the output is one part.
func convTranspose[T floating](c *Call) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	if x.rank() < 3 || weight.rank() != x.rank() || out.rank() != x.rank() {
		return nil, fmt.Errorf("shapes %v and %v, expected one spatial axis or more", x.Shape, weight.Shape)
	}
	group := c.Int("group", 1)
	// The window of the convolution that leads back: from out to x.
	v, err := newWindow(c, weight.Shape[2:], out.Shape[2:], x.Shape[2:])
	if err != nil {
		return nil, err
	}
	v.transposedPads(c)
	channels, per := out.Shape[1], weight.Shape[1]
	if group < 1 || x.Shape[1]%group != 0 || per*group != channels || weight.Shape[0] != x.Shape[1] {
		return nil, fmt.Errorf("%d channels and weights %v in %d groups do not fit", x.Shape[1], weight.Shape, group)
	}
	ch := x.Shape[1] / group
	part := func(p, _ int) {
		image, o := p/channels, p%channels
		d := span[T](element[T](out, p*v.inputs()), v.inputs())
		bias := T(0)
		if c.Has(2) {
			bias = data[T](c.In[2])[o]
		}
		fill(d, bias)
		for k := range ch {
			i := o/per*ch + k
			spread(d, span[T](element[T](x, (image*x.Shape[1]+i)*v.outputs()), v.outputs()),
				span[T](element[T](weight, (i*per+o%per)*v.taps()), v.taps()), v)
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// transposedPads sets the pads of a transposed convolution where output_shape or
// auto_pad ask for a length: what is too long is cut off, half of it in front
// (the smaller half but for SAME_UPPER, which cuts the larger half there).
func (v *window) transposedPads(c *Call) {
	mode := c.Str("auto_pad", "NOTSET")
	if c.Ints("output_shape") == nil && (mode == "NOTSET" || mode == "" || mode == "VALID") {
		return
	}
	extra := [3]int{}
	copy(extra[3-v.axes:], c.Ints("output_padding"))
	for a := 3 - v.axes; a < 3; a++ {
		total := max(0, (v.out[a]-1)*v.stride[a]+extra[a]+(v.kernel[a]-1)*v.dil[a]+1-v.in[a])
		v.pads[a] = total / 2
		if mode != "SAME_UPPER" {
			v.pads[a] = total - total/2
		}
	}
}

// spread adds to the image d what a window spreads out of y: the adjoint of
// convolve.
func spread[T floating](d, y, weight []T, v *window) {
	tap := 0
	for kd := range v.kernel[0] {
		for kh := range v.kernel[1] {
			for kw := range v.kernel[2] {
				f := weight[tap]
				tap++
				from, to := v.within(2, kw)
				for od := range v.out[0] {
					id := od*v.stride[0] - v.pads[0] + kd*v.dil[0]
					if uint(id) >= uint(v.in[0]) {
						continue
					}
					for oh := range v.out[1] {
						ih := oh*v.stride[1] - v.pads[1] + kh*v.dil[1]
						if uint(ih) >= uint(v.in[1]) || from >= to {
							continue
						}
						at := (id*v.in[1]+ih)*v.in[2] + from*v.stride[2] - v.pads[2] + kw*v.dil[2]
						for p, g := range y[(od*v.out[1]+oh)*v.out[2]:][from:to] {
							d[at+p*v.stride[2]] += f * g
						}
					}
				}
			}
		}
	}
}
