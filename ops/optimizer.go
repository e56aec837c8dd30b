package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// optimizers lists the training operators of ai.onnx.preview.training.
var optimizers = family{"ai.onnx.preview.training", []Op{
	{Name: "Adagrad", Class: Other, Infer: optimizer(2), Inplace: overParameters, FLOPs: optimizerFLOPs(8)},
	{Name: "Momentum", Class: Other, Infer: optimizer(2), Inplace: overParameters, FLOPs: optimizerFLOPs(6)},
	{Name: "Adam", Class: Other, Infer: optimizer(3), Inplace: overParameters, FLOPs: optimizerFLOPs(12)},
	{Name: "Gradient", Class: Other, Infer: gradient},
}}

// optimizer is an update of n parameters: inputs are the learning rate, the count
// of updates, n parameters, n gradients, and n of each state; outputs are the new
// parameters and states, results per parameter.
func optimizer(results int) func(c *Call) error {
	return func(c *Call) error {
		n := len(c.Out) / results
		if n == 0 || len(c.Out)%results != 0 || len(c.In) != 2+n*(results+1) {
			return c.Errf("found %d inputs and %d outputs, expected 2 + %dn and %dn for n parameters", len(c.In), len(c.Out), results+1, results)
		}
		if err := c.Tensors(len(c.In)); err != nil {
			return err
		}
		for k := range n {
			if a := c.In[2+k]; a.Ranked {
				for j := 1; j <= results; j++ {
					if err := c.WantShape(2+j*n+k, "the shape of its parameter", a.Shape...); err != nil {
						return err
					}
				}
			}
		}
		for k := range c.Out {
			c.SetType(k, c.In[updated(k, n)].Type)
		}
		return nil
	}
}

// updated is the input of which output k is the new value, for an optimizer with
// n parameters: the gradients are between the parameters and the states.
func updated(k, n int) int {
	if k < n {
		return 2 + k
	}
	return 2 + n + k
}

// overParameters: each new parameter or state may overwrite the old one.
func overParameters(c *Call) []graph.Alias {
	n := len(c.In) - 2 - len(c.Out)
	var pairs []graph.Alias
	for k := range c.Out {
		if i := updated(k, n); c.sameShapeAndSize(k, i) {
			pairs = append(pairs, graph.Alias{Out: k, In: i})
		}
	}
	return pairs
}

// optimizerFLOPs counts that many operations for each element of a parameter.
func optimizerFLOPs(each int64) func(c *Call) int64 {
	return func(c *Call) int64 {
		total := int64(0)
		for k := range len(c.In) - 2 - len(c.Out) {
			total = addFLOPs(total, opCount(graph.Dim(each), elements(c.In[2+k].Type)))
		}
		return total
	}
}

// gradient covers Gradient: output k is the derivative by input k.
func gradient(c *Call) error {
	if err := c.Tensors(len(c.Out)); err != nil {
		return err
	}
	for k := range c.Out {
		c.SetType(k, c.In[k].Type)
	}
	return nil
}
