package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// indexing lists the operators that read elements at positions given by an input.
var indexing = family{"", []Op{
	{Name: "Gather", Class: Move, Infer: inferGather, Cut: cutGather, Fold: foldGather, Ranges: rangesOfGather, ReadsOutput: true, ReadsRows: true, Moves: true, Weights: []int{0}, Kinds: []string{"embedding"}},
	{Name: "GatherElements", Class: Move, Infer: inferGatherElements, Cut: cutGatherElements, Fold: foldGatherElements, ReadsOutput: true, Moves: true},
	{Name: "GatherND", Class: Move, Infer: inferGatherND, Cut: cutGatherND, Fold: foldGatherND, ReadsOutput: true, ReadsRows: true, Moves: true},
	{Name: "ReverseSequence", Class: Move, Infer: inferReverseSequence},
}}

// indexed checks data and indices, the first two inputs of the Gather and
// Scatter operators.
func indexed(c *Call, inputs int) error {
	if err := c.Tensors(inputs); err != nil {
		return err
	}
	if e := c.In[1].Elem; e != graph.Undefined && e != graph.Int64 && e != graph.Int32 {
		return c.Errf("input 1%s has elements of type %v, expected int32 or int64", c.inputName(1), e)
	}
	return c.MinRank(0, 1)
}

// inferGather replaces the axis by the shape of the indices.
func inferGather(c *Call) error {
	if err := indexed(c, 2); err != nil {
		return err
	}
	data, indices := c.In[0], c.In[1]
	if !data.Ranked {
		c.SetUnranked(0, data.Elem)
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(data.Shape))
	if err != nil {
		return err
	}
	if !indices.Ranked {
		c.SetUnranked(0, data.Elem)
		return nil
	}
	c.Set(0, data.Elem, slices.Concat(data.Shape[:axis], indices.Shape, data.Shape[axis+1:]))
	return nil
}

func foldGather(c *Call) {
	data, indices := c.Arg(0).Value, c.Arg(1).Value
	if data == nil || indices == nil {
		return
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(data.Shape))
	if err != nil {
		return
	}
	q := len(indices.Shape)
	from := make([]int64, len(data.Shape))
	c.fill(0, func(at []int64) Scalar {
		if len(at) != len(from)-1+q {
			return hiddenScalar
		}
		copy(from, at[:axis])
		copy(from[axis+1:], at[axis+q:])
		var ok bool
		if from[axis], ok = wrapIndex(indices.at(at[axis:axis+q]), data.Shape[axis]); !ok {
			return hiddenScalar
		}
		return data.at(from)
	})
}

// inferGatherElements: the output has the shape of the indices.
func inferGatherElements(c *Call) error {
	if err := indexed(c, 2); err != nil {
		return err
	}
	data, indices := c.In[0], c.In[1]
	if err := elementwiseIndices(c); err != nil {
		return err
	}
	if !indices.Ranked {
		c.SetUnranked(0, data.Elem)
		if data.Ranked {
			c.Set(0, data.Elem, unknowns(len(data.Shape)))
		}
		return nil
	}
	c.Set(0, data.Elem, indices.Shape)
	return nil
}

// elementwiseIndices checks the indices of GatherElements and ScatterElements:
// they have the rank of the data, and only along the indexed axis may they be
// longer than it.
func elementwiseIndices(c *Call) error {
	data, indices := c.In[0], c.In[1]
	if !data.Ranked {
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(data.Shape))
	if err != nil || !indices.Ranked {
		return err
	}
	if len(indices.Shape) != len(data.Shape) {
		return c.BadInput(1, "rank %d to match input 0 %s", len(data.Shape), graph.ShapeString(data.Shape))
	}
	for k, d := range indices.Shape {
		if n := data.Shape[k]; k != axis && d.Exact() && n.Exact() && d > n {
			return c.BadInput(1, "at most %v on axis %d to match input 0 %s", n, k, graph.ShapeString(data.Shape))
		}
	}
	return nil
}

func foldGatherElements(c *Call) {
	data, indices := c.Arg(0).Value, c.Arg(1).Value
	if data == nil || indices == nil || len(data.Shape) != len(indices.Shape) {
		return
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(data.Shape))
	if err != nil {
		return
	}
	from := make([]int64, len(data.Shape))
	c.fill(0, func(at []int64) Scalar {
		copy(from, at)
		var ok bool
		if from[axis], ok = wrapIndex(indices.at(at), data.Shape[axis]); !ok {
			return hiddenScalar
		}
		return data.at(from)
	})
}

// inferGatherND: each tuple along the last axis of the indices selects a slice of
// the data after the batch axes.
func inferGatherND(c *Call) error {
	if err := indexed(c, 2); err != nil {
		return err
	}
	if err := c.MinRank(1, 1); err != nil {
		return err
	}
	data, indices := c.In[0], c.In[1]
	batch := c.Int("batch_dims", 0)
	if batch < 0 || data.Ranked && batch >= int64(len(data.Shape)) || indices.Ranked && batch >= int64(len(indices.Shape)) {
		return c.Errf("batch_dims is %d, expected 0 or more and less than the ranks of input 0 and input 1", batch)
	}
	tuple, err := tupleLength(c, int(batch))
	if err != nil {
		return err
	}
	if !data.Ranked || !indices.Ranked || !tuple.Exact() {
		c.SetUnranked(0, data.Elem)
		return nil
	}
	last := len(indices.Shape) - 1
	shape := slices.Concat(indices.Shape[:last], data.Shape[int(batch)+int(tuple):])
	for k := range int(batch) {
		if differ(indices.Shape[k], data.Shape[k]) {
			return c.BadInput(1, "%v on batch axis %d to match input 0 %s", data.Shape[k], k, graph.ShapeString(data.Shape))
		}
		shape[k] = TakeDim(indices.Shape[k], data.Shape[k])
	}
	c.Set(0, data.Elem, shape)
	return nil
}

// tupleLength is the last length of the indices of GatherND and ScatterND: the
// number of axes of the data, after the batch axes, that a tuple selects.
func tupleLength(c *Call, batch int) (graph.Dim, error) {
	tuple := c.DimOf(1, -1)
	if !tuple.Exact() || !c.In[0].Ranked {
		return tuple, nil
	}
	if most := len(c.In[0].Shape) - batch; tuple < 1 || int64(tuple) > int64(most) {
		return 0, c.BadInput(1, "1 to %d on its last axis to name axes of input 0 %s", most, graph.ShapeString(c.In[0].Shape))
	}
	return tuple, nil
}

func foldGatherND(c *Call) {
	data, indices := c.Arg(0).Value, c.Arg(1).Value
	if data == nil || indices == nil || len(indices.Shape) == 0 {
		return
	}
	last := len(indices.Shape) - 1
	b, tuple := c.Int("batch_dims", 0), indices.Shape[last]
	if b < 0 || b > int64(last) || b+tuple > int64(len(data.Shape)) {
		return
	}
	batch := int(b)
	tupleAt := make([]int64, last+1)
	from := make([]int64, len(data.Shape))
	c.fill(0, func(at []int64) Scalar {
		if len(at) != last+len(from)-batch-int(tuple) {
			return hiddenScalar
		}
		copy(tupleAt, at[:last])
		copy(from, at[:batch])
		copy(from[batch+int(tuple):], at[last:])
		for j := range tuple {
			tupleAt[last] = j
			k := batch + int(j)
			var ok bool
			if from[k], ok = wrapIndex(indices.at(tupleAt), data.Shape[k]); !ok {
				return hiddenScalar
			}
		}
		return data.at(from)
	})
}

// inferReverseSequence: the output is like the input.
func inferReverseSequence(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	if err := c.WantRank(1, 1); err != nil {
		return err
	}
	batch, time := c.Int("batch_axis", 1), c.Int("time_axis", 0)
	if batch < 0 || batch > 1 || time != 1-batch {
		return c.Errf("batch_axis is %d and time_axis is %d, expected 0 and 1 or 1 and 0", batch, time)
	}
	if n := c.DimOf(0, int(batch)); differ(n, c.DimOf(1, 0)) {
		return c.BadInput(1, "[%v] to match input 0 %s", n, graph.ShapeString(c.In[0].Shape))
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// cutGather: the axes of the indices stand where that of the data was.
func cutGather(c *Call, axis int) *Cut {
	along, indices := c.axisAttr(0, len(c.In[0].Shape)), len(c.In[1].Shape)
	cut := c.cut(axis)
	switch {
	case axis < along:
		cut.In[0] = Same(axis, c.length(0, axis))
	case axis < along+indices:
		cut.In[1] = Same(axis-along, c.length(1, axis-along))
	default:
		from := axis - indices + 1
		cut.In[0] = Same(from, c.length(0, from))
	}
	return cut
}

// cutGatherElements: the indices are cut; so is the data, but along the indexed axis.
func cutGatherElements(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	cut.In[1] = Same(axis, c.length(1, axis))
	if axis != c.axisAttr(0, len(c.In[0].Shape)) {
		cut.In[0] = Same(axis, c.length(0, axis))
	}
	return cut
}

// cutGatherND: batch axes are those of both inputs, the others of the indices and then
// of the data.
func cutGatherND(c *Call, axis int) *Cut {
	batch, last := int(c.Int("batch_dims", 0)), len(c.In[1].Shape)-1
	cut := c.cut(axis)
	if axis < last {
		cut.In[1] = Same(axis, c.length(1, axis))
	}
	if axis < batch {
		cut.In[0] = Same(axis, c.length(0, axis))
	}
	if axis >= last {
		from := batch + int(c.length(1, last)) + axis - last
		cut.In[0] = Same(from, c.length(0, from))
	}
	return cut
}
