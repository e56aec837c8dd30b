package ops

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// reductions lists the operators that reduce axes to length 1.
var reductions = family{"", []Op{
	{Name: "ReduceSum", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, Sum: sumReduce("Add"), Fold: foldReduce(Scalar{}, addChecked, addReals), Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceMean", Class: Reduce, Infer: inferReduce, Cut: cutReduce, Sum: sumMean, Views: viewReduce, FLOPs: perElement(1), Joins: true},
	{Name: "ReduceProd", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, Fold: foldReduce(Scalar{I: 1, F: 1}, mulChecked, mulReals), Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceMax", Class: Reduce, Infer: inferReduce, Cut: cutReduce, Sum: sumReduce("Max"), Fold: foldReduce(hiddenScalar, maxInts, math.Max), Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceMin", Class: Reduce, Infer: inferReduce, Cut: cutReduce, Sum: sumReduce("Min"), Fold: foldReduce(hiddenScalar, minInts, math.Min), Views: viewReduce, FLOPs: perElement(1)},

	// These change an element even if nothing is reduced.
	{Name: "ReduceSumSquare", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, Sum: sumReduce("Add"), FLOPs: perElement(2)},
	{Name: "ReduceL1", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, Sum: sumReduce("Add"), FLOPs: perElement(2)},
	{Name: "ReduceL2", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, FLOPs: perElement(2)},
	{Name: "ReduceLogSum", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, FLOPs: perElement(1)},
	{Name: "ReduceLogSumExp", Class: Reduce, Precision: Full, Infer: inferReduce, Cut: cutReduce, FLOPs: perElement(2)},
}}

// inferReduce: the axes are an attribute before opset 13 (ReduceSum) or 18 (the
// others), then an input. Without axes all are reduced, or none if
// noop_with_empty_axes is set.
func inferReduce(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	list, err := c.list("axes", 1)
	if err != nil {
		return err
	}
	keep := c.Int("keepdims", 1) != 0
	all := list.counted && len(list.elems) == 0 && c.Int("noop_with_empty_axes", 0) == 0
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		if all && !keep {
			c.Set(0, in.Elem, nil)
		}
		return nil
	}
	rank := len(in.Shape)
	if list.counted && len(list.elems) > max(rank, 1) {
		return c.Errf("axes names %d axes, but input 0 has shape %s", len(list.elems), graph.ShapeString(in.Shape))
	}
	reduced, known, err := reducedAxes(c, list)
	switch {
	case err != nil:
		return err
	case known:
		c.Set(0, in.Elem, reduceShape(in.Shape, reduced, keep))
	case keep:
		shape := make([]graph.Dim, rank)
		for k, d := range in.Shape {
			shape[k] = unionDim(d, 1)
		}
		c.Set(0, in.Elem, shape)
	case list.counted:
		c.Set(0, in.Elem, span(in.Shape, rank-len(list.elems)))
	default:
		c.SetUnranked(0, in.Elem)
	}
	return nil
}

// reducedAxes reports for each axis of input 0 whether it is reduced; known is
// false if that depends on data.
func reducedAxes(c *Call, list intList) (reduced []bool, known bool, err error) {
	rank := len(c.In[0].Shape)
	reduced = make([]bool, rank)
	axes, known := list.ints()
	switch {
	case !known && list.counted && len(list.elems) >= rank, list.counted && len(list.elems) == 0 && c.Int("noop_with_empty_axes", 0) == 0:
		for k := range reduced {
			reduced[k] = true
		}
		return reduced, true, nil
	case !known:
		return nil, false, nil
	}
	reduced, err = attr.AxisSet("axes", axes, rank)
	return reduced, true, err
}

// reduceShape is shape with the reduced axes of length 1, or removed.
func reduceShape(shape []graph.Dim, reduced []bool, keep bool) []graph.Dim {
	out := make([]graph.Dim, 0, len(shape))
	for k, d := range shape {
		switch {
		case !reduced[k]:
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// viewReduce: a view if only axes of length 1 are reduced, and the operator
// leaves a single element unchanged.
func viewReduce(c *Call) []graph.Alias {
	list, err := c.list("axes", 1)
	if err != nil || len(c.In) == 0 || !c.In[0].Ranked {
		return nil
	}
	reduced, known, err := reducedAxes(c, list)
	if err != nil || !known {
		return nil
	}
	for k, d := range c.In[0].Shape {
		if reduced[k] && d != 1 {
			return nil
		}
	}
	return firstView(c)
}

// foldReduce folds a reduction that starts from an element (hidden: from the
// first one) and combines the others by a function of integers or reals.
func foldReduce(start Scalar, onInts func(a, b int64) (int64, bool), onReals func(a, b float64) float64) func(c *Call) {
	return func(c *Call) {
		v := c.Arg(0).Value
		list, err := c.list("axes", 1)
		if v == nil || err != nil {
			return
		}
		reduced, known, err := reducedAxes(c, list)
		to, small := c.outShape(0)
		if err != nil || !known || !small || len(reduced) != len(v.Shape) {
			return
		}
		shape := make([]int64, len(v.Shape))
		for k, n := range v.Shape {
			if shape[k] = n; reduced[k] {
				shape[k] = 1
			}
		}
		out := &Value{Shape: shape, Elems: make([]Scalar, count(shape))}
		seen := make([]bool, len(out.Elems))
		for i := range out.Elems {
			out.Elems[i] = start
			seen[i] = start.State == Known
		}
		index := make([]int64, len(v.Shape))
		for _, e := range v.Elems {
			to := broadcastPlace(index, shape)
			if seen[to] {
				e = combine(c.In[0].Elem, out.Elems[to], e, onInts, onReals)
			}
			out.Elems[to], seen[to] = e, true
			nextIndex(index, v.Shape)
		}
		c.SetValue(0, out.Reshaped(to))
	}
}

// broadcastPlace is the position, in a tensor whose axes of length 1 are
// broadcast, of the element at index.
func broadcastPlace(index, shape []int64) int64 {
	place := int64(0)
	for k, i := range index {
		if shape[k] == 1 {
			i = 0
		}
		place = place*shape[k] + i
	}
	return place
}

// reduced reports for each axis of input 0 whether it is reduced; nil if that is not
// known.
func (c *Call) reduced() []bool {
	list, err := c.list("axes", 1)
	if err != nil {
		return nil
	}
	reduced, known, err := reducedAxes(c, list)
	if err != nil || !known {
		return nil
	}
	return reduced
}

// keptAxis is the axis of a tensor that becomes an axis of its reduction.
func keptAxis(reduced []bool, keep bool, axis int) int {
	if keep {
		return axis
	}
	for k, gone := range reduced {
		if gone && k <= axis {
			axis++
		}
	}
	return axis
}

// cutReduce: the axes that are not reduced.
func cutReduce(c *Call, axis int) *Cut {
	reduced := c.reduced()
	from := keptAxis(reduced, c.Int("keepdims", 1) != 0, axis)
	if reduced == nil || reduced[from] {
		return nil
	}
	cut := c.cut(axis)
	cut.In[0] = Same(from, c.length(0, from))
	return cut
}

// sumReduce returns the column Sum of a reduction of which two results are combined by
// an operator of elements.
func sumReduce(by string) func(c *Call, axes []int) *Sum {
	return func(c *Call, axes []int) *Sum {
		reduced, axis, elem := c.reduced(), axes[0], c.In[0].Elem
		if reduced == nil || axis == Whole || !reduced[axis] || elem == graph.Bool || c.before(12) && !elem.Floating() {
			return nil
		}
		n := c.length(0, axis)
		return &Sum{By: by, In: c.rowsOfOne(0, Same(axis, n)), Length: n}
	}
}

// sumMean: a copy adds. The axes of a ReduceSum are an input from opset 13 on.
func sumMean(c *Call, axes []int) *Sum {
	sum := sumReduce("Add")(c, axes)
	if sum == nil || !divides(c.In[0].Elem) {
		return nil
	}
	var list []int64
	sum.Mean, sum.Count = true, 1
	for k, gone := range c.reduced() {
		if gone {
			list = append(list, int64(k))
			sum.Count *= c.length(0, k)
		}
	}
	sum.Change = func(_, _ int64) Change { return c.toReduceSum(list) }
	return sum
}

// divides reports whether a mean may be computed as a sum that is divided: the type has
// room for the sum.
func divides(elem graph.DType) bool { return elem == graph.Float32 || elem == graph.Float64 }

// toReduceSum returns the change that makes a node a ReduceSum over the given axes. Its
// axes are an input from opset 13 on.
func (c *Call) toReduceSum(axes []int64) Change {
	if c.before(13) {
		return Change{Op: "ReduceSum", Attrs: []*graph.Attr{intsAttr("axes", axes)}}
	}
	return Change{Op: "ReduceSum", Drop: []string{"axes"}, Inputs: map[int][]int64{1: axes}}
}
