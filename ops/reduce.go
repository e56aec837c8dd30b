package ops

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// reductions is the operators that work along axes.
var reductions = family{"", []Op{
	{Name: "ReduceSum", Infer: inferReduce, Fold: foldReduce(Scalar{}, addChecked, addReals), Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceMean", Infer: inferReduce, Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceProd", Infer: inferReduce, Fold: foldReduce(Scalar{I: 1, F: 1}, mulChecked, mulReals), Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceMax", Infer: inferReduce, Fold: foldReduce(hiddenScalar, maxInts, math.Max), Views: viewReduce, FLOPs: perElement(1)},
	{Name: "ReduceMin", Infer: inferReduce, Fold: foldReduce(hiddenScalar, minInts, math.Min), Views: viewReduce, FLOPs: perElement(1)},

	// These change an element even where there is nothing to reduce.
	{Name: "ReduceSumSquare", Infer: inferReduce, FLOPs: perElement(2)},
	{Name: "ReduceL1", Infer: inferReduce, FLOPs: perElement(2)},
	{Name: "ReduceL2", Infer: inferReduce, FLOPs: perElement(2)},
	{Name: "ReduceLogSum", Infer: inferReduce, FLOPs: perElement(1)},
	{Name: "ReduceLogSumExp", Infer: inferReduce, FLOPs: perElement(2)},

	{Name: "ArgMax", Infer: inferArg, Fold: foldArg(1), Check: checkArg},
	{Name: "ArgMin", Infer: inferArg, Fold: foldArg(-1), Check: checkArg},

	{Name: "CumSum", Infer: inferCumulate, Fold: foldCumulate(Scalar{}, addChecked, addReals), Inplace: overFirst, FLOPs: perElement(1)},
	{Name: "CumProd", Infer: inferCumulate, Fold: foldCumulate(Scalar{I: 1, F: 1}, mulChecked, mulReals), Inplace: overFirst, FLOPs: perElement(1)},

	{Name: "Softmax", Infer: inferSoftmax, Inplace: overFirst, FLOPs: perElement(5)},
	{Name: "LogSoftmax", Infer: inferSoftmax, Inplace: overFirst, FLOPs: perElement(5)},
	{Name: "Hardmax", Infer: inferSoftmax, Inplace: overFirst, FLOPs: perElement(1)},
	{Name: "LpNormalization", Infer: inferLpNormalization, Inplace: overFirst, FLOPs: perElement(3)},
	{Name: "Trilu", Infer: inferTrilu, Inplace: overFirst},
}}

// inferReduce: the axes are an attribute before opset 13 (ReduceSum) or 18
// (the others), then an input. None stated means all, unless
// noop_with_empty_axes says none.
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

// reducedAxes tells for each axis of input 0 whether it is reduced; known is
// false when that depends on data.
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
	reduced, err = c.axisSet("axes", axes, rank)
	return reduced, true, err
}

// reduceShape is shape with the reduced axes of length 1, or left out.
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

// viewReduce: only axes of length 1 are reduced, by an operator that leaves a
// single element as it is.
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
// first one) and takes the others in by a function of integers or reals.
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
			next(index, v.Shape)
		}
		c.SetValue(0, out.Reshaped(to))
	}
}

// broadcastPlace is where the element of a tensor stands that index sees when
// axes of length 1 are broadcast.
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

// inferArg gives int64 indices along one axis.
func inferArg(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	if !in.Ranked {
		c.SetUnranked(0, graph.Int64)
		return nil
	}
	reduced := make([]bool, len(in.Shape))
	if len(in.Shape) > 0 {
		axis, err := c.Axis("axis", c.Int("axis", 0), len(in.Shape))
		if err != nil {
			return err
		}
		reduced[axis] = true
	}
	c.Set(0, graph.Int64, reduceShape(in.Shape, reduced, c.Int("keepdims", 1) != 0))
	return nil
}

// checkArg: the best of some elements has a place.
func checkArg(c *Call) error {
	if elements(c.In[0].Type) == 0 {
		return c.BadInput(0, "elements on axis %d", c.Int("axis", 0))
	}
	return nil
}

// foldArg finds the largest (sign 1) or least (-1) of known elements.
func foldArg(sign int) func(c *Call) {
	return func(c *Call) {
		v := c.Arg(0).Value
		if v == nil || !allKnown(v.Elems) || len(v.Shape) == 0 || c.In[0].Elem == graph.Uint64 {
			return
		}
		axis, err := c.Axis("axis", c.Int("axis", 0), len(v.Shape))
		if err != nil {
			return
		}
		last := c.Int("select_last_index", 0) != 0
		keep := c.Int("keepdims", 1) != 0
		from := make([]int64, len(v.Shape))
		c.fill(0, func(at []int64) Scalar {
			copy(from, at)
			if !keep {
				copy(from[axis+1:], at[axis:])
			}
			best, found := Scalar{}, hiddenScalar
			for i := range v.Shape[axis] {
				from[axis] = i
				e := v.at(from)
				order := sign * orderOf(e, best)
				if found.State == Hidden || order > 0 || order == 0 && last {
					best, found = e, Scalar{I: i}
				}
			}
			return found
		})
	}
}

// orderOf compares two known elements of one type.
func orderOf(a, b Scalar) int {
	switch {
	case a.I < b.I || a.F < b.F:
		return -1
	case a.I > b.I || a.F > b.F:
		return 1
	}
	return 0
}

// inferCumulate: the axis is an input; the output is like the input.
func inferCumulate(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	axis, err := c.scalar(1)
	if err != nil {
		return err
	}
	if in := c.In[0]; in.Ranked && axis.State == Known {
		if _, err := c.Axis("axis", axis.I, len(in.Shape)); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// foldCumulate folds a running sum or product.
func foldCumulate(start Scalar, onInts func(a, b int64) (int64, bool), onReals func(a, b float64) float64) func(c *Call) {
	return func(c *Call) {
		v := c.Arg(0).Value
		along, ok := c.Arg(1).Value.Int()
		if v == nil || !ok || len(v.Shape) == 0 {
			return
		}
		axis, err := c.Axis("axis", along, len(v.Shape))
		if err != nil {
			return
		}
		n := v.Shape[axis]
		exclusive, reverse := c.Int("exclusive", 0) != 0, c.Int("reverse", 0) != 0
		sums := map[string]Scalar{} // of each line, as far as it was walked
		out := &Value{Shape: v.Shape, Elems: make([]Scalar, len(v.Elems))}
		index := make([]int64, len(v.Shape))
		from := make([]int64, len(v.Shape))
		for range v.Elems {
			copy(from, index)
			if reverse {
				from[axis] = n - 1 - index[axis]
			}
			key := lineKey(from, axis)
			sum, seen := sums[key]
			if !seen {
				sum = start
			}
			e := combine(c.In[0].Elem, sum, v.at(from), onInts, onReals)
			place := &out.Elems[broadcastPlace(from, v.Shape)]
			if *place = e; exclusive {
				*place = sum
			}
			sums[key] = e
			next(index, v.Shape)
		}
		c.fill(0, out.at)
	}
}

// inferSoftmax: the output is like the input. Before opset 13 the axis cuts
// the shape in two, 1 by default; since, it is the one that is worked along.
func inferSoftmax(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	otherwise, most := int64(-1), 0
	if c.before(13) {
		otherwise, most = 1, 1
	}
	return alongAxis(c, c.Int("axis", otherwise), most)
}

// inferLpNormalization: the output is like the input.
func inferLpNormalization(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if p := c.Int("p", 2); p != 1 && p != 2 {
		return c.Errf("p is %d, expected 1 or 2", p)
	}
	return alongAxis(c, c.Int("axis", -1), 0)
}

// alongAxis gives output 0 the type of input 0 and checks the axis, which may
// be more past the last. A scalar has an axis for this purpose.
func alongAxis(c *Call, axis int64, more int) error {
	in := c.In[0]
	if in.Ranked && axis != int64(len(in.Shape)-1+more) {
		if _, err := c.Axis("axis", axis, max(len(in.Shape), 1)); err != nil {
			return err
		}
	}
	c.SetType(0, in.Type)
	return nil
}

// inferTrilu: the output is like the input.
func inferTrilu(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	if c.Has(1) {
		if _, err := c.scalar(1); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}
