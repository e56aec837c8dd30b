package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// scattering lists the operators that replace elements at positions given by an
// input.
var scattering = family{"", []Op{
	{Name: "Scatter", Class: Scatter, Updates: true, Infer: inferScatterElements, Cut: cutScatterElements, Fold: foldScatterElements, Inplace: overFirst},
	{Name: "ScatterElements", Class: Scatter, Updates: true, Infer: inferScatterElements, Cut: cutScatterElements, Fold: foldScatterElements, Inplace: overFirst, Check: checkReduction},
	{Name: "ScatterND", Class: Scatter, Updates: true, Infer: inferScatterND, Cut: cutScatterND, Fold: foldScatterND, Inplace: overFirst, Check: checkReduction},
	{Name: "TensorScatter", Class: Scatter, Updates: true, Infer: inferTensorScatter, Cut: cutTensorScatter, Inplace: overFirst, Check: checkTensorScatter},
}}

// inferScatterElements: Scatter (opsets 9 and 10) and ScatterElements. The
// output is the data with some elements replaced.
func inferScatterElements(c *Call) error {
	if err := indexed(c, 3); err != nil {
		return err
	}
	if err := c.sameElem(0, 2); err != nil {
		return err
	}
	if err := elementwiseIndices(c); err != nil {
		return err
	}
	if c.In[1].Ranked {
		if err := c.WantShape(2, "the shape of input 1", c.In[1].Shape...); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// inferScatterND: each tuple along the last axis of the indices selects a slice
// of the data, which a slice of the updates replaces.
func inferScatterND(c *Call) error {
	if err := indexed(c, 3); err != nil {
		return err
	}
	if err := c.MinRank(1, 1); err != nil {
		return err
	}
	if err := c.sameElem(0, 2); err != nil {
		return err
	}
	tuple, err := tupleLength(c, 0)
	if err != nil {
		return err
	}
	if data, indices := c.In[0], c.In[1]; data.Ranked && indices.Ranked && tuple.Exact() {
		want := slices.Concat(indices.Shape[:len(indices.Shape)-1], data.Shape[tuple:])
		if err := c.WantShape(2, "the tuples of input 1, the slices of input 0", want...); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// inferTensorScatter (opset 24 on): the cache after the update was written into
// it.
func inferTensorScatter(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	cache, update := c.In[0], c.In[1]
	if !cache.Ranked {
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", -2), len(cache.Shape))
	if err != nil {
		return err
	}
	if axis == 0 {
		return c.Errf("axis is %d, expected an axis other than the batch", c.Int("axis", -2))
	}
	if n := c.DimOf(1, axis); n.Exact() && cache.Shape[axis].Exact() && n > cache.Shape[axis] {
		return c.BadInput(1, "at most %v on axis %d to fit input 0 %s", cache.Shape[axis], axis, graph.ShapeString(cache.Shape))
	}
	if update.Ranked && len(update.Shape) == len(cache.Shape) {
		if err := c.WantShape(1, "the shape of input 0 but for the sequence", with(cache.Shape, axis, update.Shape[axis])...); err != nil {
			return err
		}
	} else if err := c.WantRank(1, len(cache.Shape)); err != nil {
		return err
	}
	return c.WantShape(2, "an index for each of the batch", cache.Shape[0])
}

// checkReduction: an update replaces an element, or is combined with it.
func checkReduction(c *Call) error {
	_, err := c.OneOf("reduction", "none", "none", "add", "mul", "min", "max")
	return err
}

// checkTensorScatter: the update ends at the end of the cache, or wraps around to
// its beginning.
func checkTensorScatter(c *Call) error {
	_, err := c.OneOf("mode", "linear", "linear", "circular")
	return err
}

func foldScatterElements(c *Call) {
	data, indices, updates := c.Arg(0).Value, c.Arg(1).Value, c.Arg(2).Value
	if data == nil || indices == nil || len(data.Shape) != len(indices.Shape) {
		return
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(data.Shape))
	if err != nil {
		return
	}
	to := make([]int64, len(data.Shape))
	scatter(c, data, indices.Shape, func(at []int64) ([]int64, Scalar, bool) {
		copy(to, at)
		var ok bool
		to[axis], ok = wrapIndex(indices.at(at), data.Shape[axis])
		return to, updates.at(at), ok
	})
}

func foldScatterND(c *Call) {
	data, indices, updates := c.Arg(0).Value, c.Arg(1).Value, c.Arg(2).Value
	if data == nil || indices == nil || len(indices.Shape) == 0 {
		return
	}
	last := len(indices.Shape) - 1
	tuple := indices.Shape[last]
	if tuple > int64(len(data.Shape)) {
		return
	}
	shape := slices.Concat(indices.Shape[:last], data.Shape[tuple:])
	to := make([]int64, len(data.Shape))
	tupleAt := make([]int64, last+1)
	scatter(c, data, shape, func(at []int64) ([]int64, Scalar, bool) {
		copy(tupleAt, at[:last])
		copy(to[tuple:], at[last:])
		for j := range tuple {
			tupleAt[last] = j
			var ok bool
			if to[j], ok = wrapIndex(indices.at(tupleAt), data.Shape[j]); !ok {
				return nil, Scalar{}, false
			}
		}
		return to, updates.at(at), true
	})
}

// scatter sets output 0 to data with the updates of an index space applied.
// Nothing is known of the result if one of the positions is unknown.
func scatter(c *Call, data *Value, shape []int64, update func(at []int64) (to []int64, e Scalar, ok bool)) {
	n := count(shape)
	if n < 0 || n > FoldLimit || len(data.Elems) > FoldLimit {
		return
	}
	out := &Value{Shape: data.Shape, Elems: slices.Clone(data.Elems)}
	reduction := c.Str("reduction", "none")
	at := make([]int64, len(shape))
	for range n {
		to, e, ok := update(at)
		if !ok {
			return
		}
		place := int64(0)
		for k, i := range to {
			if i >= data.Shape[k] {
				return
			}
			place = place*data.Shape[k] + i
		}
		old := &out.Elems[place]
		switch elem := c.In[0].Elem; reduction {
		case "none", "":
			*old = e
		case "add":
			*old = combine(elem, *old, e, addChecked, addReals)
		case "mul":
			*old = combine(elem, *old, e, mulChecked, mulReals)
		case "max":
			*old = combine(elem, *old, e, maxInts, math.Max)
		case "min":
			*old = combine(elem, *old, e, minInts, math.Min)
		default:
			return
		}
		nextIndex(at, shape)
	}
	c.fill(0, out.at)
}

// cutScatterElements: any axis but the indexed one, along which the indices are as long
// as the data.
func cutScatterElements(c *Call, axis int) *Cut {
	if axis == c.axisAttr(0, len(c.In[0].Shape)) || c.In[1].Shape[axis] != c.In[0].Shape[axis] {
		return nil
	}
	cut := c.cut(axis)
	for i := range cut.In {
		cut.In[i] = Same(axis, c.length(i, axis))
	}
	return cut
}

// cutScatterND: the axes of a slice that a tuple selects.
func cutScatterND(c *Call, axis int) *Cut {
	last := len(c.In[1].Shape) - 1
	tuple := int(c.length(1, last))
	if axis < tuple {
		return nil
	}
	cut := c.same(axis)
	cut.In[2] = Same(last+axis-tuple, c.length(2, last+axis-tuple))
	return cut
}

// cutTensorScatter: any axis but that of the sequence.
func cutTensorScatter(c *Call, axis int) *Cut {
	if axis == c.axisAttr(-2, len(c.In[0].Shape)) {
		return nil
	}
	cut := c.same(axis)
	cut.In[1] = Same(axis, c.length(1, axis))
	if axis == 0 && c.Has(2) {
		cut.In[2] = Same(0, c.length(2, 0))
	}
	return cut
}
