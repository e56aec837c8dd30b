package kernel

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// losses lists the operators that compare predictions with labels.
var losses = family{"", []Kernel{
	{Name: "NegativeLogLikelihoodLoss", Make: loss(false)},
	{Name: "SoftmaxCrossEntropyLoss", Make: loss(true)},
}}

func loss(softmax bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return lossOf[float32](c, softmax)
		case graph.Float64:
			return lossOf[float64](c, softmax)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

// lossOf computes, at each position, minus the score of the labelled class along axis 1,
// weighted by class. The scores may first go through LogSoftmax, whose result is an
// optional output.
func lossOf[T floating](c *Invocation, softmax bool) (Run, error) {
	x, label, out := c.In[0], c.In[1], c.Out[0]
	classes, inner := x.Shape[1], count(x.Shape[2:])
	places := x.Shape[0] * inner
	reduction := c.Str("reduction", "mean")
	ignore, ignores := c.Int("ignore_index", 0), c.Node.Attr("ignore_index") != nil
	read, ok := form.IntReader(label.Type)
	if !ok {
		return nil, unsupported(label.Type)
	}
	return func(*work.Pool) error {
		m := c.Meter()
		sum, weights := 0.0, 0.0
		for p := range places {
			m.Add(1)
			base := p/inner*classes*inner + p%inner
			shift := 0.0
			if softmax {
				shift = logSumExp(&m, data[T](x), base, classes, inner)
				if c.HasOut(1) {
					d := data[T](c.Out[1])
					for k := range classes {
						m.Add(1)
						d[base+k*inner] = T(float64(data[T](x)[base+k*inner]) - shift)
					}
				}
			}
			v, w := 0.0, 0.0
			if k := int(read(label.At, p)); !ignores || k != ignore {
				if k < 0 || k >= classes {
					return fmt.Errorf("input 1: element %d is class %d, expected one in [0, %d)", p, k, classes)
				}
				w = 1
				if c.Has(2) {
					w = float64(data[T](c.In[2])[k])
				}
				v = -(float64(data[T](x)[base+k*inner]) - shift) * w
			}
			if reduction == "none" {
				data[T](out)[p] = T(v)
			}
			sum += v
			weights += w
		}
		switch reduction {
		case "sum":
			data[T](out)[0] = T(sum)
		case "mean":
			data[T](out)[0] = T(sum / weights)
		}
		return nil
	}, nil
}

// logSumExp is the logarithm of the sum of the exponentials of a line's elements.
func logSumExp[T floating](m *form.Meter, s []T, base, n, step int) float64 {
	high := math.Inf(-1)
	for k := range n {
		m.Add(1)
		high = max(high, float64(s[base+k*step]))
	}
	sum := 0.0
	for k := range n {
		m.Add(1)
		sum += math.Exp(float64(s[base+k*step]) - high)
	}
	return high + math.Log(sum)
}
