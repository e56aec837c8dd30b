package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeCol2Im adds up blocks into an image: the adjoint of extracting the blocks.
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
	w, err := attr.ReadWindow(c.Node, form.Dims(block))
	if err != nil {
		return nil, err
	}
	image := out.Shape[2:]
	blocks := make([]int, len(block)) // along each axis
	for i, n := range image {
		blocks[i] = int(w.Places(i, int64(n)+w.Before[i]+w.After[i], w.Reach(i)))
	}
	v, err := form.ThreeAxes(w, image, blocks)
	if err != nil {
		return nil, err
	}
	one := []T{1}
	part := func(p, _ int) {
		d := span[T](element[T](out, p*v.Inputs()), v.Inputs())
		fillAll(c, d, 0)
		// Each tap is a window of one element with its own padding.
		w := *v
		w.Kernel = [3]int{1, 1, 1}
		for tap := range v.Taps() {
			at := [3]int{tap / v.Kernel[2] / v.Kernel[1], tap / v.Kernel[2] % v.Kernel[1], tap % v.Kernel[2]}
			for a := range 3 {
				w.Pad[a] = v.Pad[a] - at[a]*v.Dilation[a]
			}
			spread(c, d, span[T](element[T](x, (p*v.Taps()+tap)*v.Outputs()), v.Outputs()), one, &w)
		}
	}
	return func(w *work.Pool) error {
		w.For(out.Shape[0]*out.Shape[1], part)
		return nil
	}, nil
}
