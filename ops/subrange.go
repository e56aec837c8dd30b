package ops

import "github.com/onnxmem/onnxmem/graph"

// allExact reports whether the types of all inputs and outputs are exact tensors.
func (c *Call) allExact() bool {
	for _, list := range [][]Arg{c.In, c.Out} {
		for i := range list {
			if list[i].Present && !list[i].Exact() {
				return false
			}
		}
	}
	return true
}

// rowBytes is the size of one row along an axis of a tensor whose rows lie one after the
// other: all lengths before the axis are 1 and elements have whole bytes. ok is false for
// other tensors, and for those without elements.
func rowBytes(t graph.Type, axis int) (bytes int64, ok bool) {
	bits := t.Elem.Bits()
	if axis < 0 || axis >= len(t.Shape) || bits == 0 || bits%8 != 0 || t.Elem == graph.String {
		return 0, false
	}
	bytes = bits / 8
	for k, d := range t.Shape {
		switch {
		case d == 0 || k < axis && d != 1:
			return 0, false
		case k > axis:
			bytes *= int64(d) // the tensor has a size, so a part of it has one
		}
	}
	return bytes, true
}

// rangesOfConcat: each operand is a part of the result.
func rangesOfConcat(c *Call) []graph.SubRange {
	if len(c.Out) == 0 {
		return nil
	}
	axis := c.axisAttr(1, len(c.Out[0].Shape))
	row, ok := rowBytes(c.Out[0].Type, axis)
	if !ok {
		return nil
	}
	var list []graph.SubRange
	at := int64(0)
	for i := range c.In {
		if bytes := c.length(i, axis) * row; bytes > 0 {
			list = append(list, graph.SubRange{In: i, At: at, Bytes: bytes})
			at += bytes
		}
	}
	return list
}

// rangesOfSplit: each result is a part of the operand.
func rangesOfSplit(c *Call) []graph.SubRange {
	axis := c.axisAttr(0, len(c.In[0].Shape))
	row, ok := rowBytes(c.In[0].Type, axis)
	if !ok {
		return nil
	}
	parts := make([]graph.Dim, len(c.Out))
	lengths, err := c.list("split", 1)
	if err != nil {
		return nil
	}
	if parts, err = splitParts(c, c.In[0].Shape[axis], lengths, len(parts)); err != nil {
		return nil
	}
	var list []graph.SubRange
	from := int64(0)
	for i := range c.Out {
		if !parts[i].Exact() {
			return nil
		}
		bytes := int64(parts[i]) * row
		if c.Out[i].Present && bytes > 0 {
			list = append(list, graph.SubRange{Out: i, From: from, Bytes: bytes})
		}
		from += bytes
	}
	return list
}

// rangesOfSlice: one axis is cut, with step 1, and the rows of the result follow each
// other in the operand.
func rangesOfSlice(c *Call) []graph.SubRange {
	cuts, known, err := sliceCuts(c)
	if err != nil || !known || len(cuts) != len(c.In[0].Shape) || len(c.Out) == 0 {
		return nil
	}
	axis, first := -1, int64(0)
	for k, t := range cuts {
		d := int64(c.In[0].Shape[k])
		if t == whole {
			continue
		}
		if t.start.State != Known || t.end.State != Known || t.step.State != Known {
			return nil
		}
		from, _ := bounds(d, t.start.I, t.end.I, t.step.I)
		switch n := sliceLen(d, t.start.I, t.end.I, t.step.I); {
		case n == d && (t.step.I > 0 || n == 1):
			continue
		case n < 1 || t.step.I != 1 && n != 1 || axis >= 0:
			return nil
		}
		axis, first = k, from
	}
	row, ok := rowBytes(c.In[0].Type, axis)
	if !ok {
		return nil
	}
	return []graph.SubRange{{From: first * row, Bytes: int64(c.Out[0].Shape[axis]) * row}}
}

// rangesOfGather: one known index takes one row.
func rangesOfGather(c *Call) []graph.SubRange {
	axis := c.axisAttr(0, len(c.In[0].Shape))
	row, ok := rowBytes(c.In[0].Type, axis)
	if !ok || len(c.Out) == 0 || c.In[1].Value == nil || len(c.In[1].Value.Elems) != 1 {
		return nil
	}
	index, ok := wrapIndex(c.In[1].Value.Elems[0], int64(c.In[0].Shape[axis]))
	if !ok {
		return nil
	}
	return []graph.SubRange{{From: index * row, Bytes: row}}
}
