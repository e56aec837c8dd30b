package ops

import "github.com/onnxmem/onnxmem/ops/attr"

// cumulations compute running sums and products along an axis.
var cumulations = family{"", []Op{
	{Name: "CumSum", Class: Reduce, Precision: Full, Infer: inferCumulate, Cut: cutCumulate, Fold: foldCumulate(Scalar{}, addChecked, addReals), Inplace: overFirst, FLOPs: perElement(1)},
	{Name: "CumProd", Class: Reduce, Precision: Full, Infer: inferCumulate, Cut: cutCumulate, Fold: foldCumulate(Scalar{I: 1, F: 1}, mulChecked, mulReals), Inplace: overFirst, FLOPs: perElement(1)},
}}

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
		if _, err := attr.Axis("axis", axis.I, len(in.Shape)); err != nil {
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
		axis, err := attr.Axis("axis", along, len(v.Shape))
		if err != nil {
			return
		}
		n := v.Shape[axis]
		exclusive, reverse := c.Int("exclusive", 0) != 0, c.Int("reverse", 0) != 0
		sums := map[string]Scalar{} // running sum or product of each line
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
			nextIndex(index, v.Shape)
		}
		c.fill(0, out.at)
	}
}

// cutCumulate: any axis but its own.
func cutCumulate(c *Call, axis int) *Cut {
	along, known := c.In[1].Value.Int()
	own, err := attr.Axis("axis", along, len(c.In[0].Shape))
	if !known || err != nil || own == axis {
		return nil
	}
	return c.same(axis)
}
