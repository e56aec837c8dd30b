package constant

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// The shape of a result is given, by inference or, where that does not know the
// elements of an input, by the file, which may be wrong. So what an input says about the
// shape is compared with it.

// expect fails unless output 0 has the given shape.
func (c *call) expect(shape []int64) error {
	if y := c.out[0]; !slices.Equal(y.Shape, shape) {
		return fmt.Errorf("the result has shape %v, expected %v", y.Shape, shape)
	}
	return nil
}

// reshape keeps the elements: 0 copies a length, -1 is what remains.
func reshape(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, shape := c.x(0), slices.Clone(c.listAttr("shape"))
	if c.version >= 5 {
		var err error
		if shape, err = c.list(1); err != nil {
			return err
		}
	}
	rest, known := -1, int64(1)
	for k, n := range shape {
		switch {
		case n == 0 && c.int("allowzero", 0) == 0:
			if k >= len(x.Shape) {
				return fmt.Errorf("shape %v copies axis %d of shape %v", shape, k, x.Shape)
			}
			shape[k] = x.Shape[k]
		case n == -1 && rest < 0:
			rest = k
			continue
		case n < 0:
			return fmt.Errorf("shape %v: expected lengths", shape)
		}
		known *= shape[k]
	}
	if rest >= 0 {
		if known == 0 {
			return fmt.Errorf("shape %v: what remains is not determined", shape)
		}
		shape[rest] = count(x.Shape) / known
	}
	if err := c.expect(shape); err != nil {
		return err
	}
	return same(c)
}

// squeeze drops axes of length 1.
func squeeze(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x := c.x(0)
	axes, err := c.axes(len(x.Shape))
	if err != nil {
		return err
	}
	var shape []int64
	for k, n := range x.Shape {
		drop := slices.Contains(axes, k)
		if drop && n != 1 {
			return fmt.Errorf("axis %d has length %d, expected 1", k, n)
		}
		if !drop && (axes != nil || n != 1) {
			shape = append(shape, n)
		}
	}
	if err := c.expect(shape); err != nil {
		return err
	}
	return same(c)
}

// unsqueeze adds axes of length 1.
func unsqueeze(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	y := c.out[0]
	axes, err := c.axes(len(y.Shape))
	if err != nil {
		return err
	}
	var shape []int64
	from := c.x(0).Shape
	for k := range y.Shape {
		switch {
		case slices.Contains(axes, k):
			shape = append(shape, 1)
		case len(from) == 0:
			return fmt.Errorf("axes %v: expected %d", axes, len(y.Shape)-len(c.x(0).Shape))
		default:
			shape, from = append(shape, from[0]), from[1:]
		}
	}
	if len(from) > 0 {
		return fmt.Errorf("axes %v: expected %d", axes, len(y.Shape)-len(c.x(0).Shape))
	}
	if err := c.expect(shape); err != nil {
		return err
	}
	return same(c)
}

// axes returns the axes that an input holds, or before opset 13 an attribute; nil if they
// are left out.
func (c *call) axes(rank int) (axes []int, err error) {
	list := c.listAttr("axes")
	if c.version >= 13 {
		if list, err = c.list(1); err != nil {
			return nil, err
		}
	}
	if list != nil {
		axes = []int{}
	}
	for _, a := range list {
		k, err := axisOf(a, rank)
		if err != nil {
			return nil, err
		}
		axes = append(axes, k)
	}
	return axes, nil
}

// expanded fails unless output 0 has the shape to which input 1 expands input 0.
func (c *call) expanded() error {
	to, err := c.list(1)
	if err != nil {
		return err
	}
	shape := make([]int64, max(len(to), len(c.x(0).Shape)))
	for k := range shape {
		shape[k] = 1
	}
	copy(shape[len(shape)-len(c.x(0).Shape):], c.x(0).Shape)
	for i, n := range to {
		switch k := len(shape) - len(to) + i; {
		case shape[k] == 1:
			shape[k] = n
		case n != 1 && n != shape[k]:
			return fmt.Errorf("shape %v does not broadcast to %v", c.x(0).Shape, to)
		}
	}
	return c.expect(shape)
}

// tiled fails unless output 0 has the shape of input 0, repeated.
func (c *call) tiled() error {
	times, err := c.list(1)
	if err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	if len(times) != len(x.Shape) {
		return fmt.Errorf("%d repetitions of %d axes", len(times), len(x.Shape))
	}
	for k, n := range times {
		if x.Shape[k] == 0 || y.Shape[k]%x.Shape[k] != 0 || y.Shape[k]/x.Shape[k] != n {
			return fmt.Errorf("the result has shape %v, expected %v repeated %v times", y.Shape, x.Shape, times)
		}
	}
	return nil
}

// parts fails unless the outputs have the lengths that the node lists, if it does.
func (c *call) parts(axis int) error {
	lengths := c.listAttr("split")
	if c.version >= 13 || c.version == 1 && c.x(1) != nil {
		var err error
		if lengths, err = c.list(1); err != nil {
			return err
		}
	}
	if lengths == nil {
		return nil // inference divides by the number of outputs
	}
	if len(lengths) != len(c.out) {
		return fmt.Errorf("%d lengths for %d outputs", len(lengths), len(c.out))
	}
	for i, y := range c.out {
		if y != nil && axis < len(y.Shape) && y.Shape[axis] != lengths[i] {
			return fmt.Errorf("output %d has length %d along axis %d, expected %d", i, y.Shape[axis], axis, lengths[i])
		}
	}
	return nil
}

// filled fails unless input 0 holds the shape of output 0.
func (c *call) filled() error {
	if t := c.x(0).Type; t != graph.Int64 {
		return fmt.Errorf("input 0: expected int64, found %v", t)
	}
	shape, err := c.list(0)
	if err != nil {
		return err
	}
	return c.expect(shape)
}
