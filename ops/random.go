package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// randoms lists the operators that draw numbers. A seed does not make them
// repeatable: a second run of the same session continues the sequence.
var randoms = family{"", []Op{
	{Name: "RandomNormal", Class: Draw, Infer: inferRandom, Random: true, Seeded: true},
	{Name: "RandomUniform", Class: Draw, Infer: inferRandom, Random: true, Seeded: true},
	{Name: "RandomNormalLike", Class: Draw, Infer: inferRandomLike, Random: true, Seeded: true},
	{Name: "RandomUniformLike", Class: Draw, Infer: inferRandomLike, Random: true, Seeded: true},
	{Name: "Bernoulli", Class: Draw, Infer: inferRandomLike, Inplace: overFirst, Random: true, Seeded: true},
	{Name: "Multinomial", Class: Draw, Infer: inferMultinomial, Random: true, Seeded: true},
}}

// inferRandom: the shape is an attribute.
func inferRandom(c *Call) error {
	if err := c.takes(0, 0); err != nil {
		return err
	}
	a := c.Node.Attr("shape")
	if a == nil {
		return c.Errf("shape is missing: expected the lengths of the output")
	}
	shape, err := c.constantShape("shape", a.Ints)
	if err != nil {
		return err
	}
	elem, err := c.elemAttr("dtype", graph.Float32)
	if err != nil {
		return err
	}
	c.Set(0, elem, shape)
	return nil
}

// inferRandomLike: the shape is the input's; so is the element type, unless dtype
// is set.
func inferRandomLike(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	elem, err := c.elemAttr("dtype", c.In[0].Elem)
	if err != nil {
		return err
	}
	c.setLike(0, 0, elem)
	return nil
}

// inferMultinomial: log-probabilities [batch, classes] to samples [batch, sample_size].
func inferMultinomial(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	elem, err := c.elemAttr("dtype", graph.Int32)
	if err != nil {
		return err
	}
	size := c.Int("sample_size", 1)
	if size < 1 {
		return c.Errf("sample_size is %d, expected at least 1", size)
	}
	batch := graph.Unknown
	if t := c.In[0].Type; t.Ranked {
		if len(t.Shape) != 2 {
			return c.BadInput(0, "[batch, classes]")
		}
		batch = t.Shape[0]
	}
	c.Set(0, elem, []graph.Dim{batch, graph.Dim(size)})
	return nil
}
