package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// generators lists the operators that make a tensor from attributes, lengths or the
// shape of another tensor.
var generators = family{"", []Kernel{
	{Name: "ConstantOfShape", Make: makeConstantOfShape, Half: true, Alike: true},
	{Name: "Shape", Make: makeShape, Half: true},
	{Name: "Size", Make: makeSize, Half: true},
	{Name: "Range", Make: makeRange},
	{Name: "EyeLike", Make: makeEyeLike},
}}

// makeConstantOfShape fills the output with one element, 0 by default.
func makeConstantOfShape(c *Invocation) (Run, error) {
	out := c.Out[0]
	if sharesByte(out) {
		return makePackedConstant(c)
	}
	element, err := c.FillElement()
	if err != nil {
		return nil, err
	}
	n, width := out.Len(), len(element)
	part := func(p, _ int) {
		b := raw(out)[p*grain*width : min((p+1)*grain, n)*width]
		// Double the filled part.
		for n := copy(b, element); n < len(b); n *= 2 {
			copy(b[n:], b[:n])
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// makePackedConstant is makeConstantOfShape for elements that share bytes. The bits behind the
// last one are 0.
func makePackedConstant(c *Invocation) (Run, error) {
	var element [1]byte
	if a := c.Node.Attr("value"); a != nil && a.Tensor != nil {
		if err := form.FirstElement(element[:], a.Tensor); err != nil {
			return nil, err
		}
	}
	out := c.Out[0]
	bits := form.ElementBits(out.Type)
	all := repeated(element[0]&(1<<bits-1), 8/bits, bits)
	last := repeated(element[0]&(1<<bits-1), (out.Len()-1)%(8/bits)+1, bits)
	return func(*work.Pool) error {
		b := raw(out)
		fillAll(c, b, all)
		b[len(b)-1] = last
		return nil
	}, nil
}

// repeated returns a byte that begins with n elements of the given bits.
func repeated(element byte, n, bits int) (b byte) {
	for i := range n {
		b |= element << (i * bits)
	}
	return b
}

// makeShape writes the lengths of all or some axes of input 0.
func makeShape(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	rank := in.Rank()
	clamp := func(k int) int {
		if k < 0 {
			k += rank
		}
		return min(max(k, 0), rank)
	}
	from, to := clamp(c.Int("start", 0)), clamp(c.Int("end", rank))
	return func(*work.Pool) error {
		d := data[int64](out)
		for i, n := range in.Shape[from:max(from, to)] {
			d[i] = int64(n)
		}
		return nil
	}, nil
}

func makeSize(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	return func(*work.Pool) error {
		data[int64](out)[0] = int64(in.Len())
		return nil
	}, nil
}

// makeRange counts from input 0 in steps of input 2. The output's length has already
// been derived from the limit.
func makeRange(c *Invocation) (Run, error) {
	switch c.Out[0].Type {
	case graph.Float32:
		return counting[float32](c)
	case graph.Float64:
		return counting[float64](c)
	case graph.Int64:
		return counting[int64](c)
	case graph.Int32:
		return counting[int32](c)
	case graph.Int16:
		return counting[int16](c)
	}
	return nil, unsupported(c.Out[0].Type)
}

func counting[T number](c *Invocation) (Run, error) {
	n := c.Out[0].Len()
	part := func(p, _ int) {
		start, step := data[T](c.In[0])[0], data[T](c.In[2])[0]
		d := data[T](c.Out[0])
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			d[i] = start + T(i)*step
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// makeEyeLike fills a diagonal with ones.
func makeEyeLike(c *Invocation) (Run, error) {
	out, k := c.Out[0], c.Int("k", 0)
	set, ok := form.Writer(out.Type)
	if !ok {
		return nil, unsupported(out.Type)
	}
	return func(*work.Pool) error {
		c.Clear(raw(out))
		for i := range out.Shape[0] {
			if i&form.Often == 0 {
				c.Poll()
			}
			if j := i + k; j >= 0 && j < out.Shape[1] {
				set(out.At, i*out.Shape[1]+j, 1)
			}
		}
		return nil
	}, nil
}
