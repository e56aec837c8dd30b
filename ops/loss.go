package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// losses lists the operators that compare predictions with labels.
var losses = family{"", []Op{
	{Name: "NegativeLogLikelihoodLoss", Class: Reduce, Precision: Full, Infer: classLoss, Cut: cutClassLoss, Sum: sumClassLoss, FLOPs: perElement(1)},
	{Name: "SoftmaxCrossEntropyLoss", Class: Reduce, Precision: Full, Infer: classLoss, Cut: cutClassLoss, Sum: sumClassLoss, FLOPs: perElement(5)},
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

// cutClassLoss: without a reduction, the axes of the labels. Those behind the first one
// stand behind the classes in the scores, and in the logarithms (output 1).
func cutClassLoss(c *Call, axis int) *Cut {
	if c.Str("reduction", "mean") != "none" {
		return nil
	}
	scores := scoresAxis(axis)
	cut := c.cut(axis)
	cut.In[0], cut.In[1] = Same(scores, c.length(0, scores)), Same(axis, c.length(1, axis))
	for k := 1; k < len(cut.Out); k++ {
		cut.Out[k] = scores
	}
	return cut
}

// scoresAxis is the axis of the scores that is an axis of the labels.
func scoresAxis(labels int) int {
	if labels == 0 {
		return 0
	}
	return labels + 1
}

// sumClassLoss: the sum over labels. With weights or labels that are ignored, what a mean
// divides by depends on data.
func sumClassLoss(c *Call, axes []int) *Sum {
	reduction, labels := c.Str("reduction", "mean"), axes[1]
	switch {
	case labels == Whole && axes[0] == 0:
		labels = 0
	case labels == Whole && axes[0] > 1:
		labels = axes[0] - 1
	}
	if reduction == "none" || labels == Whole || len(c.Out) > 1 && c.Out[1].Present {
		return nil
	}
	scores := scoresAxis(labels)
	sum := &Sum{By: "Add", In: c.rowsOfOne(1, Same(labels, c.length(1, labels))), Length: c.length(1, labels)}
	sum.In[0] = Same(scores, c.length(0, scores))
	if reduction == "sum" {
		return sum
	}
	if c.Has(2) || c.HasAttr("ignore_index") || !divides(c.In[0].Elem) {
		return nil
	}
	sum.Mean, sum.Count = true, count(exactLengths(c.In[1].Shape))
	sum.Change = func(_, _ int64) Change {
		return Change{Attrs: []*graph.Attr{{Name: "reduction", Type: graph.AttrString, String: "sum"}}}
	}
	return sum
}
