package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// losses lists the operators that compare predictions with labels.
var losses = family{"", []Op{
	{Name: "NegativeLogLikelihoodLoss", Infer: classLoss, FLOPs: perElement(1)},
	{Name: "SoftmaxCrossEntropyLoss", Infer: classLoss, FLOPs: perElement(5)},
}}

// classLoss covers both: scores [N C d1…], labels [N d1…], one weight per class.
// The loss has the shape of the labels, or rank 0 after a reduction; the second
// output of SoftmaxCrossEntropyLoss has the shape of the scores.
func classLoss(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	reduction, err := c.OneOf("reduction", "mean", "none", "sum", "mean")
	if err != nil {
		return err
	}
	a := c.In[0]
	if err := c.WantShape(2, "a weight per class", c.DimOf(0, 1)); err != nil {
		return err
	}
	labels := c.In[1].Shape
	if a.Ranked {
		want := append([]graph.Dim{a.Shape[0]}, a.Shape[2:]...)
		if err := c.WantShape(1, "a label per element and no axis of classes", want...); err != nil {
			return err
		}
		for i, d := range labels {
			want[i] = TakeDim(want[i], d)
		}
		labels = want
	}
	switch {
	case reduction != "none":
		c.Set(0, a.Elem, nil)
	case a.Ranked || c.In[1].Ranked:
		c.Set(0, a.Elem, labels)
	default:
		c.SetUnranked(0, a.Elem)
	}
	c.SetType(1, a.Type)
	return nil
}
