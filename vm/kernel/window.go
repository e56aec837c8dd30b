package kernel

import (
	"fmt"
	"slices"
)

// window is how a kernel of a convolution or a pooling slides over an image: the
// lengths, strides, dilations and pads of up to three spatial axes. Missing
// axes have length 1 and stand in front.
type window struct {
	axes                               int
	in, out, kernel, stride, dil, pads [3]int // pads: before the image
}

// mostPlaces bounds strides, pads and windows, so that sums and products of places
// fit.
const mostPlaces = 1 << 30

// newWindow reads the attributes of a node. kernel is its kernel's shape, in and
// out the spatial lengths.
func newWindow(c *Call, kernel, in, out []int) (*window, error) {
	n := len(kernel)
	if n < 1 || n > 3 || len(in) != n || len(out) != n {
		return nil, fmt.Errorf("%d spatial axes, expected 1 to 3", n)
	}
	v := &window{axes: n}
	for a := range 3 {
		v.in[a], v.out[a], v.kernel[a], v.stride[a], v.dil[a] = 1, 1, 1, 1, 1
	}
	set := func(to *[3]int, list []int) error {
		if list == nil {
			return nil
		}
		if len(list) != n {
			return fmt.Errorf("%v for %d spatial axes", list, n)
		}
		copy(to[3-n:], list)
		return nil
	}
	for _, s := range []struct {
		to   *[3]int
		list []int
	}{{&v.in, in}, {&v.out, out}, {&v.kernel, kernel}, {&v.stride, c.Ints("strides")}, {&v.dil, c.Ints("dilations")}} {
		if err := set(s.to, s.list); err != nil {
			return nil, err
		}
	}
	for a := range 3 {
		if v.stride[a] < 1 || v.dil[a] < 1 || v.kernel[a] < 1 {
			return nil, fmt.Errorf("strides %v, dilations %v, kernel %v: expected at least 1", v.stride, v.dil, v.kernel)
		}
		if v.stride[a] > mostPlaces || v.kernel[a] > mostPlaces || v.dil[a] > mostPlaces || v.kernel[a]*v.dil[a] > mostPlaces {
			return nil, fmt.Errorf("strides %v, dilations %v, kernel %v: expected windows of at most %d", v.stride, v.dil, v.kernel, mostPlaces)
		}
	}
	pads := c.Ints("pads")
	switch mode := c.Str("auto_pad", "NOTSET"); mode {
	case "NOTSET", "":
		if pads != nil {
			if len(pads) != 2*n {
				return nil, fmt.Errorf("pads %v, expected %d of them", pads, 2*n)
			}
			copy(v.pads[3-n:], pads[:n])
			if slices.Max(pads) > mostPlaces || slices.Min(pads) < -mostPlaces {
				return nil, fmt.Errorf("pads %v: expected at most %d", pads, mostPlaces)
			}
		}
	case "VALID":
	case "SAME_UPPER", "SAME_LOWER":
		for a := 3 - n; a < 3; a++ {
			total := max(0, (v.out[a]-1)*v.stride[a]+(v.kernel[a]-1)*v.dil[a]+1-v.in[a])
			v.pads[a] = total / 2
			if mode == "SAME_LOWER" {
				v.pads[a] = total - total/2
			}
		}
	default:
		return nil, fmt.Errorf("auto_pad %q is unknown", mode)
	}
	return v, nil
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
